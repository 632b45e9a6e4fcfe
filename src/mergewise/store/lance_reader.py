"""One state of an index in a directory: the versions of its LanceDB tables that a manifest names.

Tables are asked through LanceDB's asynchronous interface: the synchronous one spends two milliseconds a call on its own
wrapping. Searches are awaited in the thread that asks, all else on an event loop of our own. Searches give row addresses, and
rows come from mapped files (`store.mapped`): what is not held there is read from the table.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mergewise.concurrency import BackgroundLoop, ThreadLoop, demand_time, together
from mergewise.errors import CorruptIndex, StoreError, UsageError
from mergewise.protocols import FloatArray, Ranking
from mergewise.ranges import short_repr
from mergewise.store import documents as d
from mergewise.store.condition_parser import parse_condition
from mergewise.store.conditions import sql_of
from mergewise.store.copies import RepeatedTexts
from mergewise.store.damage import ANEW, MEND, line, raising_store_errors, reading
from mergewise.store.kept import Basis, Changes, KeptValues
from mergewise.store.lance_import import IN_USE
from mergewise.store.manifest import Manifest, Run, holds
from mergewise.store.mapped import IntArray, Mapped, MappedRows, rows_of_documents
from mergewise.store.numbers import BoolArray, DocumentFilter, DocumentNumbers, sorted_once, sql_numbers
from mergewise.store.places.place import Place, Stamp
from mergewise.store.sorted_columns import SortedColumns, all_columns
from mergewise.store.tables import NUMBER, Table, form, rows_by_document, unit_vectors
from mergewise.store.views import Registry
from mergewise.types import Document, DocumentInfo, DocumentRows, Duplicate, Known, Rows

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

Row = TypeVar("Row")
Kept = TypeVar("Kept")

# recall 0.99 of an exact search, see docs/evaluation.md
NPROBES, REFINE = 20, 2
# rows that are compared exactly within a filter: at most, and times those that a search of the index would give
EXACT_ROWS, EXACT_DEPTH = 12_000, 4
# rows that a text search reads beyond those asked for: in 425 questions of three sets up to 25 tied at rank 100
TIED = 28
DOCUMENTS_AT_ONCE = 1000
# documents read last, and their characters at most
KEPT_DOCUMENTS, LONGEST_KEPT = 16, 200_000
# all documents are looked at for a condition: a million take a few of them
CONDITION_SECONDS = 60.0
_LOOP = BackgroundLoop("mergewise-store")
run = _LOOP.run
_ID, _ADDRESS = "id", "_rowid"


@raising_store_errors
class LanceReader:
    """The `StoreReader` protocol over the versions that one manifest names.

    From the state `before` of the same directory, where there is one, it takes what is the same in both and is open there
    already: tables of the same version, and mapped files.
    """

    def __init__(self, place: Place, manifest: Manifest, registry: Registry, before: LanceReader | None = None) -> None:
        place.demand_plain()
        self.place = place
        self.directory = place.directory
        self.manifest = manifest
        self._specs = specs_of(manifest, registry)
        # the table that is meant where none is named: the leaves
        self._first = next(iter(self._specs))
        self._tables: dict[str, AsyncTable | None] = {}
        # which file each of them was opened by
        self._stamps: dict[str, Stamp] = {}
        self._mapped: dict[str, MappedRows] = {}
        self._kept = KeptValues()
        # the documents of a state before
        self._older: Basis | None = None
        if before is not None:
            self._take_over(before)
        # a state never changes, and questions after one another are answered from the same documents
        self._documents: dict[str, Document] = {}

    def _take_over(self, before: LanceReader) -> None:
        # copies: other threads still ask it
        for name, stamp in before._stamps.copy().items():
            if name in before._tables and self._is_same(name, before.manifest.tables[name], stamp):
                self._tables[name], self._stamps[name] = before._tables[name], stamp
        for name, rows in before._mapped.copy().items():
            self._mapped[name] = MappedRows(self.place, Mapped.of(self.manifest.mapped.get(name)), rows)
        documents = before._stamps.get(d.DOCUMENTS)
        # of the same table, in whatever version
        if documents is not None and self._stands(d.DOCUMENTS, before.manifest.tables[d.DOCUMENTS], documents):
            self._kept = KeptValues(before._kept)
            self._older = before._basis() if before._has_numbers() else before._older

    def _is_same(self, name: str, version: int, stamp: Stamp) -> bool:
        return self.manifest.tables.get(name) == version and self._stands(name, version, stamp)

    def _stands(self, name: str, version: int, stamp: Stamp) -> bool:
        """A version has the file that it had: a table that was made anew counts from the beginning."""
        return self.place.stamp(name, version) == stamp

    # -- documents

    @property
    def snapshot(self) -> str:
        return self.once("snapshot", lambda: self.manifest.snapshot)

    def documents(self, prefix: str = "", after: str | None = None, limit: int | None = None) -> list[DocumentInfo]:
        columns = [name for name in self._document_columns() if name not in d.UNLISTED]
        if not prefix and after is None and limit is None:
            return [d.info_from(row) for row in self._scan_documents(columns, by_number=True)]
        ids = self.once("sorted ids", self._sorted_ids)
        id_at = lambda at: ids[at].as_py()  # noqa: E731
        first = bisect_left(range(len(ids)), prefix, key=id_at)
        first = first if after is None else max(first, bisect_right(range(len(ids)), after, key=id_at))
        following = map(id_at, range(first, len(ids)))
        page = list(islice(takewhile(lambda doc_id: doc_id.startswith(prefix), following), limit))
        few = len(page) <= DOCUMENTS_AT_ONCE
        rows = self._document_records(page, columns) if few else self._scan_documents(columns)
        known = {row["id"]: row for row in rows}
        return [d.info_from(known[doc_id]) for doc_id in page]

    def _sorted_ids(self) -> pa.Array:
        """In the order of their characters, which is that of their bytes."""
        table = self._table(d.DOCUMENTS)
        ids = pa.array([], pa.string()) if table is None else run(scan(table, ["id"]))["id"].combine_chunks()
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

    def digests(self, doc_ids: Sequence[str]) -> dict[str, str]:
        return {row["id"]: row["_digest"] for row in self._document_records(doc_ids, ["id", "_digest"])}

    def known_documents(self, doc_ids: Sequence[str] = (), sources: Sequence[str] = ()) -> list[Known]:
        wanted = ["id", "_digest", "_source", "_bytes", "_modified"]
        present = [name for name in wanted if name in self._document_columns()]
        asked = {"id": doc_ids, "_source": sources}
        parts = [f"{name} in ({sql_strings(values)})" for name, values in asked.items() if values and name in present]
        if not parts and (doc_ids or sources):
            return []
        rows = self._scan_documents(present, " or ".join(parts) or None)
        return [Known(row["id"], row["_digest"], d.origin_from(row)) for row in rows]

    def _scan_documents(
        self, columns: Sequence[str] | None, condition: str | None = None, *, by_number: bool = False
    ) -> list[dict[str, Any]]:
        table = self._table(d.DOCUMENTS)
        if table is None:
            return []
        rows = run(scan(table, columns, condition))
        return (rows.sort_by("_number") if by_number else rows).to_pylist()  # type: ignore[no-any-return]

    def _document_columns(self) -> tuple[str, ...]:
        table = self._table(d.DOCUMENTS)
        return self.once("columns", lambda: () if table is None else tuple(run(table.schema()).names))

    def copies(self, where: str | None = None) -> Mapping[int, int]:
        return self.once("copies", lambda: self._read_copies(where), where)

    def _read_copies(self, where: str | None) -> Mapping[int, int]:
        repeated = self._repeated_texts()
        if where is None or not repeated.records:
            return repeated.copies
        numbers = np.fromiter(repeated.records, np.int64)
        among = numbers[self._numbers(where).holds(numbers)].tolist()
        return d.same_documents((number, repeated.records[number][1]) for number in among)

    def _repeated_texts(self) -> RepeatedTexts:
        return self._grown(
            "repeated texts",
            lambda: RepeatedTexts().with_changes(
                self._written_columns(["_number", "_content"]), DocumentNumbers.of(()), self._statements
            ),
            self._with_added_texts,
        )

    def _with_added_texts(self, older: RepeatedTexts, changes: Changes) -> RepeatedTexts | None:
        return older.with_changes(self._documents_from(changes.first_number), changes.gone, self._statements)

    def _statements(self, numbers: IntArray) -> Iterator[tuple[int, str, d.Statement]]:
        few = len(numbers) <= DOCUMENTS_AT_ONCE
        condition = f"_number in ({sql_numbers(numbers.tolist())})" if few else None
        table = self._table(d.DOCUMENTS)
        if table is None or not len(numbers):
            return
        rows = run(scan(table, ["_number", "id", "title", "_content"], condition))
        for row in rows.filter(pa.array(DocumentNumbers(numbers).holds(rows["_number"].to_numpy()))).to_pylist():
            yield row["_number"], row["id"], d.statement_of(row["id"], row["title"], row["_content"])

    def duplicates(self) -> list[Duplicate]:
        records = self._repeated_texts().records
        return [Duplicate(records[number][0], records[original][0]) for number, original in self.copies().items()]

    def standing(self, doc_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """`_number`, `_first_id` and `_digest` of those of the documents that are in the index."""
        columns = ["id", "_number", "_first_id", "_digest"]
        return {row["id"]: row for row in self._document_records(doc_ids, columns)}

    def _document_records(self, doc_ids: Sequence[str], columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        rows = self._scan_documents(columns, f"id in ({sql_strings(doc_ids)})") if doc_ids else []
        order = {doc_id: at for at, doc_id in enumerate(doc_ids)}
        return sorted(rows, key=lambda row: order[row["id"]])

    def document_rows(self, doc_ids: Sequence[str]) -> list[DocumentRows]:
        documents = self._document_records(doc_ids)
        numbers = [row["_number"] for row in documents]
        condition = f"{NUMBER} in ({sql_numbers(numbers)})" if numbers else "false"
        tables = {name: table for name in self._specs if (table := self._table(name)) is not None}
        rows_of = {
            name: rows_by_document(self._specs[name].table, run(scan(table, None, condition)), numbers)
            for name, table in tables.items()
        }
        return [self._with_rows(row, rows_of) for row in documents]

    def _with_rows(self, document: Mapping[str, Any], rows_of: Mapping[str, Mapping[int, Rows]]) -> DocumentRows:
        """A document with the rows of the views that it has."""
        number = document["_number"]
        tables = {
            name: rows_of[name][number]
            for name, spec in self._specs.items()
            if name in rows_of and not holds(self.manifest.views[spec.view].missing, number)
        }
        return DocumentRows(d.document_from(document), document["_digest"], tables, d.origin_from(document))

    def numbers(self, where: str | None = None) -> Set[int]:
        """The numbers of the documents, or of those that meet a condition."""
        return self._numbers(where)

    def _numbers(self, where: str | None = None) -> DocumentNumbers:
        return self.once("numbers", lambda: self._read_numbers(where), where)

    def _read_numbers(self, where: str | None) -> DocumentNumbers:
        table = self._table(d.DOCUMENTS)
        if table is None:
            return DocumentNumbers.of(())
        if where is None:
            return DocumentNumbers(self._all_numbers(table))
        condition = sql_of(parse_condition(where, d.condition_columns(run(table.schema()))))
        try:
            asked = asyncio.wait_for(scan(table, ["_number"], condition), CONDITION_SECONDS)
            return DocumentNumbers(sorted_once(run(asked)["_number"].to_numpy()))
        except TimeoutError:
            raise UsageError(
                f"the condition {short_repr(where)} takes more than {CONDITION_SECONDS:.0f} seconds", "ask for less"
            ) from None
        except Exception as error:
            # where they cannot be read, this says so: then the condition is not to blame
            self.ids()
            raise UsageError(
                f"the condition {short_repr(where)} fails for a document: {line(error)}",
                "leave out documents for which it cannot be worked out, such as those without a date",
            ) from None

    def _all_numbers(self, table: AsyncTable) -> IntArray:
        older = self._older
        if older is not None and older.next_number <= self.manifest.next_number:
            added = self._documents_from(older.next_number)["_number"].to_numpy()
            if len(older.numbers) + len(added) == run(table.count_rows()):
                return np.concatenate([older.numbers.array, sorted_once(added)])
        return sorted_once(run(scan(table, ["_number"]))["_number"].to_numpy())

    def _documents_from(self, number: int) -> pa.Table:
        """Number, digest of the text and language of the documents with this number and later ones."""
        return self.once(f"documents from {number}", lambda: self._written_columns(d.OF_TEXTS, f"_number >= {number}"))

    def _written_columns(self, columns: Sequence[str], condition: str | None = None) -> pa.Table:
        """Columns of the documents that meet a condition; null where an older mergewise did not write them."""
        table = self._table(d.DOCUMENTS)
        present = [name for name in columns if name in self._document_columns()]
        rows = d.SCHEMA.empty_table().select(columns) if table is None else run(scan(table, present, condition))
        for name in columns:
            if name not in rows.column_names:
                rows = rows.append_column(name, pa.nulls(len(rows), pa.string()))
        return rows

    def ids(self, where: str | None = None) -> list[str]:
        table = self._table(d.DOCUMENTS)
        if table is None:
            return []
        rows = run(scan(table, ["_number", "id"])).sort_by("_number")
        if where is not None:
            rows = rows.filter(pa.array(self._numbers(where).holds(rows["_number"].to_numpy())))
        return rows["id"].to_pylist()  # type: ignore[no-any-return]

    def sizes(self, doc_ids: Collection[str] | None = None) -> tuple[int, int]:
        rows = self._written_columns(["id", "_leaves", "_characters"])
        if doc_ids is not None:
            rows = rows.filter(pc.is_in(rows["id"], pa.array(list(doc_ids), pa.string())))
        leaves, characters = (pc.sum(rows[name], min_count=0).as_py() for name in ("_leaves", "_characters"))
        return leaves, characters

    def metadata_kinds(self) -> dict[str, type]:
        table = self._table(d.DOCUMENTS)
        return {} if table is None else d.metadata_kinds(run(table.schema()))

    def leaf_ranges(self, doc_ids: Sequence[str]) -> dict[str, range]:
        rows = self._document_records(doc_ids, ["id", "_first_id", "_leaves"])
        return {row["id"]: range(row["_first_id"], row["_first_id"] + row["_leaves"]) for row in rows}

    def languages(self) -> Mapping[str, int]:
        return self._grown(
            "languages",
            lambda: _languages_of(self._written_columns(["_number", "_language"])),
            self._with_added_languages,
        )

    def _with_added_languages(self, older: Counter[str], changes: Changes) -> Counter[str] | None:
        # what the documents spoke that are gone is not known
        return None if len(changes.gone) else older + _languages_of(self._documents_from(changes.first_number))

    def numbered_in(self, runs: Sequence[Run]) -> list[str]:
        """Ids of the documents whose numbers lie in the runs, in the order in which they were added."""
        if not runs:
            return []
        # not a condition for each run: of very many, the database's parser does not come back
        condition = f"_number >= {runs[0][0]} and _number < {runs[-1][1]}"
        rows = self._scan_documents(["_number", "id"], condition, by_number=True)
        return [row["id"] for row in rows if holds(runs, row["_number"])]

    # -- views

    @property
    def views(self) -> dict[str, Mapping[str, Any]]:
        return {name: self.manifest.views[name].settings for name in self.manifest.offered}

    def row_counts(self) -> dict[str, int]:
        tables = {name: self._table(name) for name in (d.DOCUMENTS, *self._specs)}
        return {name: 0 if table is None else run(table.count_rows()) for name, table in tables.items()}

    def unembedded(self, table: str | None = None) -> IntArray:
        table = table or self._first
        spec = self._specs.get(table)
        runs = self.manifest.unembedded.get(table, ())
        if spec is None or spec.table.embed is None or not self.manifest.dimension:
            # whatever a manifest may say
            runs = ()
        return self.once(f"unembedded {table}", lambda: self._ids_in(table, runs)) if runs else np.empty(0, np.int64)

    def _ids_in(self, table: str, runs: Sequence[Run]) -> IntArray:
        opened = self._table(table)
        if opened is None:
            return np.empty(0, np.int64)
        found = run(scan(opened, [_ID], f"{_ID} >= {runs[0][0]} and {_ID} < {runs[-1][1]}"))[_ID].to_numpy()
        ids: IntArray = np.sort(found)
        bounds = np.array(runs, np.int64)
        inside: IntArray = ids[ids < bounds[np.searchsorted(bounds[:, 0], ids, "right") - 1, 1]]
        return inside

    def once(self, name: str, make: Callable[[], Kept], where: str | None = None) -> Kept:
        return self._kept.once(name, make, where)

    def _grown(self, name: str, make: Callable[[], Kept], extend: Callable[[Kept, Changes], Kept | None]) -> Kept:
        return self._kept.grown(name, self._basis, make, extend)

    def _has_numbers(self) -> bool:
        return self._kept.has("numbers")

    def _basis(self) -> Basis:
        return Basis(self._numbers(), self.manifest.next_number, self.manifest.next_id)

    def sorted_columns(self, table: str, columns: Sequence[str]) -> Mapping[str, IntArray]:
        wanted = all_columns(columns)
        by_id = self._specs[table].table.has_ids

        def extend(older: SortedColumns, changes: Changes) -> SortedColumns | None:
            added = f"{_ID} >= {changes.first_id}" if by_id else f"{NUMBER} >= {changes.first_number}"
            grown = older.with_changes(self._whole(table, wanted, added), changes.gone)
            # rows may have gone or come otherwise, by a repair
            return grown if len(grown) == self._row_count(table) else None

        return self._grown(
            f"sorted {table} {wanted}", lambda: SortedColumns.of(self._whole(table, wanted)), extend
        ).columns

    def _row_count(self, table: str) -> int:
        opened = self._table(table)
        return self.once(f"row count of {table}", lambda: 0 if opened is None else run(opened.count_rows()))

    # -- searches

    def text_search(
        self, question: str, k: int, where: str | None = None, table: str | None = None, *, words: bool = False
    ) -> Future[Ranking]:
        table = table or self._first
        opened, spec = self._table(table), self._specs.get(table)
        column = None if spec is None else spec.table.words if words else spec.table.text
        if opened is None or not question.strip() or (words and column not in self._columns(table)):
            return start(_nothing())
        query = _query(opened).nearest_to_text(question, columns=[str(column)])
        documents = self._filter(where)
        if documents is not None and not documents.share:
            return start(_nothing())
        if documents is not None and documents.is_cheaper_as_condition(k + TIED):
            query, documents = query.where(documents.condition), None
        return start(self._text_ranking(table, query, k, documents))

    async def _text_ranking(self, table: str, query: Any, k: int, documents: DocumentFilter | None) -> Ranking:
        """Of rows that tie for the last places LanceDB takes any, now these and now those: so all of them are read. So are more
        where others than the `documents` take the first places."""
        limit = k + TIED if documents is None else documents.depth(k + TIED)
        with self._reading(self.place, f"the table {table!r}"):
            while True:
                hits = await _hits(self._select_addresses(table, query.limit(limit), "_score", documents))
                scores, ids = hits["_score"].to_numpy(), await self._ids_of(table, hits)
                meets = await self._meets(table, hits, ids, documents)
                ranking = _best(ids[meets], scores[meets], k)
                if len(hits) < limit or (len(ranking) >= k and scores.min() < ranking[k - 1][1]):
                    return ranking
                limit *= 4

    def vector_search(
        self, vector: FloatArray, k: int, where: str | None = None, table: str | None = None, column: str = "vector"
    ) -> Future[Ranking]:
        table = table or self._first
        opened = self._table(table)
        if opened is None or not self.manifest.dimension:
            return start(_nothing())
        half = vector.astype(np.float16)
        packed = pa.Array.from_buffers(pa.float16(), len(half), [None, pa.py_buffer(half)])
        query = _query(opened).nearest_to(packed).column(column).distance_type("dot")
        # then the candidates are compared exactly here, from the mapped vectors
        refines = self._is_mapped(table)
        query, wanted = (query, REFINE * k) if refines else (query.refine_factor(REFINE), k)
        documents = self._filter(where)
        if documents is not None and not documents.share:
            return start(_nothing())
        # the nearest of few lie further apart: recall 0.997 of an exact search, 0.80 by the same partitions (docs/log.md)
        probes = NPROBES if documents is None else int(NPROBES / documents.share**0.5)
        chosen, single = documents, half.astype(np.float32)
        if documents is not None and refines and self._has_few_rows(table, documents, wanted):
            few = documents
            ids = self.once(f"rows of {table}", lambda: self._rows_of_documents(table, few), where)
            return start(self._exact_ranking(table, column, single, ids, k))
        if documents is not None and documents.is_cheaper_as_condition(wanted):
            query, documents = query.where(documents.condition), None
        later = self._later(table, column) if refines else None
        if later is not None:
            later = later if chosen is None else later.within(chosen)
            if not self.mapped_rows(table).indexed:
                return start(_best_of(later, single, k))
            query = query.fast_search()
        return start(self._vector_ranking(table, column, single, k, query, documents, wanted, probes, later))

    def _later(self, table: str, column: str) -> Later | None:
        """The mapped rows that the vector index does not have; None where LanceDB is to look for such rows."""
        return self.once(f"later {table} {column}", lambda: self._read_later(table, column))

    def _read_later(self, table: str, column: str) -> Later | None:
        mapped = self.mapped_rows(table)
        waits = table in self.manifest.unembedded or mapped.end < self.manifest.next_id
        # on a bucket, an index of vectors that is still to come is made up for here: a scan would ask for all of them
        indexed = bool(mapped.indexed) or (
            self.place.refresh is not None and f"{table}.{column}" not in self.manifest.trained
        )
        if not indexed or waits or not mapped.is_whole:
            return None
        ids = mapped.ids_from(mapped.indexed)
        vectors = np.empty((len(ids), self.manifest.dimension), np.float32)
        for at, some in mapped.vectors(ids, column):
            vectors[at] = some
        later = Later(ids, mapped.documents_of(ids), vectors)
        # mapped files hold rows of documents that are gone for a while
        return later.where(self._numbers().holds(later.documents))

    def _has_few_rows(self, table: str, documents: DocumentFilter, wanted: int) -> bool:
        """Whether to compare all rows of the documents costs less than a search that finds the `wanted` ones among others."""
        most = min(EXACT_ROWS, EXACT_DEPTH * documents.depth(wanted))
        return not documents.excludes and documents.share * self._row_count(table) <= most

    def _rows_of_documents(self, table: str, documents: DocumentFilter) -> IntArray:
        """The ids of their rows."""
        mapped = self.mapped_rows(table)
        parts = [ids[documents.holds(numbers)] for ids, numbers in mapped.by_document()]
        others = self._whole(table, [_ID, NUMBER], f"{_ID} >= {mapped.end}" if mapped.is_whole else None)
        parts.append(others[_ID].to_numpy()[documents.holds(others[NUMBER].to_numpy())])
        return sorted_once(np.concatenate(parts))

    async def _exact_ranking(self, table: str, column: str, vector: FloatArray, ids: IntArray, k: int) -> Ranking:
        """The best of these rows; those that wait for their vectors are left out."""
        with self._reading(self.place, f"the table {table!r}"):
            cosines = await self._cosines(table, column, vector, ids, np.full(len(ids), np.nan, np.float32))
            has_vector = ~np.isnan(cosines)
            return _best(ids[has_vector], cosines[has_vector], k)

    async def _vector_ranking(
        self,
        table: str,
        column: str,
        vector: FloatArray,
        k: int,
        query: Any,
        documents: DocumentFilter | None,
        wanted: int,
        probes: int,
        later: Later | None,
    ) -> Ranking:
        with self._reading(self.place, f"the table {table!r}"):
            ids, cosines = await self._nearest(table, query, documents, wanted, probes)
            if self._is_mapped(table):
                cosines = await self._compared(table, column, vector, ids, cosines)
            if later is not None and len(later.ids):
                ids = np.concatenate([ids, later.ids])
                cosines = np.concatenate([cosines, later.vectors @ vector])
            return _best(ids, cosines, k)

    async def _nearest(
        self, table: str, query: Any, documents: DocumentFilter | None, wanted: int, probes: int
    ) -> tuple[IntArray, FloatArray]:
        """Ids and approximate cosines of the `wanted` nearest rows of the documents: those that a search finds that gives rows of
        no others. More partitions are searched where those near the question hold too few."""
        found = 0
        limit = wanted if documents is None else documents.depth(wanted) + TIED
        while True:
            nearest = query.nprobes(probes).limit(limit)
            hits = await _hits(self._select_addresses(table, nearest, "_distance", documents))
            ids, distances = await self._ids_of(table, hits), hits["_distance"].to_numpy()
            if documents is None:
                return ids, 1.0 - distances
            meets = await self._meets(table, hits, ids, documents)
            is_all = len(hits) < limit
            near = distances[meets]
            if np.count_nonzero(near < np.inf if is_all else near < distances.max(initial=0)) >= wanted or (
                is_all and len(hits) == found
            ):
                best = np.argsort(near, kind="stable")[:wanted]
                return ids[meets][best], 1.0 - near[best]
            if is_all:
                found, probes = len(hits), 4 * probes
            else:
                limit *= 4

    async def _compared(
        self, table: str, column: str, vector: FloatArray, ids: IntArray, cosines: FloatArray
    ) -> FloatArray:
        """Exact cosines for the approximate ones of the vector index. Rows that came after it have exact ones already.

        While rows wait for vectors, some that are in the index are not mapped yet.
        """
        approximate = (ids < self.mapped_rows(table).end) | (table in self.manifest.unembedded)
        exact = await self._cosines(table, column, vector, ids, np.where(approximate, np.nan, cosines))
        return np.where(np.isnan(exact), cosines, exact)

    async def _cosines(
        self, table: str, column: str, vector: FloatArray, ids: IntArray, cosines: FloatArray
    ) -> FloatArray:
        """Cosines of rows by their mapped vectors; those that no file has and that are not known (NaN) from the table."""
        cosines = cosines.copy()
        for at, vectors in self.mapped_rows(table).vectors(ids, column):
            cosines[at] = np.einsum("ij,j->i", vectors, vector)
        opened, unknown = self._tables[table], np.isnan(cosines)
        # they are new, or the file that held them is gone
        if unknown.any() and opened is not None:
            lost = await scan(opened, [_ID, column], f"{_ID} in ({sql_numbers(ids[unknown].tolist())})")
            stored = unit_vectors(lost, column)
            exact = dict(zip(lost[_ID].to_pylist(), () if stored is None else stored @ vector, strict=True))
            cosines[unknown] = [exact[row] for row in ids[unknown].tolist()]
        return cosines

    def _filter(self, where: str | None) -> DocumentFilter | None:
        """A condition on documents is one on rows: the numbers of the documents that meet it, without those of documents that say
        the same as another one."""
        return self.once("filter", lambda: self._made_filter(where), where)

    def _made_filter(self, where: str | None) -> DocumentFilter | None:
        standing, copies = self._numbers(), DocumentNumbers.of(self.copies(where))
        wanted = self._numbers(where).without(copies)
        if len(wanted) == len(standing):
            return None
        share = len(wanted) / len(standing)
        return DocumentFilter(copies, True, share) if where is None else DocumentFilter(wanted, False, share)

    async def _meets(self, table: str, hits: pa.Table, ids: IntArray, documents: DocumentFilter | None) -> BoolArray:
        """Which of the rows that a search hits are of these documents."""
        if documents is None:
            return np.ones(len(ids), bool)
        if NUMBER in hits.column_names:
            return documents.holds(hits[NUMBER].to_numpy())
        numbers = self.mapped_rows(table).documents_of(ids)
        unknown = np.flatnonzero(numbers < 0)
        opened = self._tables[table]
        if len(unknown) and opened is not None:
            rows = await scan(opened, [_ID, NUMBER], f"{_ID} in ({sql_numbers(ids[unknown].tolist())})")
            known = dict(zip(rows[_ID].to_pylist(), rows[NUMBER].to_pylist(), strict=True))
            numbers[unknown] = [known[row] for row in ids[unknown].tolist()]
        return documents.holds(numbers)

    def _is_mapped(self, table: str) -> bool:
        return bool(self.manifest.mapped.get(table))

    def _select_addresses(self, table: str, query: Any, score: str, documents: DocumentFilter | None) -> Any:
        """The columns that tell a hit's row, and whether it is of these documents."""
        stored = [] if self._is_mapped(table) else [_ID] if documents is None else [_ID, NUMBER]
        return query.select([*stored, score]).with_row_id()

    async def _ids_of(self, table: str, hits: pa.Table) -> IntArray:
        """The ids of the rows that a search hits. An address that no file knows is asked for."""
        if _ID in hits.column_names:
            stored: IntArray = hits[_ID].to_numpy()
            return stored
        addresses = hits[_ADDRESS].to_numpy().astype(np.int64)
        ids = self.mapped_rows(table).ids_at(addresses)
        unknown = np.flatnonzero(ids < 0)
        if len(unknown):
            opened = self._tables[table]
            assert opened is not None  # it was searched
            query = opened.take_row_ids(addresses[unknown].tolist()).select([_ID]).with_row_id()
            rows = await query.to_arrow()
            known = dict(zip(rows[_ADDRESS].to_pylist(), rows[_ID].to_pylist(), strict=True))
            ids = ids.copy()
            ids[unknown] = [known[address] for address in addresses[unknown].tolist()]
        return ids

    # -- rows

    def rows(self, table: str, record: type[Row], ids: Sequence[int]) -> dict[int, Row]:
        spec = self._specs.get(table)
        if spec is None:
            return {}
        read = form(spec.table, record)
        records: dict[int, Row] = {}
        for rows in self._parts(table, read.columns, ids):
            records |= zip(rows[_ID].to_pylist(), read.read(rows), strict=True)
        return {row: records[row] for row in ids if row in records}

    def vectors(self, ids: Sequence[int], table: str | None = None, column: str = "vector") -> dict[int, FloatArray]:
        table = table or self._first
        by_id: dict[int, FloatArray] = {}
        for rows in self._parts(table, [column], ids) if self.manifest.dimension else ():
            vectors = unit_vectors(rows, column)
            if vectors is not None:
                by_id |= zip(rows[_ID].to_pylist(), vectors, strict=True)
        return {row: by_id[row] for row in ids if row in by_id and not np.isnan(by_id[row][0])}

    def whole(self, table: str, columns: Sequence[str]) -> pa.Table:
        return self._whole(table, columns)

    def _whole(self, table: str, columns: Sequence[str], condition: str | None = None) -> pa.Table:
        opened = self._table(table)
        if opened is None:
            return self._specs[table].table.schema(0).empty_table().select(list(columns))
        return run(scan(opened, columns, condition))

    def _parts(self, table: str, columns: Sequence[str], ids: Sequence[int]) -> Iterator[pa.Table]:
        """Rows by id: those that mapped files hold, then the others."""
        opened = self._table(table)
        if opened is None or not ids:
            return
        wanted = np.fromiter(ids, np.int64, len(ids))
        read = list(dict.fromkeys([_ID, NUMBER, *columns]))
        if self._is_mapped(table):
            missing = np.ones(len(wanted), bool)
            blocks = []
            for at, rows in self.mapped_rows(table).take(wanted, read):
                missing[at] = False
                blocks.append(rows)
            # as one: records are made faster from many rows at once
            if blocks:
                living = self._numbers().array
                yield rows_of_documents(pa.concat_tables(blocks) if len(blocks) > 1 else blocks[0], living)
            wanted = wanted[missing]
        if len(wanted):
            condition = f"{_ID} in ({sql_numbers(wanted.tolist())})"
            yield run(scan(opened, [name for name in read if name in self._columns(table)], condition))

    def _columns(self, table: str) -> frozenset[str]:
        opened = self._table(table)
        return self.once(
            f"columns {table}", lambda: frozenset() if opened is None else frozenset(run(opened.schema()).names)
        )

    def mapped_rows(self, table: str) -> MappedRows:
        if table not in self._mapped:
            self._mapped[table] = MappedRows(self.place, Mapped.of(self.manifest.mapped.get(table)))
        return self._mapped[table]

    def knows_addresses(self, table: str) -> bool:
        """Whether the rows stand where the file of addresses says, as far as it knows them."""
        opened = self._table(table)
        if opened is None:
            return True
        rows = run(opened.query().select([_ID]).with_row_id().to_arrow())
        ids = self.mapped_rows(table).ids_at(rows[_ADDRESS].to_numpy().astype(np.int64))
        return bool(((ids == rows[_ID].to_numpy()) | (ids < 0)).all())

    def _table(self, name: str) -> AsyncTable | None:
        demand_time()
        IN_USE.demand_own_process(self.place)
        if name not in self._tables:
            self._tables[name] = self._open(name)
        return self._tables[name]

    def _open(self, name: str) -> AsyncTable | None:
        version = self.manifest.tables.get(name)
        if version is None:
            return None
        with self._reading(
            self.place, f"version {version} of the table {name!r}", ANEW if name == d.DOCUMENTS else MEND
        ):
            stamp = self.place.stamp(name, version)
            self.place.demand_own_files(name, version)
            table = run(_opened(self.place, name, version))
            if stamp is not None:
                self._stamps[name] = stamp
            return table

    @contextmanager
    def _reading(self, place: object, what: str = "", hint: str = MEND) -> Iterator[None]:
        """As `reading`; but old files that a writer dropped meanwhile are no damage."""
        try:
            with reading(place, what, hint):
                yield
        except CorruptIndex as error:
            state = self.place.manifest()
            if state is not None and state.manifest == self.manifest:
                raise
            raise StoreError(f"{place} has changed since it was opened: {error.message}", "ask again") from error

    # -- before questions

    def prewarm(self) -> None:
        """Open all tables with their search indexes and mapped files, side by side: questions then ask the place for nothing."""
        names = (d.DOCUMENTS, *self._specs)
        with ThreadPoolExecutor(2 * len(names), thread_name_prefix="mergewise-prewarm") as pool:
            mapped = [pool.submit(self._load_mapped_rows, name) for name in names if self._is_mapped(name)]
            tables = [pool.submit(self._prewarm_table, name) for name in names]
            for started in (*tables, *mapped):
                started.result()

    def _prewarm_table(self, name: str) -> None:
        table = self._table(name)
        if table is not None:
            with self._reading(self.place, f"the table {name!r}"):
                run(_load_indexes(table))

    def _load_mapped_rows(self, name: str) -> None:
        rows = self.mapped_rows(name)
        _ = rows.addresses, rows._blocks

    # -- damage

    def damage(self) -> dict[str, str]:
        """The tables that cannot be read whole, with what their files say."""
        return self._failures("the table {!r}", _read_through)

    def damaged_search(self) -> dict[str, str]:
        """The tables whose rows are whole, but not what finds them: the search indexes."""
        return self._failures("the search indexes of the table {!r}", _load_indexes)

    def _failures(self, what: str, use: Callable[[AsyncTable], Coroutine[Any, Any, None]]) -> dict[str, str]:
        """The tables that cannot be used so, with what their files say."""
        messages = {}
        for name in (d.DOCUMENTS, *self._specs):
            try:
                with reading(self.place, what.format(name)):
                    if (table := self._table(name)) is not None:
                        run(use(table))
            except CorruptIndex as error:
                messages[name] = error.message
        return messages

    def unreadable(self, name: str) -> list[str]:
        """The documents whose rows in this table cannot be read, found by halving."""
        by_number = {row["_number"]: row["id"] for row in self.standing_all()}
        return [by_number[number] for number in self._unreadable(name, sorted(by_number))]

    def first_free(self) -> tuple[int, int]:
        """The first id and the first document number behind all that the tables hold, of documents that are gone too."""
        columns = [(d.DOCUMENTS, "_number"), *((name, _ID) for name, spec in self._specs.items() if spec.table.has_ids)]
        tables = [(self._table(name), name, column) for name, column in columns]
        ends = {name: _end(run(scan(table, [column]))[column]) for table, name, column in tables if table is not None}
        number = ends.pop(d.DOCUMENTS, 0)
        return max(ends.values(), default=0), number

    def standing_all(self) -> list[dict[str, Any]]:
        """Number and id of every document."""
        return self._scan_documents(["_number", "id"])

    def _unreadable(self, name: str, numbers: Sequence[int]) -> list[int]:
        try:
            with reading(self.place):
                table = self._table(name)
                if table is None or not numbers:
                    return []
                run(scan(table, None, f"{NUMBER} >= {numbers[0]} and {NUMBER} <= {numbers[-1]}"))
        except CorruptIndex:
            if len(numbers) == 1:
                return [numbers[0]]
            half = len(numbers) // 2
            return self._unreadable(name, numbers[:half]) + self._unreadable(name, numbers[half:])
        return []

    def altered_documents(self) -> list[str]:
        """The documents whose text is not the one that was written."""
        table = self._table(d.DOCUMENTS)
        if table is None or "_content" not in self._document_columns():
            return []
        return run(_altered_documents(table))


