"""The documents of one state of an index on LanceDB."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice, takewhile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mergewise.errors import CorruptIndex
from mergewise.store import documents as d
from mergewise.store.copies import RepeatedTexts, copies_of, duplicates_of
from mergewise.store.damage import raising_store_errors
from mergewise.store.kept import Changes
from mergewise.store.lance_state import LanceState, sql_strings
from mergewise.store.manifest import Run, holds
from mergewise.store.mapped import IntArray
from mergewise.store.numbers import DocumentNumbers, sql_numbers
from mergewise.store.tables import NUMBER, rows_by_document
from mergewise.types import Document, DocumentInfo, DocumentRows, Duplicate, Known, Origin, Rows

DOCUMENTS_AT_ONCE = 1000
# number of recently read documents to cache, and their maximum length in characters
KEPT_DOCUMENTS, LONGEST_KEPT = 16, 200_000


@raising_store_errors
class LanceDocuments(LanceState):
    """The document methods of `StoreReader`."""

    gaps = ""

    @property
    def snapshot(self) -> str:
        return self._kept.once("snapshot", lambda: self.manifest.snapshot)

    def documents(self, prefix: str = "", after: str | None = None, limit: int | None = None) -> list[DocumentInfo]:
        columns = self._listed_columns()
        if not prefix and after is None and limit is None:
            return [d.info_from(row) for row in self.whole(d.DOCUMENTS, columns).sort_by("_number").to_pylist()]
        ids = self._kept.once("sorted ids", self._sorted_ids)

        def id_at(at: int) -> str:
            return str(ids[at])

        first = bisect_left(range(len(ids)), prefix, key=id_at)
        first = first if after is None else max(first, bisect_right(range(len(ids)), after, key=id_at))
        following = map(id_at, range(first, len(ids)))
        page = list(islice(takewhile(lambda doc_id: doc_id.startswith(prefix), following), limit))
        few = len(page) <= DOCUMENTS_AT_ONCE
        rows = self._document_records(page, columns) if few else self.whole(d.DOCUMENTS, columns).to_pylist()
        known = {row["id"]: row for row in rows}
        return [d.info_from(known[doc_id]) for doc_id in page]

    def _sorted_ids(self) -> pa.Array:
        """Return the ids in character order, which equals byte order."""
        ids = self.whole(d.DOCUMENTS, ["id"])["id"].combine_chunks()
        return ids.take(pc.sort_indices(ids))

    def document(self, doc_id: str) -> Document | None:
        return self.texts([doc_id]).get(doc_id)

    def texts(self, doc_ids: Sequence[str]) -> dict[str, Document]:
        known = {doc_id: known for doc_id in doc_ids if (known := self._documents.get(doc_id)) is not None}
        for row in self._document_records([doc_id for doc_id in doc_ids if doc_id not in known]):
            document = known[row["id"]] = d.document_from(row)
            if len(document.text) <= LONGEST_KEPT:
                self._documents[document.id] = document
        for oldest in list(self._documents)[:-KEPT_DOCUMENTS]:
            self._documents.pop(oldest, None)
        return known

    def infos(self, doc_ids: Sequence[str]) -> dict[str, DocumentInfo]:
        return {row["id"]: d.info_from(row) for row in self._document_records(doc_ids, self._listed_columns())}

    def known_documents(
        self, doc_ids: Sequence[str] = (), sources: Sequence[str] = (), below: Sequence[str] = ()
    ) -> list[Known]:
        asked = {"id": doc_ids, "_source": sources}
        parts = [f"{name} in ({sql_strings(values)})" for name, values in asked.items() if values]
        # the character after a slash is a zero
        parts += [
            f"_source >= {sql_strings([start])} and _source < {sql_strings([start[:-1] + '0'])}" for start in below
        ]
        condition = None if "" in below else " or ".join(parts) or None
        rows = self.whole(d.DOCUMENTS, ["id", "_digest", "_source", "_bytes", "_modified"], condition)
        return [
            Known(doc_id, digest, None if origin[0] is None else Origin(*origin))
            for doc_id, digest, *origin in zip(*(column.to_pylist() for column in rows.columns), strict=True)
        ]

    def _listed_columns(self) -> list[str]:
        return [name for name in self._schema(d.DOCUMENTS).names if name not in d.UNLISTED]

    def ids(self, where: str | None = None) -> list[str]:
        wanted = self.numbers(where)
        few = len(wanted) <= DOCUMENTS_AT_ONCE
        condition = f"_number in ({sql_numbers(wanted)})" if few and wanted else None
        rows = self.whole(d.DOCUMENTS, ["_number", "id"], condition).sort_by("_number")
        if where is not None:
            rows = rows.filter(pa.array(wanted.holds(rows["_number"].to_numpy())))
        return rows["id"].to_pylist()  # type: ignore[no-any-return]

    def sizes(self, doc_ids: Collection[str] | None = None) -> tuple[int, int]:
        few = doc_ids is not None and len(doc_ids) <= DOCUMENTS_AT_ONCE
        condition = f"id in ({sql_strings(doc_ids)})" if doc_ids is not None and few else None
        rows = self.whole(d.DOCUMENTS, ["id", "_leaves", "_characters"], condition)
        if doc_ids is not None and not few:
            rows = rows.filter(pc.is_in(rows["id"], pa.array(list(doc_ids), pa.string())))
        leaves, characters = (pc.sum(rows[name], min_count=0).as_py() for name in ("_leaves", "_characters"))
        return leaves, characters

    def unchanged_rows(self, rebuilt: Sequence[DocumentRows]) -> list[DocumentRows]:
        """Return the rebuilt rows of documents that are still in the index as they were. Metadata added since are kept."""
        built = {row.document.id: row for row in rebuilt}
        stored = (self._with_rows(row, {}) for row in self._document_records(list(built)))
        pairs = ((row, built[row.document.id]) for row in stored)
        return [replace(row, tables=own.tables) for row, own in pairs if _identity(row) == _identity(own)]

    def stored_records(self, doc_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return `_number`, `_first_id` and `_digest` of the documents that are in the index."""
        columns = ["id", "_number", "_first_id", "_digest"]
        return {row["id"]: row for row in self._document_records(doc_ids, columns)}

    def _document_records(self, doc_ids: Sequence[str], columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        if not doc_ids:
            return []
        altered = [doc_id for doc_id in self.manifest.altered if columns is None and doc_id in doc_ids]
        if altered:
            raise CorruptIndex(
                f"the text of {altered[0]!r} has changed since it was written", "index it again, or remove it"
            )
        rows = self.whole(d.DOCUMENTS, columns, f"id in ({sql_strings(doc_ids)})").to_pylist()
        order = {doc_id: at for at, doc_id in enumerate(doc_ids)}
        return sorted(rows, key=lambda row: order[row["id"]])

    def document_rows(self, doc_ids: Sequence[str]) -> list[DocumentRows]:
        documents = self._document_records(doc_ids)
        numbers = [row["_number"] for row in documents]
        condition = f"{NUMBER} in ({sql_numbers(numbers)})" if numbers else "false"
        rows_of = {
            name: rows_by_document(spec.table, self.whole(name, None, condition), numbers)
            for name, spec in self._specs.items()
        }
        return [self._with_rows(row, rows_of) for row in documents]

    def _with_rows(self, document: Mapping[str, Any], rows_of: Mapping[str, Mapping[int, Rows]]) -> DocumentRows:
        """Return a document with the rows of its views."""
        number = document["_number"]
        tables = {
            name: rows_of[name][number]
            for name, spec in self._specs.items()
            if name in rows_of and not holds(self.manifest.views[spec.view].missing, number)
        }
        language = document["_language"] or ""
        return DocumentRows(d.document_from(document), document["_digest"], tables, d.origin_from(document), language)

    def leaf_ranges(self, doc_ids: Sequence[str]) -> dict[str, range]:
        rows = self._document_records(doc_ids, ["id", "_first_id", "_leaves"])
        return {row["id"]: range(row["_first_id"], row["_first_id"] + row["_leaves"]) for row in rows}

    def numbered_in(self, runs: Sequence[Run]) -> list[str]:
        """Return the ids of the documents with numbers in the runs, in the order they were added."""
        if not runs:
            return []
        # one range around all runs: the database's parser hangs on a condition of very many parts
        condition = f"_number >= {runs[0][0]} and _number < {runs[-1][1]}"
        rows = self.whole(d.DOCUMENTS, ["_number", "id"], condition).sort_by("_number").to_pylist()
        return [row["id"] for row in rows if holds(runs, row["_number"])]

    def metadata_kinds(self) -> dict[str, type]:
        return d.metadata_kinds(self._schema(d.DOCUMENTS))

    # -- what documents have in common

    def copies(self, where: str | None = None) -> Mapping[int, int]:
        return self._kept.once("copies", lambda: self._read_copies(where), where)

    def _read_copies(self, where: str | None) -> Mapping[int, int]:
        repeated = self.repeated_texts()
        if where is None or not repeated.records:
            return repeated.copies
        return copies_of(repeated.records, self.numbers(where))

    def repeated_texts(self) -> RepeatedTexts:
        """Return the hashes of all texts, and the documents whose text occurs more than once."""
        return self._extend_or_make(
            "repeated texts",
            lambda: RepeatedTexts().with_changes(
                self.whole(d.DOCUMENTS, ["_number", "_content"]), DocumentNumbers.of(()), self.statements
            ),
            self._with_added_texts,
        )

    def _with_added_texts(self, older: RepeatedTexts, changes: Changes) -> RepeatedTexts | None:
        return older.with_changes(self._documents_from(changes.first_number), changes.gone, self.statements)

    def statements(self, numbers: IntArray) -> list[tuple[int, str, d.Statement]]:
        """Return number, id and statement of the documents with these numbers."""
        if not len(numbers):
            return []
        few = len(numbers) <= DOCUMENTS_AT_ONCE
        condition = f"_number in ({sql_numbers(numbers.tolist())})" if few else None
        rows = self.whole(d.DOCUMENTS, ["_number", "id", "title", "_content"], condition)
        wanted = rows.filter(pa.array(DocumentNumbers(numbers).holds(rows["_number"].to_numpy()))).to_pylist()
        return [(row["_number"], row["id"], d.statement_of(row["id"], row["title"], row["_content"])) for row in wanted]

    def duplicates(self) -> list[Duplicate]:
        return duplicates_of(self.repeated_texts().records, self.copies())

    def languages(self) -> Mapping[str, int]:
        return self._extend_or_make(
            "languages", lambda: _languages_of(self.whole(d.DOCUMENTS, ["_language"])), self._with_added_languages
        )

    def sample(self, language: str, count: int) -> IntArray:
        columns, own = ["_first_id", "_leaves"], f"_language = {sql_strings([language])}"
        first, leaves = (column.to_numpy() for column in self.whole(d.DOCUMENTS, columns, own).sort_by("_first_id"))
        ids: IntArray = np.repeat(first + leaves - np.cumsum(leaves), leaves) + np.arange(leaves.sum())
        return ids[:: max(1, -(-len(ids) // count))]

    def _with_added_languages(self, older: Counter[str], changes: Changes) -> Counter[str] | None:
        # the languages of deleted documents are unknown, so count again
        return None if len(changes.gone) else older + _languages_of(self._documents_from(changes.first_number))


def _languages_of(documents: pa.Table) -> Counter[str]:
    counts = documents["_language"].value_counts().to_pylist()
    return Counter({entry["values"]: entry["counts"] for entry in counts if entry["values"]})


def _identity(rows: DocumentRows) -> tuple[str, Document]:
    """Return the parts of a document that its rows are built from."""
    return rows.digest, replace(rows.document, metadata={})
