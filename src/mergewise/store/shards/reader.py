"""The reader of one state of an index in shards. Every query goes to all shards, and their results are merged.

Global row ids and document numbers have the shard in their high bits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import blake2b
from heapq import merge
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mergewise.protocols import FloatArray, Ranking
from mergewise.store.copies import Records, RepeatedTexts, copies_of, duplicates_of, repeated_numbers
from mergewise.store.documents import Statement
from mergewise.store.kept import SnapshotCache
from mergewise.store.lance_reader import LanceReader
from mergewise.store.manifest import Manifest
from mergewise.store.mapped import IntArray
from mergewise.store.numbers import DocumentNumbers
from mergewise.store.shards.place import shard_of
from mergewise.store.shards.text_scores import ShardTexts, rescore
from mergewise.store.sorted_columns import SortedColumns
from mergewise.store.tables import NUMBER, Column, columns_of
from mergewise.types import Document, DocumentInfo, DocumentRows, Duplicate, Known, RowId, Rows

Row = TypeVar("Row")
Kept = TypeVar("Kept")
Result = TypeVar("Result")

# bits for the ids of one shard: with 1024 shards, global ids are still exact numbers in JSON
BITS = 42
LOW = (1 << BITS) - 1
# minimum number of hits of each shard that are rescored
RESCORED = 64


class ShardedReader:
    """The `StoreReader` protocol over the readers of all shards."""

    def __init__(self, directory: Path, readers: Sequence[LanceReader]) -> None:
        self.directory = directory
        self.readers = tuple(readers)
        self._kept = SnapshotCache()

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        return tuple(reader.manifest for reader in self.readers)

    @property
    def manifest(self) -> Manifest:
        """The manifest of the first shard, for the fields that all shards share."""
        return self.readers[0].manifest

    @property
    def snapshot(self) -> str:
        return snapshot_of(self.manifests)

    def once(self, name: str, make: Callable[[], Kept], where: str | None = None) -> Kept:
        return self._kept.once(name, make, where)

    def _shard_of(self, doc_id: str) -> int:
        return shard_of(doc_id, len(self.readers))

    def _by_id(
        self, doc_ids: Iterable[str], ask: Callable[[LanceReader, list[str]], Mapping[str, Result]]
    ) -> dict[str, Result]:
        """Ask each shard for its own documents, and merge the results by id."""
        found: dict[str, Result] = {}
        ids = list(doc_ids)
        for at, own in group_by(ids, self._shard_of).items():
            found |= ask(self.readers[at], own)
        return {doc_id: found[doc_id] for doc_id in ids if doc_id in found}

    # -- documents

    def documents(self, prefix: str = "", after: str | None = None, limit: int | None = None) -> list[DocumentInfo]:
        """List documents: without arguments shard by shard, in the order in which they were added."""
        pages = [reader.documents(prefix, after, limit) for reader in self.readers]
        if not prefix and after is None and limit is None:
            return [info for page in pages for info in page]
        return list(islice(merge(*pages, key=attrgetter("id")), limit))

    def document(self, doc_id: str) -> Document | None:
        return self.readers[self._shard_of(doc_id)].document(doc_id)

    def texts(self, doc_ids: Sequence[str]) -> dict[str, Document]:
        return self._by_id(doc_ids, LanceReader.texts)

    def known_documents(self, doc_ids: Sequence[str] = (), sources: Sequence[str] = ()) -> list[Known]:
        return [known for reader in self.readers for known in reader.known_documents(doc_ids, sources)]

    def document_rows(self, doc_ids: Sequence[str]) -> list[DocumentRows]:
        found = self._by_id(doc_ids, lambda reader, own: {rows.document.id: rows for rows in reader.document_rows(own)})
        return [_rows_in(self._shard_of(doc_id), found[doc_id]) for doc_id in doc_ids if doc_id in found]

    def numbers(self, where: str | None = None) -> DocumentNumbers:
        def join() -> DocumentNumbers:
            parts = [shifted(reader.numbers(where).array, at) for at, reader in enumerate(self.readers)]
            return DocumentNumbers(np.concatenate(parts))

        return self.once("numbers", join, where)

    def leaf_ranges(self, doc_ids: Sequence[str]) -> dict[str, range]:
        local = self._by_id(doc_ids, LanceReader.leaf_ranges)
        first = {doc_id: self._shard_of(doc_id) << BITS for doc_id in local}
        return {doc_id: range(first[doc_id] + own.start, first[doc_id] + own.stop) for doc_id, own in local.items()}

    def ids(self, where: str | None = None) -> list[str]:
        return [doc_id for reader in self.readers for doc_id in reader.ids(where)]

    def sizes(self, doc_ids: Collection[str] | None = None) -> tuple[int, int]:
        sizes = [reader.sizes(doc_ids) for reader in self.readers]
        return sum(leaves for leaves, _ in sizes), sum(characters for _, characters in sizes)

    def metadata_kinds(self) -> dict[str, type]:
        return {name: kind for reader in self.readers for name, kind in reader.metadata_kinds().items()}

    def languages(self) -> Mapping[str, int]:
        return sum((Counter(reader.languages()) for reader in self.readers), Counter())

    def sample(self, language: str, count: int) -> IntArray:
        share = -(-count // len(self.readers))
        return np.concatenate([shifted(reader.sample(language, share), at) for at, reader in enumerate(self.readers)])

    @property
    def views(self) -> Mapping[str, Mapping[str, Any]]:
        offered = [reader.views for reader in self.readers]
        return {name: settings for name, settings in offered[0].items() if all(name in views for views in offered)}

    def row_counts(self) -> dict[str, int]:
        counts = [reader.row_counts() for reader in self.readers]
        return {name: sum(shard[name] for shard in counts) for name in counts[0]}

    def unembedded(self, table: str | None = None) -> IntArray:
        return np.concatenate([shifted(reader.unembedded(table), at) for at, reader in enumerate(self.readers)])

    def damage(self) -> dict[str, str]:
        """Map the unreadable tables, SHARD/TABLE, to their error messages."""
        return {
            f"{at}/{name}": message
            for at, reader in enumerate(self.readers)
            for name, message in reader.damage().items()
        }

    # -- rows

    def rows(self, table: str, record: type[Row], ids: Sequence[int]) -> dict[int, Row]:
        found = self._by_row(ids, lambda reader, own: reader.rows(table, record, own))
        return {row: record_in(_shard(row), one) for row, one in found.items()}

    def vectors(self, ids: Sequence[int], table: str | None = None, column: str = "vector") -> dict[int, FloatArray]:
        return self._by_row(ids, lambda reader, own: reader.vectors(own, table, column))

    def _by_row(
        self, ids: Sequence[int], ask: Callable[[LanceReader, list[int]], Mapping[int, Result]]
    ) -> dict[int, Result]:
        """Ask each shard for its own rows, and merge the results by id."""
        found: dict[int, Result] = {}
        for at, own in group_by(ids, _shard).items():
            rows = ask(self.readers[at], [row & LOW for row in own])
            found |= {(at << BITS) + row: one for row, one in rows.items()}
        return {row: found[row] for row in ids if row in found}

    def whole(self, table: str, columns: Sequence[str]) -> pa.Table:
        return pa.concat_tables(
            self._columns_in(at, table, reader.whole(table, columns)) for at, reader in enumerate(self.readers)
        )

    def sorted_columns(self, table: str, columns: Sequence[str]) -> Mapping[str, IntArray]:
        def sort() -> Mapping[str, IntArray]:
            parts = [pa.table(dict(reader.sorted_columns(table, columns))) for reader in self.readers]
            joined = pa.concat_tables(self._columns_in(at, table, part) for at, part in enumerate(parts))
            return SortedColumns.of(joined).columns

        return self.once(f"sorted {table} {tuple(columns)}", sort)

    def _columns_in(self, at: int, table: str, rows: pa.Table) -> pa.Table:
        """Convert the ids and document numbers in a shard's columns to global ones."""
        id_columns = {NUMBER, *_id_columns(self.readers[at]._specs[table].table.record)}
        for place, name in enumerate(rows.column_names):
            if name in id_columns:
                rows = rows.set_column(place, name, pc.add(rows[name], at << BITS))
        return rows

    # -- what documents have in common

    def copies(self, where: str | None = None) -> Mapping[int, int]:
        """Return the copies of documents in the same shard or in another one."""
        return self.once("copies", lambda: self._read_copies(where), where)

    def _read_copies(self, where: str | None) -> Mapping[int, int]:
        return copies_of(self._repeated_documents(), None if where is None else self.numbers(where))

    def _repeated_documents(self) -> Records:
        """Return id and statement of each document whose text occurs more than once, in any shard."""
        return self.once("repeated", self._read_repeated_documents)

    def _read_repeated_documents(self) -> Records:
        texts: list[RepeatedTexts] = [reader._repeated_texts() for reader in self.readers]
        hashes = np.concatenate([own.hashes for own in texts])
        numbers = np.concatenate([shifted(own.numbers, at) for at, own in enumerate(texts)])
        order = np.argsort(hashes, kind="stable")
        repeated = repeated_numbers(hashes[order], numbers[order])
        records: dict[int, tuple[str, Statement]] = {}
        for at, reader in enumerate(self.readers):
            own = repeated[repeated >> BITS == at] & LOW
            records |= {(at << BITS) + number: (name, statement) for number, name, statement in reader._statements(own)}
        return records

    def duplicates(self) -> list[Duplicate]:
        return duplicates_of(self._repeated_documents(), self.copies())

    # -- searches

    def text_search(
        self,
        question: str,
        k: int,
        where: str | None = None,
        table: str | None = None,
        *,
        words: bool = False,
        every: bool = False,
    ) -> Future[Ranking]:
        """Search text in all shards. With `words`, scores are local to each shard."""
        name = table or self.readers[0]._first
        ask = partial(LanceReader.text_search, question=question, where=where, table=name, words=words, every=every)
        return self._search(ask, k, where, name, None if words else partial(self._rescore, question, name))

    def _rescore(self, question: str, name: str, rankings: Sequence[Ranking]) -> Sequence[Ranking]:
        # cached by each reader, so that an unchanged shard keeps its statistics
        texts = [
            reader.once(f"texts {name}", partial(ShardTexts, reader, reader._specs[name].table))
            for reader in self.readers
        ]
        return rescore(question, texts, rankings)

    def vector_search(
        self, vector: FloatArray, k: int, where: str | None = None, table: str | None = None, column: str = "vector"
    ) -> Future[Ranking]:
        name = table or self.readers[0]._first
        ask = partial(LanceReader.vector_search, vector=vector, where=where, table=name, column=column)
        return self._search(ask, k, where, name)

    def _search(
        self,
        ask: Callable[..., Future[Ranking]],
        k: int,
        where: str | None,
        table: str,
        score: Callable[[Sequence[Ranking]], Sequence[Ranking]] | None = None,
    ) -> Future[Ranking]:
        """Search each shard for at least `k` hits, rescore them with `score` if given, and merge them."""
        # more than `k` hits, because the best row by global scores need not be the best of its shard
        first_limit = max(k, RESCORED)

        def gather(futures: Sequence[Future[Ranking]]) -> Ranking:
            limit = first_limit
            while True:
                local = [future.result() for future in futures]
                first = [self._without_copies(at, own, where, table) for at, own in enumerate(local)]
                # a shard whose hits are mostly copies may have more hits
                if all(len(kept) >= first_limit or len(own) < limit for kept, own in zip(first, local, strict=True)):
                    break
                limit *= 4
                futures = [ask(reader, k=limit) for reader in self.readers]
            best = [kept[:first_limit] for kept in first]
            scored = best if score is None else score(best)
            found = [((at << BITS) + row, value) for at, own in enumerate(scored) for row, value in own]
            return sorted(found, key=lambda hit: (-hit[1], hit[0]))[:k]

        return _Gathering([ask(reader, k=first_limit) for reader in self.readers], gather)

    def _without_copies(self, at: int, ranking: Ranking, where: str | None, table: str) -> Ranking:
        """Drop rows of documents whose original is in another shard. A shard itself drops copies of its own documents."""
        copies = self.once("copies of others", lambda: self._copies_of_others(where), where)[at]
        if not len(copies) or not ranking:
            return ranking
        rows = self.readers[at].rows(table, RowOfDocument, [row for row, _ in ranking])
        copied = {row for row, record in rows.items() if copies.holds(np.array([record.document]))[0]}
        return [hit for hit in ranking if hit[0] not in copied]

    def _copies_of_others(self, where: str | None) -> list[DocumentNumbers]:
        pairs = self.copies(where).items()
        by_shard = group_by((copy for copy, original in pairs if copy >> BITS != original >> BITS), _shard)
        return [DocumentNumbers.of(n & LOW for n in by_shard.get(at, ())) for at in range(len(self.readers))]


