"""The reader of one state of an index in shards. Every query goes to all shards, and their results are merged.

Global row ids and document numbers have the shard in their high bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from hashlib import blake2b
from heapq import merge
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from threading import local
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mergewise.grouping import group_by
from mergewise.protocols import FloatArray, Ranking
from mergewise.protocols.indexes import Row
from mergewise.store.copies import Records, RepeatedTexts, copies_of, duplicates_of, repeated_numbers
from mergewise.store.kept import SnapshotCache
from mergewise.store.lance_reader import ShardHit
from mergewise.store.manifest import Manifest
from mergewise.store.numbers import DocumentNumbers, IntArray
from mergewise.store.postings import TextFrequencies
from mergewise.store.shards.calls import Call, PendingSearch, Search, Shards
from mergewise.store.shards.place import shard_of
from mergewise.store.snapshot import ID, specs_of
from mergewise.store.tables import NUMBER, columns_of, form, with_shift
from mergewise.store.text_scores import question_terms
from mergewise.store.views import Registry
from mergewise.types import Document, DocumentInfo, DocumentRows, Duplicate, Json, Known

# bits for the ids of one shard: with 1024 shards, global ids are still exact numbers in JSON
BITS = 42
LOW = (1 << BITS) - 1
# number of terms of a table whose frequencies are kept
MOST_TERMS = 100_000


class ShardedReader:
    """The `StoreReader` protocol over all shards. Values that are fixed for a state are cached by shard.

    Args:
        shards: The shards of one state.
        directory: Directory of the index.
        registry: The views that an index can have.
        before: The reader of an earlier state, whose answers of unchanged shards are taken over.
    """

    def __init__(
        self, shards: Shards, directory: Path | None, registry: Registry, before: ShardedReader | None = None
    ) -> None:
        self.shards, self.manifests = shards, shards.manifests
        # that of the first shard, for the fields that all shards share
        self.manifest = self.manifests[0]
        self.directory = directory
        self._all_numbers = range(len(self.manifests))
        self._specs = specs_of(self.manifest, registry)
        self._first = next(iter(self._specs))
        self.once = SnapshotCache().once
        # answers of all shards that are fixed for a state, by name, and the state of each
        self._answers: dict[str, tuple[Sequence[Manifest], Sequence[Any]]] = {}
        if before is not None:
            self._answers = before._answers.copy()
        # the searches of each thread that have not started: they share their messages to the shards
        self._waiting = local()

    @property
    def snapshot(self) -> str:
        return self.once("snapshot", lambda: snapshot_of(self.manifests))

    @property
    def gaps(self) -> str:
        return self.shards.gaps

    # -- calls

    def _all(self, method: str, *arguments: Any) -> list[Any]:
        """Return the answers of all shards to a call, in the order of the shards."""
        return self._some(dict.fromkeys(self._all_numbers, arguments), method)

    def _some(self, arguments: Mapping[int, tuple[Any, ...]], method: str) -> list[Any]:
        """Return the answers of some shards to one method with their own arguments, in the order of `arguments`."""
        answers = self.shards.ask({at: [Call.of(method, *own)] for at, own in arguments.items()}) if arguments else {}
        return [answers[at][0] for at in arguments]

    def _kept_answers(self, method: str, *arguments: Any) -> list[Any]:
        """Return the answers of all shards to a call that has one answer in a state. Unchanged shards are not asked again."""
        name = f"{method} {arguments}"

        def ask() -> list[Any]:
            known = self._unchanged_answers(name)
            asked = [at for at in self._all_numbers if at not in known]
            known |= zip(asked, self._some(dict.fromkeys(asked, arguments), method), strict=True)
            answers = [known[at] for at in self._all_numbers]
            self._answers[name] = self.manifests, answers
            return answers

        return self.once(f"all {name}", ask)

    def _unchanged_answers(self, name: str) -> dict[int, Any]:
        """Return the kept answers of the shards that are still in the state of the answer."""
        states = zip(self.manifests, *self._answers.get(name, ((), ())), strict=False)
        return {at: answer for at, (now, then, answer) in enumerate(states) if now == then}

    def _shard_of(self, doc_id: str) -> int:
        return shard_of(doc_id, len(self.manifests))

    def _by_id(
        self, method: str, doc_ids: Iterable[str], by_id: Callable[[Any], Mapping[str, Any]] = dict
    ) -> dict[str, Any]:
        """Ask each shard for its own documents, and merge the results by id."""
        ids = list(doc_ids)
        answers = self._some({at: (own,) for at, own in group_by(ids, self._shard_of).items()}, method)
        found = {doc_id: one for answer in answers for doc_id, one in by_id(answer).items()}
        return {doc_id: found[doc_id] for doc_id in ids if doc_id in found}

    # -- documents

    def documents(self, prefix: str = "", after: str | None = None, limit: int | None = None) -> list[DocumentInfo]:
        """List documents: without arguments shard by shard, in the order in which they were added."""
        pages = self._all("documents", prefix, after, limit)
        if not prefix and after is None and limit is None:
            return list(chain.from_iterable(pages))
        return list(islice(merge(*pages, key=attrgetter("id")), limit))

    def document(self, doc_id: str) -> Document | None:
        return self.texts([doc_id]).get(doc_id)

    def texts(self, doc_ids: Sequence[str]) -> dict[str, Document]:
        return self._by_id("texts", doc_ids)

    def infos(self, doc_ids: Sequence[str]) -> dict[str, DocumentInfo]:
        return self._by_id("infos", doc_ids)

    def known_documents(
        self, doc_ids: Sequence[str] = (), sources: Sequence[str] = (), below: Sequence[str] = ()
    ) -> list[Known]:
        return list(chain.from_iterable(self._all("known_documents", doc_ids, sources, below)))

    def document_rows(self, doc_ids: Sequence[str]) -> list[DocumentRows]:
        found = self._by_id("document_rows", doc_ids, lambda rows: {one.document.id: one for one in rows})
        for doc_id, rows in found.items():
            by = dict.fromkeys(("row", "leaf"), self._shard_of(doc_id) << BITS)
            found[doc_id] = replace(rows, tables={name: with_shift(own, by) for name, own in rows.tables.items()})
        return list(found.values())

    def numbers(self, where: str | None = None) -> DocumentNumbers:
        def join() -> DocumentNumbers:
            parts = self._kept_answers("numbers") if where is None else self._all("numbers", where)
            return DocumentNumbers(joined(own.array for own in parts))

        return self.once("numbers", join, where)

    def leaf_ranges(self, doc_ids: Sequence[str]) -> dict[str, range]:
        local = self._by_id("leaf_ranges", doc_ids)
        first = {doc_id: self._shard_of(doc_id) << BITS for doc_id in local}
        return {doc_id: range(first[doc_id] + own.start, first[doc_id] + own.stop) for doc_id, own in local.items()}

    def ids(self, where: str | None = None) -> list[str]:
        return list(chain.from_iterable(self._all("ids", where)))

    def missing(self, view: str) -> list[str]:
        """Return the documents that lack a view."""
        runs = {at: (one.views[view].missing,) for at, one in enumerate(self.manifests) if view in one.views}
        return list(chain.from_iterable(self._some(runs, "numbered_in")))

    def sizes(self, doc_ids: Collection[str] | None = None) -> tuple[int, int]:
        leaves, characters = zip(*self._all("sizes", doc_ids), strict=True)
        return sum(leaves), sum(characters)

    def metadata_kinds(self) -> dict[str, type]:
        return {name: kind for kinds in self._kept_answers("metadata_kinds") for name, kind in kinds.items()}

    def languages(self) -> Mapping[str, int]:
        return self.once("languages", lambda: sum(map(Counter, self._kept_answers("languages")), Counter()))

    def has_exact_names(self) -> bool:
        return all(self._kept_answers("has_exact_names"))

    def sample(self, language: str, count: int) -> IntArray:
        parts = self._all("sample", language, -(-count // len(self.manifests)))
        return joined(parts)

    @property
    def views(self) -> Mapping[str, Json]:
        first, *others = self.manifests
        return {
            name: first.views[name].settings for name in first.offered if all(name in one.offered for one in others)
        }

    def row_counts(self) -> dict[str, int]:
        counts = self._kept_answers("row_counts")
        return {name: sum(own[name] for own in counts) for name in counts[0]}

    def unembedded(self, table: str | None = None) -> IntArray:
        return self.once(f"unembedded of {table}", lambda: joined(self._kept_answers("unembedded", table)))

    def damage(self) -> dict[str, str]:
        """Map the unreadable tables, SHARD/TABLE, to their error messages."""
        return {f"{at}/{name}": text for at, own in enumerate(self._all("damage")) for name, text in own.items()}

    # -- rows

    def rows(self, table: str, record: type[Row], ids: Sequence[int]) -> dict[int, Row]:
        if table not in self._specs:
            return {}
        read = form(self._specs[table].table, record)
        # shards send columns, which are smaller than records, and all records are made at once
        answers = self._by_row("stored_rows", ids, lambda own: (table, read.columns, own))
        parts = [(at, rows) for at, own in answers.items() for rows in own]
        if not parts:
            return {}
        joined = self._join(table, parts)
        records = dict(zip(joined[ID].to_pylist(), read.read(joined), strict=True))
        return {row: records[row] for row in ids if row in records}

    def vectors(self, ids: Sequence[int], table: str | None = None, column: str = "vector") -> dict[int, FloatArray]:
        parts = self._by_row("vectors", ids, lambda own: (own, table, column)).items()
        found = {(at << BITS) + row: one for at, rows in parts for row, one in rows.items()}
        return {row: found[row] for row in ids if row in found}

    def _by_row(
        self, method: str, ids: Sequence[int], arguments: Callable[[list[int]], tuple[Any, ...]]
    ) -> dict[int, Any]:
        """Ask each shard for its own rows, and return the results by shard."""
        groups = group_by(ids, _shard)
        answers = self._some({at: arguments([row & LOW for row in own]) for at, own in groups.items()}, method)
        return dict(zip(groups, answers, strict=True))

    def whole(self, table: str, columns: Sequence[str]) -> pa.Table:
        return self._join(table, enumerate(self._all("whole", table, columns)))

    def sorted_columns(self, table: str, columns: Sequence[str]) -> Mapping[str, IntArray]:
        def sort() -> Mapping[str, IntArray]:
            parts = self._kept_answers("sorted_columns", table, tuple(columns))
            joined = self._join(table, ((at, pa.table(dict(own))) for at, own in enumerate(parts)))
            # parts are sorted, and ids grow from shard to shard
            order = np.argsort(joined[columns[0]].to_numpy(), kind="stable")
            return {name: joined[name].to_numpy()[order] for name in joined.column_names}

        return self.once(f"sorted {table} {tuple(columns)}", sort)

    def _join(self, table: str, parts: Iterable[tuple[int, pa.Table]]) -> pa.Table:
        """Join rows of shards. Ids and document numbers become global."""
        columns = columns_of(self._specs[table].table.record)
        id_columns = {NUMBER, *(column.name for column in columns if column.moves)}
        joined = (
            pa.table(
                {name: _shifted_column(own[name], at) if name in id_columns else own[name] for name in own.column_names}
            )
            for at, own in parts
        )
        return pa.concat_tables(joined, promote_options="default")

    # -- what documents have in common

    def copies(self, where: str | None = None) -> Mapping[int, int]:
        """Return the copies of documents in the same shard or in another one."""

        def read() -> Mapping[int, int]:
            repeated = self._repeated_documents()
            return copies_of(repeated, None if where is None or not repeated else self.numbers(where))

        return self.once("copies", read, where)

    def _repeated_documents(self) -> Records:
        """Return id and statement of each document whose text occurs more than once, in any shard."""

        def read() -> Records:
            texts: list[RepeatedTexts] = self._kept_answers("repeated_texts")
            hashes = np.concatenate([own.hashes for own in texts])
            numbers = joined(own.numbers for own in texts)
            order = np.argsort(hashes, kind="stable")
            repeated = repeated_numbers(hashes[order], numbers[order])
            known = self._unchanged_answers("repeated")
            by_shard = {at: np.array(own) & LOW for at, own in group_by(repeated.tolist(), _shard).items()}
            missing = {at: (own,) for at, own in by_shard.items() if known.get(at, {}).keys() != set(own.tolist())}
            for at, statements in zip(missing, self._some(missing, "statements"), strict=True):
                known[at] = {number: (name, statement) for number, name, statement in statements}
            own_records = [known[at] if at in by_shard else {} for at in self._all_numbers]
            self._answers["repeated"] = self.manifests, own_records
            return {(at << BITS) + number: one for at, own in enumerate(own_records) for number, one in own.items()}

        return self.once("repeated", read)

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
        exactly: bool = False,
        counted: str | None = None,
    ) -> Future[Ranking]:
        """Search text in all shards. With `words`, scores are local to each shard."""
        table = table or self._first
        if words:
            return self._start(self._search("text_search", question, k, where, table, words=words, every=every))
        return self._start(self._text_search(question, k, where, table, every, exactly, counted))

    def _start(self, search: Search) -> Future[Ranking]:
        if not hasattr(self._waiting, "batch"):
            self._waiting.batch = []
        return PendingSearch(self.shards, search, self._waiting.batch)

    def _text_search(
        self, question: str, k: int, where: str | None, table: str, every: bool, exactly: bool, counted: str | None
    ) -> Search:
        """Search with the statistics of all shards. They are asked only for terms that are not cached."""
        known_by_table = self.once("frequencies", dict[str, TextFrequencies], counted)
        terms, kept = set(question_terms(question, exactly)), known_by_table.get(table)
        if kept is None or not kept.counts.keys() >= terms:
            call = Call.of("text_frequencies", question, table, counted, exactly)
            answers = yield {at: [call] for at in self._all_numbers}
            parts = [own[0] for own in answers.values() if own[0] is not None]
            if not parts:
                return []
            total = TextFrequencies.total(parts)
            known = {} if kept is None or len(kept.counts) > MOST_TERMS else kept.counts
            kept = known_by_table[table] = total._replace(counts={**known, **total.counts})
        frequencies = kept._replace(counts={term: kept.counts[term] for term in terms})
        keywords = {"every": every, "exactly": exactly, "frequencies": frequencies}
        return (yield from self._search("text_search", question, k, where, table, **keywords))

    def vector_search(
        self, vector: FloatArray, k: int, where: str | None = None, table: str | None = None, column: str = "vector"
    ) -> Future[Ranking]:
        return self._start(self._search("vector_search", vector, k, where, table or self._first, column=column))

    def _search(self, method: str, asked: Any, k: int, where: str | None, table: str, **keywords: Any) -> Search:
        """Search each shard for `k` hits without copies. Equal scores are in the order of document ids, as in one index."""

        def read() -> dict[int, set[int]]:
            pairs = self.copies(where).items()
            by_shard = group_by((copy for copy, original in pairs if copy >> BITS != original >> BITS), _shard)
            return {at: {number & LOW for number in own} for at, own in by_shard.items()}

        copies = self.once("copies of others", read, where)
        found: dict[int, list[ShardHit]] = {}
        limit, missing = k, [*self._all_numbers]
        while missing:
            answers = yield {
                at: [Call.of("hits", method, table, asked, limit, where=where, **keywords)] for at in missing
            }
            for at, (hits,) in answers.items():
                # a shard drops copies of its own documents
                found[at] = [hit for hit in hits if hit[-1] not in copies[at]] if at in copies else hits
            # a shard whose hits are mostly copies may have more hits
            missing = [at for at, (hits,) in answers.items() if len(found[at]) < k and len(hits) >= limit]
            limit *= 4
        hits = ((score, name, (at << BITS) + row) for at, own in found.items() for score, name, row, _ in own)
        return [(row, -score) for score, _, row in sorted(hits)[:k]]


def snapshot_of(manifests: Iterable[Manifest]) -> str:
    return blake2b(" ".join(manifest.snapshot for manifest in manifests).encode(), digest_size=8).hexdigest()


def joined(parts: Iterable[IntArray]) -> IntArray:
    """Join the ids or numbers of all shards, converted to global ones."""
    return np.concatenate([own + (at << BITS) for at, own in enumerate(parts)])


def _shifted_column(column: pa.ChunkedArray, at: int) -> pa.ChunkedArray | pa.Array:
    """Convert a column of a shard's ids, or of lists of ids, to global ones."""
    if not pa.types.is_list(column.type):
        return pc.add(column, at << BITS)
    lists = column.combine_chunks()
    return pa.ListArray.from_arrays(lists.offsets, pc.add(lists.values, at << BITS), type=column.type)


def _shard(row: int) -> int:
    return row >> BITS