class Later(NamedTuple):
    """Rows that came after a search index: ids, the numbers of their documents, and vectors, one a row."""

    ids: IntArray
    documents: IntArray
    vectors: FloatArray

    def within(self, documents: DocumentFilter) -> Later:
        return self.where(documents.holds(self.documents))

    def where(self, kept: BoolArray) -> Later:
        return self if kept.all() else Later(self.ids[kept], self.documents[kept], self.vectors[kept])


class Spec(NamedTuple):
    """A table with the name of the view that it belongs to."""

    view: str
    table: Table


def specs_of(manifest: Manifest, registry: Registry) -> dict[str, Spec]:
    """The tables of all views of an index, by name, also of those that are being added."""
    unknown = [name for name in manifest.views if name not in registry]
    if unknown:
        raise UsageError(
            f"the index has a view {unknown[0]!r}, which is not known here",
            "upgrade mergewise, or install the package that brings it",
        )
    first = next(iter(registry))
    if first not in manifest.views:
        raise CorruptIndex(f"the index has no view {first!r}", ANEW)
    return {
        table.name: Spec(name, table)
        for name, view in registry.items()
        if name in manifest.views
        for table in view.tables_of(manifest.views[name].settings)
    }


def _languages_of(documents: pa.Table) -> Counter[str]:
    counts = documents["_language"].value_counts().to_pylist()
    return Counter({entry["values"]: entry["counts"] for entry in counts if entry["values"]})


