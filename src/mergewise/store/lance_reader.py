"""The reader of one state of an index on LanceDB.

Rows come from mapped files (`store.mapped`), and rows that no file holds come from the table.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, takewhile
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mergewise.errors import CorruptIndex
from mergewise.protocols import FloatArray
from mergewise.protocols.indexes import Kept, Row
from mergewise.store import documents as d
from mergewise.store.copies import duplicates_of
from mergewise.store.damage import of_state, raising_store_errors
from mergewise.store.kept import Changes
from mergewise.store.lance_inspection import Inspection
from mergewise.store.lance_search import DOC_ID, TIED, LanceSearch
from mergewise.store.manifest import Manifest, Run, holds
from mergewise.store.mapped import rows_of_documents
from mergewise.store.numbers import IntArray, sql_numbers
from mergewise.store.places.place import Place
from mergewise.store.snapshot import DOCUMENTS_AT_ONCE, ID, Snapshot, sql_strings
from mergewise.store.tables import NUMBER, form, rows_by_document, unit_vectors
from mergewise.store.views import Registry
from mergewise.types import Document, DocumentInfo, DocumentRows, Duplicate, Json, JsonDict, Known, Origin, Rows

# number of recently read documents to cache, and their maximum length in characters
KEPT_DOCUMENTS, LONGEST_KEPT = 16, 200_000

# not a class of its own, because plain tuples are pickled much faster
ShardHit: TypeAlias = tuple[float, str, int, int]
"""A hit of a search: its negative score, the id of its document, its own id, and the number of its document."""


@raising_store_errors
class LanceReader:
    """The `StoreReader` protocol over the versions that one manifest names.

    It takes over what the reader `before` has open. Without `compares`, files of tables are not compared with their digests.
    """

    gaps = ""

    def __init__(
        self,
        place: Place,
        manifest: Manifest,
        registry: Registry,
        before: LanceReader | None = None,
        *,
        compares: bool = True,
    ) -> None:
        state_before = None if before is None else before.state
        # keeps the files of the state
        self.hold: object = None
        self.state: Snapshot = Snapshot(place, manifest, registry, state_before, compares=compares)
        self.place, self.directory, self.manifest, self.specs = place, place.directory, manifest, self.state.specs
        self.search = LanceSearch(self.state)
        self.text_search, self.vector_search = self.search.text_search, self.search.vector_search
        self.text_frequencies, self.has_exact_names = self.search.text_frequencies, self.search.has_exact_names

    @property
    def snapshot(self) -> str:
        return self.manifest.snapshot

    compare = of_state(Snapshot.compare)
    whole = of_state(Snapshot.whole)
    sorted_columns = of_state(Snapshot.sorted_columns)
    numbers = of_state(Snapshot.numbers)
    copies = of_state(Snapshot.copies)
    repeated_texts = of_state(Snapshot.repeated_texts)
    statements = of_state(Snapshot.statements)

    def once(self, name: str, make: Callable[[], Kept], where: str | None = None) -> Kept:
        return self.state.kept.once(name, make, where)

    def prewarm(self) -> None:
        """Read all that searches need, before the first query."""
        self.state.prewarm()
        self.state.filter(None)
        for name, spec in self.specs.items():
            self.state.row_count(name)
            if spec.table.text:
                self.search.text_index(name)

    def damage(self) -> dict[str, str]:
        return Inspection(self.state).damage()

    # -- documents

    def documents(self, prefix: str = "", after: str | None = None, limit: int | None = None) -> list[DocumentInfo]:
        columns = self._listed_columns()
        if not prefix and after is None and limit is None:
            return [d.info_from(row) for row in self.state.whole(d.DOCUMENTS, columns).sort_by("_number").to_pylist()]

        def sorted_ids() -> pa.Array:
            ids = self.state.whole(d.DOCUMENTS, ["id"])["id"].combine_chunks()
            # in character order, which equals byte order
            return ids.take(pc.sort_indices(ids))

        ids = self.state.kept.once("sorted ids", sorted_ids)

        def id_at(at: int) -> str:
            return str(ids[at])

        first = bisect_left(range(len(ids)), prefix, key=id_at)
        first = first if after is None else max(first, bisect_right(range(len(ids)), after, key=id_at))
        following = map(id_at, range(first, len(ids)))
        page = list(islice(takewhile(lambda doc_id: doc_id.startswith(prefix), following), limit))
        few = len(page) <= DOCUMENTS_AT_ONCE
        rows = self._document_records(page, columns) if few else self.state.whole(d.DOCUMENTS, columns).to_pylist()
        known = {row["id"]: row for row in rows}
        return [d.info_from(known[doc_id]) for doc_id in page]

    def document(self, doc_id: str) -> Document | None:
        return self.texts([doc_id]).get(doc_id)

    def texts(self, doc_ids: Sequence[str]) -> dict[str, Document]:
        # a state never changes, and successive queries use the same documents
        recent = self.state.kept.once("recent documents", dict[str, Document])
        known = {doc_id: known for doc_id in doc_ids if (known := recent.get(doc_id)) is not None}
        for row in self._document_records([doc_id for doc_id in doc_ids if doc_id not in known]):
            document = known[row["id"]] = d.document_from(row)
            if len(document.text) <= LONGEST_KEPT:
                recent[document.id] = document
        for oldest in list(recent)[:-KEPT_DOCUMENTS]:
            recent.pop(oldest, None)
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
        rows = self.state.whole(d.DOCUMENTS, ["id", "_digest", "_source", "_bytes", "_modified"], condition)
        return [
            Known(doc_id, digest, None if origin[0] is None else Origin(*origin))
            for doc_id, digest, *origin in zip(*(column.to_pylist() for column in rows.columns), strict=True)
        ]

    def _listed_columns(self) -> list[str]:
        return [name for name in self.state.schema(d.DOCUMENTS).names if name not in d.UNLISTED]

    def ids(self, where: str | None = None) -> list[str]:
        rows = self.state.numbered(self.state.numbers(where), ["_number", "id"]).sort_by("_number")
        return rows["id"].to_pylist()  # type: ignore[no-any-return]

    def sizes(self, doc_ids: Collection[str] | None = None) -> tuple[int, int]:
        few = doc_ids is not None and len(doc_ids) <= DOCUMENTS_AT_ONCE
        condition = f"id in ({sql_strings(doc_ids)})" if doc_ids is not None and few else None
        rows = self.state.whole(d.DOCUMENTS, ["id", "_leaves", "_characters"], condition)
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

    def stored_records(self, doc_ids: Sequence[str]) -> dict[str, JsonDict]:
        """Return `_number`, `_first_id` and `_digest` of the documents that are in the index."""
        columns = ["id", "_number", "_first_id", "_digest"]
        return {row["id"]: row for row in self._document_records(doc_ids, columns)}

    def _document_records(self, doc_ids: Sequence[str], columns: Sequence[str] | None = None) -> list[JsonDict]:
        if not doc_ids:
            return []
        altered = [doc_id for doc_id in self.manifest.altered if columns is None and doc_id in doc_ids]
        if altered:
            raise CorruptIndex(
                f"the text of {altered[0]!r} has changed since it was written", "index it again, or remove it"
            )
        rows = self.state.whole(d.DOCUMENTS, columns, f"id in ({sql_strings(doc_ids)})").to_pylist()
        order = {doc_id: at for at, doc_id in enumerate(doc_ids)}
        return sorted(rows, key=lambda row: order[row["id"]])

    def document_rows(self, doc_ids: Sequence[str]) -> list[DocumentRows]:
        documents = self._document_records(doc_ids)
        numbers = [row["_number"] for row in documents]
        condition = f"{NUMBER} in ({sql_numbers(numbers)})" if numbers else "false"
        rows_of = {
            name: rows_by_document(spec.table, self.state.whole(name, None, condition), numbers)
            for name, spec in self.specs.items()
        }
        return [self._with_rows(row, rows_of) for row in documents]

    def _with_rows(self, document: Json, rows_of: Mapping[str, Mapping[int, Rows]]) -> DocumentRows:
        """Return a document with the rows of its views."""
        number = document["_number"]
        tables = {
            name: rows_of[name][number]
            for name, spec in self.specs.items()
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
        rows = self.state.whole(d.DOCUMENTS, ["_number", "id"], condition).sort_by("_number").to_pylist()
        return [row["id"] for row in rows if holds(runs, row["_number"])]

    def metadata_kinds(self) -> dict[str, type]:
        return d.metadata_kinds(self.state.schema(d.DOCUMENTS))

    # -- what documents have in common

    def duplicates(self) -> list[Duplicate]:
        return duplicates_of(self.state.repeated_texts().records, self.state.copies())

    def languages(self) -> Mapping[str, int]:
        def extend(older: Counter[str], changes: Changes) -> Counter[str] | None:
            # the languages of deleted documents are unknown, so count again
            added = None if len(changes.gone) else self.state.documents_from(changes.first_number)
            return None if added is None else older + _languages_of(added)

        def make() -> Counter[str]:
            return _languages_of(self.state.whole(d.DOCUMENTS, ["_language"]))

        return self.state.kept.extend_or_make("languages", self.state.basis, make, extend)

    def sample(self, language: str, count: int) -> IntArray:
        columns, own = ["_first_id", "_leaves"], f"_language = {sql_strings([language])}"
        first, leaves = (
            column.to_numpy() for column in self.state.whole(d.DOCUMENTS, columns, own).sort_by("_first_id")
        )
        ids: IntArray = np.repeat(first + leaves - np.cumsum(leaves), leaves) + np.arange(leaves.sum())
        return ids[:: max(1, -(-len(ids) // count))]

    @property
    def views(self) -> dict[str, Json]:
        return {name: self.manifest.views[name].settings for name in self.manifest.offered}

    def row_counts(self) -> dict[str, int]:
        return {name: self.state.row_count(name) for name in (d.DOCUMENTS, *self.specs)}

    def unembedded(self, table: str | None = None) -> IntArray:
        table = table or self.state.first
        spec, runs = self.specs.get(table), self.manifest.unembedded.get(table, ())

        def read() -> IntArray:
            # a damaged manifest may have runs of other tables
            if not runs or spec is None or spec.table.embed is None or not self.manifest.dimension:
                return np.empty(0, np.int64)
            rows = self.state.whole(table, [ID], f"{ID} >= {runs[0][0]} and {ID} < {runs[-1][1]}")
            ids: IntArray = np.sort(rows[ID].to_numpy())
            bounds = np.array(runs, np.int64)
            inside: IntArray = ids[ids < bounds[np.searchsorted(bounds[:, 0], ids, "right") - 1, 1]]
            return inside

        return self.state.kept.once(f"unembedded {table}", read)

    # -- rows

    def hits(self, method: str, table: str, question: Any, k: int, **options: Any) -> Callable[[], list[ShardHit]]:
        """Start a search of a table. The returned function waits for the hits, and adds their documents.

        With `frequencies`, scores are those of all shards, also without postings.
        """
        searched = self.search.searched_text(table) if options.get("frequencies") else None
        search = getattr(self, method)(question, k if searched is None else k + TIED, table=table, **options)
        columns = [DOC_ID] if searched is None else [DOC_ID, searched.column]

        def finish() -> list[ShardHit]:
            scores = dict(search.result())
            hits: list[ShardHit] = []
            for rows in self.stored_rows(table, columns, list(scores)):
                own = scores if searched is None else searched.scores(question, rows, options["frequencies"])
                names = rows[DOC_ID].to_pylist() if DOC_ID in rows.column_names else [""] * len(rows)
                documents = zip(rows[ID].to_pylist(), rows[NUMBER].to_pylist(), names, strict=True)
                hits += [(-own[row], name, row, number) for row, number, name in documents]
            return sorted(hits)[:k]

        return finish

    def rows(self, table: str, record: type[Row], ids: Sequence[int]) -> dict[int, Row]:
        spec = self.specs.get(table)
        if spec is None:
            return {}
        read = form(spec.table, record)
        records: dict[int, Row] = {}
        for rows in self._parts(table, read.columns, ids):
            records |= zip(rows[ID].to_pylist(), read.read(rows), strict=True)
        return {row: records[row] for row in ids if row in records}

    def vectors(self, ids: Sequence[int], table: str | None = None, column: str = "vector") -> dict[int, FloatArray]:
        table = table or self.state.first
        by_id: dict[int, FloatArray] = {}
        for rows in self._parts(table, [column], ids) if self.manifest.dimension else ():
            vectors = unit_vectors(rows, column)
            if vectors is not None:
                known = ~np.isnan(vectors[:, 0])
                by_id |= zip(rows[ID].to_numpy()[known].tolist(), vectors[known], strict=True)
        return {row: by_id[row] for row in ids if row in by_id}

    def stored_rows(self, table: str, columns: Sequence[str], ids: Sequence[int]) -> list[pa.Table]:
        """Return columns of rows, for a reader in another process."""
        return list(self._parts(table, columns, ids))

    def _parts(self, table: str, columns: Sequence[str], ids: Sequence[int]) -> Iterator[pa.Table]:
        """Yield rows by id: first the rows in mapped files, then the rest."""
        if self.state.table(table) is None or not ids:
            return
        wanted = np.fromiter(ids, np.int64, len(ids))
        read = list(dict.fromkeys([ID, NUMBER, *columns]))
        if self.state.is_mapped(table):
            mapped, missing = self.state.mapped_rows(table), np.ones(len(wanted), bool)
            blocks = []
            for at, rows in mapped.take(wanted, read):
                missing[at] = False
                blocks.append(rows)
            # join the blocks, because records are built faster from many rows at once
            if blocks:
                numbers = self.state.numbers().array
                yield rows_of_documents(pa.concat_tables(blocks, promote_options="default"), numbers)
            wanted = wanted[missing]
            if len(wanted) and mapped.is_whole:
                # other ids below the end are of other tables, or of deleted rows
                wanted = wanted[(wanted >= mapped.end) | (mapped.documents_of(wanted) >= 0)]
        if len(wanted):
            condition = f"{ID} in ({sql_numbers(wanted.tolist())})"
            present = self.state.schema(table).names
            yield self.state.whole(table, [name for name in read if name in present], condition)


def _languages_of(documents: pa.Table) -> Counter[str]:
    counts = documents["_language"].value_counts().to_pylist()
    return Counter({entry["values"]: entry["counts"] for entry in counts if entry["values"]})


def _identity(rows: DocumentRows) -> tuple[str, Document]:
    """Return the parts of a document that its rows are built from."""
    return rows.digest, replace(rows.document, metadata={})