class _Gathering(Future[Ranking]):
    """The merged result of running searches, for the thread that started them."""

    def __init__(
        self, futures: Sequence[Future[Ranking]], gather: Callable[[Sequence[Future[Ranking]]], Ranking]
    ) -> None:
        super().__init__()
        self._futures, self._gather = futures, gather

    def result(self, timeout: float | None = None) -> Ranking:
        return self._gather(self._futures)


@dataclass(frozen=True, slots=True)
class RowOfDocument:
    id: RowId
    document: int


def snapshot_of(manifests: Iterable[Manifest]) -> str:
    return blake2b(" ".join(manifest.snapshot for manifest in manifests).encode(), digest_size=8).hexdigest()


def shifted(numbers: IntArray, at: int) -> IntArray:
    """Convert a shard's ids or numbers to global ones."""
    return numbers + (at << BITS)


def _shard(row: int) -> int:
    return row >> BITS


def group_by(values: Iterable[Row], key: Callable[[Row], int]) -> dict[int, list[Row]]:
    groups: dict[int, list[Row]] = defaultdict(list)
    for value in values:
        groups[key(value)].append(value)
    return groups


@cache
def _id_columns(record: type) -> dict[str, Column]:
    """Return the fields of a record that hold ids or document numbers."""
    return {column.name: column for column in columns_of(record) if column.moves or column.name == "document"}


def record_in(at: int, record: Row) -> Row:
    """Convert the ids in a shard's record to global ones."""
    if not at:
        return record
    shift = at << BITS
    own: type = type(record)
    ids = {name: column.shift(getattr(record, name), shift) for name, column in _id_columns(own).items()}
    return replace(record, **ids) if ids else record  # type: ignore[type-var]


def _rows_in(at: int, rows: DocumentRows) -> DocumentRows:
    tables = {
        name: Rows(tuple(record_in(at, record) for record in own.records), own.columns)
        for name, own in rows.tables.items()
    }
    return replace(rows, tables=tables)