def _end(numbers: pa.ChunkedArray) -> int:
    return 1 + pc.max(numbers).as_py() if len(numbers) else 0


def start(coroutine: Coroutine[Any, Any, Ranking]) -> Future[Ranking]:
    """A search that is under way: in this thread, unless that turns another loop."""
    return ThreadLoop.start(coroutine) if asyncio._get_running_loop() is None else _LOOP.start(coroutine)


def _query(table: AsyncTable) -> Any:
    """As `table.query()`, but it does not ask for the schema first, to look for columns of large objects: there are none."""
    from lancedb.query import AsyncQuery

    return AsyncQuery(table._inner.query())


async def _hits(query: Any) -> pa.Table:
    """As `query.to_arrow()`, but in one coroutine instead of five."""
    stream = await query._inner.execute(None, None)
    return pa.Table.from_batches([batch async for batch in stream], stream.schema)


async def _nothing() -> Ranking:
    return []


async def _best_of(rows: Later, vector: FloatArray, k: int) -> Ranking:
    return _best(rows.ids, rows.vectors @ vector, k)


async def _opened(place: Place, name: str, version: int) -> AsyncTable:
    table = await place.open_table(name)
    await table.checkout(version)
    return table


async def _read_through(table: AsyncTable) -> None:
    """Read every row of a table, in batches."""
    async for batch in await table.query().to_batches():
        batch.validate(full=True)


