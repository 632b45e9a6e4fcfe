"""Text and vector searches of one state of an index on LanceDB, with document filters.

Searches return row addresses. Ids, documents and vectors come from mapped files (`store.mapped`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from contextvars import ContextVar
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from mergewise.concurrency import in_thread
from mergewise.protocols import FloatArray, Ranking
from mergewise.store.damage import DamagedCopies, raising_store_errors
from mergewise.store.mapped import Mapped
from mergewise.store.numbers import EVERYTHING, BoolArray, DocumentFilter, IntArray, sorted_once, sql_numbers
from mergewise.store.postings import MAX_ROWS, Postings, TextFrequencies, TextIndex, make_postings
from mergewise.store.snapshot import ADDRESS, ID, LOOP, MOST_HELD, Snapshot, call_in_loop, rows_of, run, scan, start
from mergewise.store.tables import NUMBER, unit_vectors
from mergewise.store.text_scores import SearchedText, question_terms, text_terms

# recall 0.99 of an exact search at 10^5 rows
NPROBES, REFINE = 20, 2
# Rows up to which NPROBES partitions are searched. Beyond, the number grows with the rows to the power 2/3, because a fixed
# number of partitions of one size finds less and less: recall@10 of 0.96 at 10^6 rows (benchmarks/million.py).
PROBED_ROWS = 100_000
# maximum number of rows that a filtered search compares exactly, and the maximum as a multiple of an index search's depth
EXACT_ROWS, EXACT_DEPTH = 20_000, 50
# extra rows that a text search reads for ties: in 425 questions of three sets up to 25 rows tied at rank 100
TIED = 28
# number of rows whose postings are made at once
POSTED_ROWS = 20_000
# sort all rows up to this multiple of the wanted number
SORTED = 8
# maximum number of cached document ids
MOST_IDS = 100_000
# Numbers that BLAS multiplies in one thread. With more, its threads wait for each other busily: 18 ms CPU instead of 0.4 for
# 2,500 vectors on a busy machine.
ONE_THREAD = 400_000
DOC_ID = "doc_id"
_SEARCHES_AGAIN: ContextVar[bool] = ContextVar("mergewise-searches-again", default=False)


@raising_store_errors
class LanceSearch:
    """The search methods of `StoreReader` over a snapshot."""

    def __init__(self, state: Snapshot) -> None:
        self.state, self.place, self.manifest, self.specs = state, state.place, state.manifest, state.specs
        self._mapped_rows, self._is_mapped = state.mapped_rows, state.is_mapped
        self._row_count, self._reading = state.row_count, state.reading

    def text_search(
        self,
        question: str,
        k: int,
        where: str | None = None,
        table: str | None = None,
        *,
        words: bool = False,
        every: bool = False,
        exactly: bool = False,
        counted: str | None = None,
        frequencies: TextFrequencies | None = None,
    ) -> Future[Ranking]:
        """Search by BM25. `frequencies` and `counted` replace this index's statistics if it has postings."""
        table = table or self.state.first
        opened, spec = self.state.table(table), self.specs.get(table)
        column = None if spec is None else spec.table.words if words else spec.table.text
        if opened is None or not question.strip() or (words and column not in self.state.schema(table).names):
            return start(_nothing())
        documents = self.state.filter(where)
        if not documents.share:
            return start(_nothing())
        index = None if words else self.text_index(table, counted)
        if exactly and not (index and index.is_exact):
            return start(_nothing())
        if index is not None:
            terms = question_terms(question, exactly)
            found = index.scores(terms, frequencies or index.frequencies(terms), documents, every)
            return start(self._best(table, *found, k))
        asked: dict[str, Any] = {"query": question, "columns": [str(column)]}
        if every:
            from lancedb.query import FullTextOperator, MatchQuery

            make: Any = MatchQuery
            asked = {"query": make(question, str(column), operator=FullTextOperator.AND)}
        query = opened.query().nearest_to_text(asked)
        if documents.is_cheaper_as_condition(k + TIED):
            query.where(documents.condition)
            documents = EVERYTHING
        return self._start(
            self._text_ranking(table, query, k, documents),
            lambda: self.text_search(question, k, where, table, words=words, every=every),
        )

    def text_frequencies(
        self, question: str, table: str | None = None, counted: str | None = None, exactly: bool = False
    ) -> TextFrequencies | None:
        """Return this index's statistics for a question, or None without rows."""
        table = table or self.state.first
        index, searched = self.text_index(table, counted), self.searched_text(table)
        if index is not None:
            return index.frequencies(question_terms(question, exactly))
        return None if searched is None or exactly else searched.frequencies(question)

    def has_exact_names(self) -> bool:
        index = self.text_index(self.state.first)
        return index.is_exact if index is not None else not self._row_count(self.state.first)

    def searched_text(self, table: str) -> SearchedText | None:
        """Return the text of a table that LanceDB searches because it has no postings."""
        opened, column = self.state.table(table), str(self.specs[table].table.text)
        if opened is None or self.text_index(table) is not None:
            return None
        return self.state.kept.once(f"text of {table}", lambda: SearchedText(opened, column, self._row_count(table)))

    def text_index(self, table: str, counted: str | None = None) -> TextIndex | None:
        """Return the postings of a table, or None if LanceDB searches it. `counted` is a condition on their documents."""
        index = self.state.kept.once(f"postings of {table}", lambda: self._read_text_index(table))
        if index is None or counted is None:
            return index
        return self.state.kept.once(
            f"postings of {table}", lambda: index.within(self.state.numbers(counted).holds), counted
        )

    def _read_text_index(self, table: str) -> TextIndex | None:
        """Read the postings of a table. Make the postings that the files lack, unless LanceDB has a text index."""
        opened, rows, text = (self.state.table(table), self._row_count(table), str(self.specs[table].table.text))
        if opened is None or rows > MAX_ROWS:
            return None
        posted = Mapped.of(self.manifest.mapped.get(table)).posted
        # if a file is missing or damaged, all postings are made
        for first, files in ((posted, self._mapped_rows(table).postings), (0, [])):
            if first < self.manifest.next_id and any(
                one.columns == [text] for one in run(call_in_loop(opened.list_indices))
            ):
                return None
            new: list[Postings] = []
            if first < self.manifest.next_id:
                unposted = self.state.whole(table, [ID, NUMBER, text], f"{ID} >= {first}")
                parts = (unposted.slice(at, POSTED_ROWS) for at in range(0, len(unposted), POSTED_ROWS))
                new = [Postings(make_postings(part, text, text_terms)) for part in parts]
            index = TextIndex([*files, *new], rows, self.state.numbers().holds)
            if index.rows == rows:
                return index
        return None

    async def _text_ranking(self, table: str, query: Any, k: int, documents: DocumentFilter) -> Ranking:
        """Search until the ranking is complete.

        LanceDB returns an arbitrary choice of the rows that tie for the last places, so all ties are read. More rows are also
        read if documents outside the filter take the first places.
        """
        limit = documents.depth(k + TIED)
        with self._reading(self.place, f"the table {table!r}"):
            while True:
                hits = await self._hits(table, query, limit, "_score", documents)
                scores, ids = hits["_score"].to_numpy(), await self._ids_of(table, hits)
                meets = await self._meets(table, hits, ids, documents)
                ranking = await self._best(table, ids[meets], scores[meets], k)
                if len(hits) < limit or (len(ranking) >= k and scores.min() < ranking[k - 1][1]):
                    return ranking
                limit *= 4

    def vector_search(
        self, vector: FloatArray, k: int, where: str | None = None, table: str | None = None, column: str = "vector"
    ) -> Future[Ranking]:
        table = table or self.state.first
        opened = self.state.table(table)
        if opened is None or not self.manifest.dimension:
            return start(_nothing())
        documents = self.state.filter(where)
        if not documents.share:
            return start(_nothing())

        def again() -> Future[Ranking]:
            return self.vector_search(vector, k, where, table, column)

        if table in self.manifest.unembedded:
            self.state.hold_waiting_rows(table, opened)
        half = vector.astype(np.float16)
        asked = VectorQuery(table, column, half.astype(np.float32), k)
        # for mapped rows, candidates are compared exactly in this module
        refines = self._is_mapped(table)
        wanted = REFINE * k if refines else k
        # comparing all rows of few documents costs less than a filtered index search
        most = min(EXACT_ROWS, EXACT_DEPTH * documents.depth(wanted))
        if refines and not documents.excludes and documents.share * self._row_count(table) <= most:
            few = documents
            name = f"rows of {table} to {self._mapped_rows(table).end}"
            ids = self.state.kept.once(name, lambda: self._rows_of_documents(table, column, few), where)
            return self._start(self._exact_ranking(asked, ids), again)
        name = f"unindexed rows {table} {column} to {self._mapped_rows(table).end}"
        unindexed = self.state.kept.once(name, lambda: self._read_unindexed_rows(table, column))
        others = None if unindexed is None else unindexed.cosines(asked.vector, documents)
        if others is not None and not self._mapped_rows(table).indexed:
            return start(self._best(table, *others, k))
        packed = pa.Array.from_buffers(pa.float16(), len(half), [None, pa.py_buffer(half)])
        query: Any = opened.query().nearest_to(packed)
        query.column(column)
        query.distance_type("dot")
        if not refines:
            query.refine_factor(REFINE)
        if others is not None:
            query.fast_search()
        # The nearest rows of a small filter lie further apart, so more partitions are searched: recall 0.997 of an exact search,
        # instead of 0.80.
        probes = int(NPROBES * max(1.0, self._row_count(table) / PROBED_ROWS) ** (2 / 3) / documents.share**0.5)
        is_scanned = table in self.manifest.unembedded and f"{table}.{column}" not in self.manifest.trained
        conditions = [f"{column} is not null"] if is_scanned else []
        if documents.is_cheaper_as_condition(wanted):
            conditions, documents = [*conditions, f"({documents.condition})"], EVERYTHING
        if conditions:
            query.where(" and ".join(conditions))
        return self._start(self._vector_ranking(asked, query, documents, wanted, probes, others), again)

    def _read_unindexed_rows(self, table: str, column: str) -> UnindexedRows | None:
        """Return the mapped rows that the vector index lacks, or None if LanceDB has to scan for such rows."""
        mapped = self._mapped_rows(table)
        is_held, waits = table in self.state.held, table in self.manifest.unembedded
        if waits and not is_held:
            # the table's rows with vectors, while other rows wait for vectors
            first = mapped.indexed
            waiting = sum(max(0, end - max(first, begin)) for begin, end in self.manifest.unembedded[table])
            numbers = (self.manifest.next_id - first - waiting) * self.manifest.dimension
            if numbers > MOST_HELD or (not first and f"{table}.{column}" in self.manifest.trained):
                return None
            rows = self.state.whole(table, [ID, NUMBER, column], f"{ID} >= {first} and {column} is not null")
            stored = unit_vectors(rows, column)
            return None if stored is None else UnindexedRows(rows[ID].to_numpy(), rows[NUMBER].to_numpy(), stored)
        # This also replaces a vector index that does not exist yet: a scan of a few rows takes LanceDB ten times as long, and on
        # a bucket it would download all vectors. Rows in memory do the same.
        is_small = self._row_count(table) < self.specs[table].table.vector_index_rows
        replaces = is_small or is_held or self.place.refresh is not None
        replaces = replaces and f"{table}.{column}" not in self.manifest.trained
        if mapped.end < self.manifest.next_id or not (mapped.indexed or replaces) or not mapped.is_whole:
            return None
        ids = mapped.ids_from(mapped.indexed, column)
        # mapped files keep rows of deleted documents for a while
        ids = ids[self.state.numbers().holds(mapped.documents_of(ids))]
        vectors = np.full((len(ids), self.manifest.dimension), np.nan, np.float32)
        for at, some in mapped.vectors(ids, column):
            vectors[at] = some
        return None if np.isnan(vectors[:, 0]).any() else UnindexedRows(ids, mapped.documents_of(ids), vectors)

    def _rows_of_documents(self, table: str, column: str, documents: DocumentFilter) -> IntArray:
        """Return the ids of the documents' rows."""
        mapped = self._mapped_rows(table)
        parts = [ids[documents.holds(numbers)] for ids, numbers in mapped.by_document(column)]
        others = self.state.whole(table, [ID, NUMBER], f"{ID} >= {mapped.end}" if mapped.is_whole else None)
        parts.append(others[ID].to_numpy()[documents.holds(others[NUMBER].to_numpy())])
        return sorted_once(np.concatenate(parts))

    async def _exact_ranking(self, asked: VectorQuery, ids: IntArray) -> Ranking:
        """Rank these rows by exact cosines. Rows without vectors are left out."""
        with self._reading(self.place, f"the table {asked.table!r}"):
            cosines = await self._cosines(asked, ids, np.full(len(ids), np.nan, np.float32))
            has_vector = ~np.isnan(cosines)
            return await self._best(asked.table, ids[has_vector], cosines[has_vector], asked.k)

    async def _vector_ranking(
        self,
        asked: VectorQuery,
        query: Any,
        documents: DocumentFilter,
        wanted: int,
        probes: int,
        others: ScoredRows | None,
    ) -> Ranking:
        with self._reading(self.place, f"the table {asked.table!r}"):
            ids, cosines = await self._nearest(asked.table, query, documents, wanted, probes)
            if self._is_mapped(asked.table):
                # Approximate cosines of the vector index are replaced by exact ones. Unindexed rows have exact cosines already.
                # While rows wait for vectors, some indexed rows are not mapped yet.
                waits = asked.table in self.manifest.unembedded
                approximate = (ids < self._mapped_rows(asked.table).end) | waits
                exact = await self._cosines(asked, ids, np.where(approximate, np.nan, cosines))
                cosines = np.where(np.isnan(exact), cosines, exact)
            if others is not None:
                ids, cosines = np.concatenate([ids, others[0]]), np.concatenate([cosines, others[1]])
            return await self._best(asked.table, ids, cosines, asked.k)

    async def _nearest(
        self, table: str, query: Any, documents: DocumentFilter, wanted: int, probes: int
    ) -> tuple[IntArray, FloatArray]:
        """Return ids and approximate cosines of the `wanted` nearest rows of the documents.

        If the nearest partitions hold too few of these rows, more partitions are searched.
        """
        found = 0
        limit = wanted if documents is EVERYTHING else documents.depth(wanted) + TIED
        while True:
            query.nprobes(probes)
            hits = await self._hits(table, query, limit, "_distance", documents)
            ids, distances = await self._ids_of(table, hits), hits["_distance"].to_numpy()
            if documents is EVERYTHING:
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

    async def _cosines(self, asked: VectorQuery, ids: IntArray, cosines: FloatArray) -> FloatArray:
        """Compute cosines from mapped vectors. Unknown cosines (NaN) of unmapped rows are computed from the table."""
        cosines = cosines.copy()
        for at, vectors in self._mapped_rows(asked.table).vectors(ids, asked.column):
            cosines[at] = np.einsum("ij,j->i", vectors, asked.vector)
        unknown = np.isnan(cosines)
        # these rows are new, or their file is missing
        if unknown.any():
            lost = await self._rows_by_id(asked.table, ids[unknown], asked.column)
            stored = unit_vectors(lost, asked.column)
            cosines[unknown] = _values_of(ids[unknown], lost[ID], () if stored is None else stored @ asked.vector)
        return cosines

    async def _rows_by_id(self, table: str, ids: IntArray, column: str) -> pa.Table:
        """Read ids and a column of rows of an open table."""
        opened = self.state.opened[table]
        assert opened is not None
        return await scan(opened, [ID, column], f"{ID} in ({sql_numbers(ids.tolist())})")

    async def _best(self, table: str, ids: IntArray, scores: FloatArray, k: int) -> Ranking:
        """Return the `k` best rows, best first. Equal scores are in the order of document ids and of places in a document."""
        if not len(ids):
            return []
        if len(ids) > SORTED * k:
            # sort the best rows only, and those that tie with the last of them
            best = scores >= np.partition(scores, -k)[-k]
            ids, scores = ids[best], scores[best]
        # the same vectors in another order of rows have slightly other cosines
        rounded = np.round(scores.astype(np.float64), 6)
        order = np.lexsort((ids, -rounded))
        ids, rounded = ids[order], rounded[order]
        tied = np.zeros(len(ids) + 1, bool)
        tied[1:-1] = rounded[1:] == rounded[:-1]
        tied = (tied[1:] | tied[:-1]) & (rounded >= rounded[:k][-1])
        if tied.any() and self.specs[table].table.names_documents:
            documents = np.array(await self._document_ids(table, ids[tied]))
            ids[tied] = ids[tied][np.lexsort((ids[tied], documents, -rounded[tied]))]
        return list(zip(ids[:k].tolist(), rounded[:k].tolist(), strict=True))

    async def _document_ids(self, table: str, ids: IntArray) -> list[str]:
        """Return the id of each row's document. The ids of mapped rows' documents are cached by number."""
        cached = self.state.kept.once("ids by number", dict[int, str])
        with self._reading(self.place, f"the table {table!r}"):
            numbers = self._mapped_rows(table).documents_of(ids).tolist()
            found = list(map(cached.get, numbers))
            if all(found):
                return list(filter(None, found))
            missing = ids[[one is None for one in found]]
            parts = [rows for _, rows in self._mapped_rows(table).take(missing, [ID, DOC_ID])]
            unmapped = missing[~np.isin(missing, [row for part in parts for row in part[ID].to_pylist()])]
            parts += [await self._rows_by_id(table, unmapped, DOC_ID)] if len(unmapped) else []
            pairs = (zip(*(part[column].to_pylist() for column in (ID, DOC_ID)), strict=True) for part in parts)
            read = dict(chain.from_iterable(pairs))
            documents = [read[row] if one is None else one for row, one in zip(ids.tolist(), found, strict=True)]
        if len(cached) < MOST_IDS:
            cached.update((number, one) for number, one in zip(numbers, documents, strict=True) if number >= 0)
        return documents

    def _start(self, ranking: Coroutine[Any, Any, Ranking], again: Callable[[], Future[Ranking]]) -> Future[Ranking]:
        """Start a search. If it meets damaged copies, replace them and search `again`, once."""

        def renewed() -> Ranking:
            self.state.renew()
            return again().result()

        async def search() -> Ranking:
            try:
                return await ranking
            except DamagedCopies:
                if _SEARCHES_AGAIN.get():
                    raise
                _SEARCHES_AGAIN.set(True)
                return await asyncio.wrap_future(LOOP.start(in_thread(renewed)))

        return start(search())

    async def _meets(self, table: str, hits: pa.Table, ids: IntArray, documents: DocumentFilter) -> BoolArray:
        """Return for each hit whether its document passes the filter."""
        if documents is EVERYTHING:
            return np.ones(len(ids), bool)
        if NUMBER in hits.column_names:
            return documents.holds(hits[NUMBER].to_numpy())
        numbers = self._mapped_rows(table).documents_of(ids)
        unknown = np.flatnonzero(numbers < 0)
        if len(unknown):
            rows = await self._rows_by_id(table, ids[unknown], NUMBER)
            numbers[unknown] = _values_of(ids[unknown], rows[ID], rows[NUMBER].to_pylist())
        return documents.holds(numbers)

    async def _hits(self, table: str, query: Any, most: int, score: str, documents: DocumentFilter) -> pa.Table:
        """Read hits with the columns that identify their rows, and with document numbers if the filter needs them."""
        stored = [] if self._is_mapped(table) else [ID] if documents is EVERYTHING else [ID, NUMBER]
        query.limit(most)
        query.select_columns([*stored, score])
        query.with_row_id()
        return await rows_of(query, most)

    async def _ids_of(self, table: str, hits: pa.Table) -> IntArray:
        """Return the ids of hits. Addresses that no mapped file has are looked up in the table."""
        if ID in hits.column_names:
            stored: IntArray = hits[ID].to_numpy()
            return stored
        addresses = hits[ADDRESS].to_numpy().astype(np.int64)
        ids = self._mapped_rows(table).ids_at(addresses)
        unknown = np.flatnonzero(ids < 0)
        if len(unknown):
            opened = self.state.opened[table]
            assert opened is not None
            query: Any = opened.take_row_ids(addresses[unknown].tolist())
            query.select_columns([ID])
            query.with_row_id()
            rows = await rows_of(query)
            ids = ids.copy()
            ids[unknown] = _values_of(addresses[unknown], rows[ADDRESS], rows[ID].to_pylist())
        return ids


ScoredRows: TypeAlias = tuple[IntArray, FloatArray]
"""Ids of rows, and their scores."""


class VectorQuery(NamedTuple):
    """A query vector, the column to compare it with, and the number of rows to return."""

    table: str
    column: str
    vector: FloatArray
    k: int


class UnindexedRows(NamedTuple):
    """Rows that a vector index lacks: ids, document numbers, and vectors of shape (rows, dimension)."""

    ids: IntArray
    documents: IntArray
    vectors: FloatArray

    def cosines(self, vector: FloatArray, documents: DocumentFilter) -> ScoredRows:
        """Return the ids of the documents' rows with their cosines. A selection of scores is cheaper than one of vectors."""
        parts = np.array_split(self.vectors, 1 + self.vectors.size // ONE_THREAD)
        scores, meets = np.concatenate([part @ vector for part in parts]), documents.holds(self.documents)
        return self.ids[meets], scores[meets]


def _values_of(wanted: IntArray, keys: pa.ChunkedArray, values: Iterable[Any]) -> list[Any]:
    """Return the values of the wanted keys. A missing key is an error."""
    known = dict(zip(keys.to_pylist(), values, strict=True))
    return [known[one] for one in wanted.tolist()]


async def _nothing() -> Ranking:
    return []
