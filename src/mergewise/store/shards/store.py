"""A store in shards. A change applies to the shards of its documents, and becomes visible in all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from mergewise.errors import CorruptIndex
from mergewise.store.lance import LOCK_SECONDS, LanceStore
from mergewise.store.lance_import import IN_USE
from mergewise.store.lance_reader import LanceReader
from mergewise.store.manifest import Manifest
from mergewise.store.shards.calls import LocalShards
from mergewise.store.shards.place import ChangingShardPlace, Manifests, ShardedFolder, ShardPlace, shard_of
from mergewise.store.shards.reader import BITS, LOW, ShardedReader, group_by
from mergewise.store.views import Registry
from mergewise.types import AddReport, DocumentRows, Metadata, Problem

Part = TypeVar("Part")
Result = TypeVar("Result")


class ShardedStore:
    """The `Store` protocol over shards in a folder."""

    def __init__(self, place: ShardedFolder, registry: Registry, lock_wait: float = LOCK_SECONDS) -> None:
        self.place = place
        self.registry = registry
        self.lock_wait = lock_wait
        self._opening = Lock()
        self._shards: LocalShards | None = None
        self._reader: ShardedReader | None = None

    @property
    def directory(self) -> Path:
        return self.place.directory

    @property
    def manifests(self) -> Manifests:
        return self.place.manifests()

    @property
    def manifest(self) -> Manifest:
        return self.place.known()

    @property
    def settings(self) -> Mapping[str, Mapping[str, Any]]:
        return {name: view.settings for name, view in self.manifests[0].views.items()}

    def reader(self) -> ShardedReader:
        IN_USE.check_own_process(self.place)
        manifests = self.manifests
        with self._opening:
            before = self._reader
            if before is None or before.manifests != manifests:
                olds = dict(enumerate(() if self._shards is None else self._shards.readers))
                readers = [self._open(at, manifest, olds.get(at)) for at, manifest in enumerate(manifests)]
                self._shards = LocalShards(readers)
                self._reader = ShardedReader(self._shards, self.directory, self.registry, before)
            assert self._reader is not None
            return self._reader

    def _open(self, at: int, manifest: Manifest, before: LanceReader | None) -> LanceReader:
        """Open the reader of a shard. An unchanged shard keeps its reader."""
        if before is not None and before.manifest == manifest:
            return before
        self.place.check_shard(at)
        return LanceReader(ShardPlace(self.place, at), manifest, self.registry, before)

    # -- changes

    @contextmanager
    def _change(self) -> Iterator[list[LanceStore]]:
        """Yield all shards as stores, for one common change."""
        with self.place.writer(self.lock_wait):
            before = self.manifests
            changing = list(before)
            places = [ChangingShardPlace(self.place, at, changing) for at in range(len(changing))]
            yield [LanceStore(place, self.registry, self.lock_wait) for place in places]
            if tuple(changing) != before:
                self.place.write(changing, self.place.shards().id)
                for place, now, then in zip(places, changing, before, strict=True):
                    if now != then:
                        place.sweep()

    def _by_shard(self, parts: Iterable[Part], doc_id: Callable[[Part], str]) -> dict[int, list[Part]]:
        shards = len(self.manifests)
        return group_by(parts, lambda part: shard_of(doc_id(part), shards))

    def _in_all(self, change: Callable[[LanceStore], Result]) -> list[Result]:
        """Make the same change in all shards."""
        with self._change() as shards:
            return [change(shard) for shard in shards]

    def _in_some(
        self, parts: Mapping[int, Sequence[Part]], change: Callable[[LanceStore, Sequence[Part]], Result]
    ) -> list[Result]:
        """Make a change in the shards that have parts of it."""
        with self._change() as shards:
            return [change(shards[at], own) for at, own in parts.items()]

    def write(
        self, rows: Sequence[DocumentRows], *, force: bool = False, remove: Sequence[str] = (), optimize: bool = False
    ) -> AddReport:
        with self._change() as shards:
            added = self._by_shard(rows, lambda row: row.document.id)
            removed = self._by_shard(remove, str)
            written = sorted({*added, *removed})
            report = AddReport()
            for at in written:
                own, gone = added.get(at, ()), removed.get(at, ())
                report += shards[at].write(own, force=force, remove=gone, optimize=optimize)
                _declare_metadata(shards, at)
            if optimize:
                for at in set(range(len(shards))).difference(written):
                    # earlier changes may have left this shard behind
                    shards[at].optimize()
            return report

    def remove(self, doc_ids: Sequence[str]) -> int:
        return sum(self._in_some(self._by_shard(doc_ids, str), LanceStore.remove))

    def describe(self, metadata: Mapping[str, Metadata]) -> None:
        with self._change() as shards:
            for at, own in self._by_shard(metadata.items(), lambda item: item[0]).items():
                shards[at].describe(dict(own))
                _declare_metadata(shards, at)

    def optimize(self) -> None:
        self._in_all(LanceStore.optimize)

    # -- views and vectors that come later

    def begin_view(self, view: str, settings: Mapping[str, Any]) -> None:
        self._in_all(lambda shard: shard.begin_view(view, settings))

    def missing(self, view: str) -> list[str]:
        return self.reader().missing(view)

    def write_view(self, view: str, rows: Sequence[DocumentRows]) -> None:
        by_shard = self._by_shard(rows, lambda row: row.document.id)
        self._in_some(by_shard, lambda shard, own: shard.write_view(view, own))

    def finish_view(self, view: str) -> bool:
        return all(self._in_all(lambda shard: shard.finish_view(view)))

    def write_vectors(self, table: str, ids: Sequence[int], columns: Mapping[str, Any]) -> int:
        def write(shard: LanceStore, places: Sequence[int]) -> int:
            own = {name: [values[place] for place in places] for name, values in columns.items()}
            return shard.write_vectors(table, [ids[place] & LOW for place in places], own)

        return sum(self._in_some(group_by(range(len(ids)), lambda place: ids[place] >> BITS), write))

    def finish_vectors(self) -> bool:
        return all(self._in_all(LanceStore.finish_vectors))

    # -- check and repair

    def check(self) -> list[Problem]:
        """Return the broken invariants of each shard, and the documents in the wrong shard."""
        count, problems = len(self.manifests), []
        with self._opening:
            self._reader = self._shards = None
        if self.place.shards().id is None:
            problems.append(Problem("no ids in the shards: swapped ones are not recognised"))
        try:
            for at in range(count):
                for problem in LanceStore(ShardPlace(self.place, at), self.registry, self.lock_wait).check():
                    problems.append(problem if problem.doc_id else replace(problem, what=f"shard {at}: {problem.what}"))
            for at, own in enumerate(self.reader().ids_by_shard()):
                wrong = [doc_id for doc_id in own if shard_of(doc_id, count) != at]
                problems += [
                    Problem(f"in shard {at} (expected in shard {shard_of(doc_id, count)})", doc_id) for doc_id in wrong
                ]
        except CorruptIndex as error:
            problems.append(Problem(error.message))
        return problems

    def repair(self) -> list[str]:
        rebuilt = list(chain.from_iterable(self._in_all(LanceStore.repair)))
        with self.place.writer(self.lock_wait):
            if self.place.shards().id is None:
                self.place.identify(self.manifests)
        return rebuilt


def _declare_metadata(shards: Sequence[LanceStore], at: int) -> None:
    """Add the metadata columns of one shard to all shards, because a condition goes to all, and a key has one type in all."""
    kinds = shards[at].reader().metadata_kinds()
    for shard in shards:
        if kinds.keys() - shard.reader().metadata_kinds().keys():
            shard.declare_metadata(kinds)