async def _altered_documents(table: AsyncTable) -> list[str]:
    found: list[str] = []
    async for batch in await table.query().select(["id", "_text", "_content"]).to_batches():
        found += [r["id"] for r in batch.to_pylist() if r["_content"] and d.content_of(r["_text"]) != r["_content"]]
    return found


async def _load_indexes(table: AsyncTable) -> None:
    await together(*(table.prewarm_index(index.name) for index in await table.list_indices()))


def scan(table: AsyncTable, columns: Sequence[str] | None, condition: str | None = None) -> Coroutine[Any, Any, Any]:
    """All rows that meet the condition; without `columns` whole."""
    query = table.query()
    if columns is not None:
        query = query.select(list(columns))
    return query.to_arrow() if condition is None else query.where(condition).to_arrow()


def _best(ids: IntArray, scores: FloatArray, k: int) -> Ranking:
    """The `k` best, best first; equal scores in the order of ids, so that results repeat."""
    order = np.lexsort((ids, -scores))[:k]
    return list(zip(ids[order].tolist(), scores[order].tolist(), strict=True))


def sql_strings(values: Iterable[str]) -> str:
    """A list to compare with. What holds half a surrogate pair, as a file's name may, is in no table: it is left out."""
    whole = (value for value in values if value == value.encode("utf-8", "ignore").decode())
    return ",".join("'" + value.replace("'", "''") + "'" for value in whole) or "null"
