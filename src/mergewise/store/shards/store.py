"""A store in shards. A change applies to the shards of its documents, and becomes visible in all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import replace
from itertools import chain
from threading import Lock
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from mergewise.errors import CorruptIndex
from mergewise.grouping import group_by
from mergewise.store.damage import after_change
from mergewise.store.documents import storable_metadata
from mergewise.store.lance import LOCK_SECONDS, LanceStore, check_one_state, look_for_changes
from mergewise.store.lance_import import IN_USE
from mergewise.store.lance_indexes import Upkeep
from mergewise.store.lance_reader import LanceReader
from mergewise.store.manifest import Manifest, ShardedManifest
from mergewise.store.places.folder import Folder
from mergewise.store.places.place import Place
from mergewise.store.shards.calls import LocalShards
from mergewise.store.shards.place import shard_of
from mergewise.store.shards.reader import BITS, LOW, ShardedReader
from mergewise.store.views import Registry
from mergewise.types import AddReport, DocumentRows, Json, Metadata, Problem

Part = TypeVar("Part")
Result = TypeVar("Result")

# number of shards that are read or changed in parallel
_STREAMS = 8


class ShardedStore:
    """The `Store` protocol over the shards of a place."""

    def __init__(self, place: Place, registry: Registry, lock_wait: float = LOCK_SECONDS) -> None:
        self.place, self.directory = place, place.directory
        self.registry = registry
        self.lock_wait = lock_wait
        self.upkeep = Upkeep()
        self._opening = Lock()
        self._shards: LocalShards | None = None
        self._reader: ShardedReader | None = None
        # the stores of all shards, for changes
        self._stores: list[LanceStore] = []

    @property
    def manifest(self) -> ShardedManifest:
        return self._checked(self.place.known())

    def _checked(self, manifest: Manifest | None) -> ShardedManifest:
        if not isinstance(manifest, ShardedManifest):
            raise CorruptIndex(f"missing list of shards in {self.place}", "restore a copy")
        return manifest

    @property
    def settings(self) -> Mapping[str, Json]:
        return self.manifest.settings

    def reader(self) -> ShardedReader:
        IN_USE.check_own_process(self.place)
        manifest = self.manifest
        with self._opening:
            first, before = self._shards is None, self._reader
            if before is None or before.manifests != manifest.shards:
                self._shards, self._reader = self._open_all(manifest)
                if self.place.refresh is not None and first:
                    in_threads(LanceReader.prewarm, self._shards.readers)
                    look_for_changes(self, self.place.refresh)
            assert self._reader is not None
            return self._reader

    def shard_readers(self) -> Sequence[LanceReader]:
        """Return the readers of all shards of the last finished change."""
        self.reader()
        assert self._shards is not None
        return self._shards.readers

    def refresh(self) -> None:
        """Look for a newer state of the place and open it. Queries use the old state until the new one is ready."""
        state = self.place.newer()
        if state is not None:
            before = () if self._shards is None else self._shards.readers
            shards, reader = self._open_all(self._checked(state.manifest))
            in_threads(LanceReader.prewarm, [own for own in shards.readers if own not in before])
            with self._opening:
                self.place.know(state)
                self._shards, self._reader = shards, reader

    def _open_all(self, manifest: ShardedManifest) -> tuple[LocalShards, ShardedReader]:
        olds = {} if self._shards is None else {reader.directory: reader for reader in self._shards.readers}
        readers: list[LanceReader] = []
        for name, own in manifest.parts.items():
            place = self.place.shard(name)
            before = olds.get(place.directory)
            # an unchanged shard keeps its reader
            if before is None or before.manifest != own:
                place.check_same()
                before = LanceReader(place, own, self.registry, before)
                before.hold = place.hold(own)
            readers.append(before)
        shards = LocalShards(readers)
        return shards, ShardedReader(shards, self.place.directory, self.registry, self._reader)

    # -- changes

    @contextmanager
    def _change(self, *, cleans: bool = False) -> Iterator[list[LanceStore]]:
        """Yield all shards as stores, for one common change. `cleans` deletes old versions also if they are few."""
        # check before locking, because the lock file would create a missing folder
        self.place.check_same()
        with self.place.writer(self.lock_wait) as writer:
            state = self.place.manifest()
            before = self._checked(None if state is None else state.manifest)
            assert state is not None
            places = [self.place.shard(name, changing=True) for name in before.parts]
            for place, manifest in zip(places, before.shards, strict=True):
                place.pending, place.right = manifest, writer
            # a failed change leaves values of rows that no manifest names
            stores, self._stores = self._stores, []
            if [store.place for store in stores] != places:
                # with its reader, a store does not look for changes itself
                parts = zip(places, before.shards, strict=True)
                readers = [LanceReader(place, own, self.registry) for place, own in parts]
                stores = [LanceStore(own.place, self.registry, self.lock_wait, own) for own in readers]
            for store in stores:
                store.upkeep = self.upkeep
            # a change of each shard fences off the writer that lost its lease
            for store in stores if writer.took_over else ():
                store.remove(())
            yield stores
            shards = [place.pending or manifest for place, manifest in zip(places, before.shards, strict=True)]
            if tuple(shards) != before.shards:
                now = ShardedManifest.of(shards, before.id, before.generation)
                self.place.swap(now, state.tag, writer)
                cleans = cleans and self.place.refresh is None
                if cleans and self._shards is not None:
                    self.reader()
                after_change(lambda: self.place.clean(now, sure=cleans), f"cannot clean {self.place}")
            self._stores = stores

    def _in_all(self, change: Callable[..., Result], *arguments: Any) -> list[Result]:
        """Make the same change, a method of `LanceStore`, in all shards."""
        with self._change() as shards:
            return in_threads(lambda shard: change(shard, *arguments), shards)

    def _in_some(
        self,
        parts: Iterable[Part],
        shard: Callable[[Part, int], int],
        change: Callable[[LanceStore, list[Part]], Result],
    ) -> list[Result]:
        """Make a change in the shards that have parts of it. `shard(part, shards)` returns the number of a part's shard."""
        with self._change() as shards:
            # grouped here, because another process may have changed the number of shards
            by_shard = group_by(parts, lambda part: shard(part, len(shards)))
            return in_threads(lambda at: change(shards[at], by_shard[at]), [at for at in by_shard if at < len(shards)])

    def write(
        self, rows: Sequence[DocumentRows], *, force: bool = False, remove: Sequence[str] = (), optimize: bool = False
    ) -> AddReport:
        with self._change(cleans=optimize) as shards:
            added = group_by(rows, lambda row: shard_of(row.document.id, len(shards)))
            removed = group_by(remove, lambda doc_id: shard_of(doc_id, len(shards)))
            _declare_metadata(shards, [row.document.metadata for row in rows])

            def write(at: int) -> AddReport:
                done = shards[at].write(added.get(at, ()), force=force, remove=removed.get(at, ()), optimize=optimize)
                # earlier changes may have left a shard behind
                if optimize:
                    shards[at].optimize()
                return done

            return sum(in_threads(write, range(len(shards)) if optimize else sorted({*added, *removed})), AddReport())

    def rewrite(self, rows: Sequence[DocumentRows]) -> None:
        self._in_some(rows, lambda row, n: shard_of(row.document.id, n), LanceStore.rewrite)

    def remove(self, doc_ids: Sequence[str]) -> int:
        return sum(self._in_some(doc_ids, shard_of, LanceStore.remove))

    def describe(self, metadata: Mapping[str, Metadata]) -> None:
        with self._change() as shards:
            by_shard = group_by(metadata, lambda doc_id: shard_of(doc_id, len(shards)))
            _declare_metadata(shards, metadata.values())
            in_threads(lambda at: shards[at].describe({name: metadata[name] for name in by_shard[at]}), by_shard)

    def declare_metadata(self, kinds: Mapping[str, type]) -> None:
        self._in_all(LanceStore.declare_metadata, kinds)

    def optimize(self) -> None:
        with self._change(cleans=True) as shards:
            in_threads(LanceStore.optimize, shards)

    # -- views and vectors that come later

    def begin_view(self, view: str, settings: Json) -> None:
        self._in_all(LanceStore.begin_view, view, settings)

    def remove_view(self, view: str) -> None:
        self._in_all(LanceStore.remove_view, view)

    def missing(self, view: str) -> list[str]:
        return self.reader().missing(view)

    def write_view(self, view: str, rows: Sequence[DocumentRows]) -> None:
        self._in_some(rows, lambda row, n: shard_of(row.document.id, n), lambda shard, own: shard.write_view(view, own))

    def finish_view(self, view: str) -> bool:
        return all(self._in_all(LanceStore.finish_view, view))

    def write_vectors(self, table: str, ids: Sequence[int], columns: Mapping[str, Any]) -> int:
        def write(shard: LanceStore, places: Sequence[int]) -> int:
            own = {name: [values[place] for place in places] for name, values in columns.items()}
            return shard.write_vectors(table, [ids[place] & LOW for place in places], own)

        return sum(self._in_some(range(len(ids)), lambda place, n: ids[place] >> BITS, write))

    def finish_vectors(self) -> bool:
        return all(self._in_all(LanceStore.finish_vectors))

    def replace_vectors(self, embedder: str, dimension: int, vectors: Mapping[str, pa.Table]) -> None:
        def replace(at: int) -> None:
            ids = {name: pc.subtract(rows["id"], at << BITS) for name, rows in vectors.items()}
            shards[at].replace_vectors(
                embedder, dimension, {name: rows.set_column(0, "id", ids[name]) for name, rows in vectors.items()}
            )

        with self._change(cleans=True) as shards:
            in_threads(replace, range(len(shards)))

    # -- check and repair

    def check(self) -> list[Problem]:
        """Return the broken invariants of each shard, and the documents in the wrong shard."""
        return check_one_state(self, lambda: self._problems(self.manifest))

    def _problems(self, manifest: ShardedManifest) -> list[Problem]:
        """List the broken invariants of one state."""
        count, problems = len(manifest.shards), []
        if isinstance(self.place, Folder) and manifest.id is None:
            problems.append(Problem("no ids in the shards: swapped ones are not recognised"))
        try:
            with self._opening:
                if self._shards is not None:
                    self._shards = LocalShards(())
                    self._shards, self._reader = self._open_all(manifest)
            for at, (name, own) in enumerate(manifest.parts.items()):
                place = self.place.shard(name)
                place.check_same()
                for problem in LanceStore(place, self.registry).problems(own):
                    problems.append(problem if problem.doc_id else replace(problem, what=f"shard {at}: {problem.what}"))
                for doc_id in LanceReader(place, own, self.registry).ids():
                    if (right := shard_of(doc_id, count)) != at:
                        problems.append(Problem(f"in shard {at} (expected in shard {right})", doc_id))
        except CorruptIndex as error:
            problems.append(Problem(error.message))
        return problems

    def repair(self) -> list[str]:
        if isinstance(self.place, Folder):
            # a damaged old version would stop every later change
            with self.place.writer(self.lock_wait):
                self.place.clean(self.manifest, all_of_it=True)
        rebuilt = list(chain.from_iterable(self._in_all(LanceStore.repair)))
        if isinstance(self.place, Folder) and self.manifest.id is None:
            with self.place.writer(self.lock_wait):
                self.place.write_first(self.manifest)
        return rebuilt


def in_threads(work: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
    """Do the work for all parts in threads. Return the results in order, or raise the first error when all threads have ended."""
    with ThreadPoolExecutor(_STREAMS) as pool:
        # each thread has the caller's deadline
        started = [pool.submit(copy_context().run, work, part) for part in parts]
        return [future.result() for future in started]


def _declare_metadata(shards: Sequence[LanceStore], given: Iterable[Metadata]) -> None:
    """Add the keys of metadata to all shards first, because a condition goes to all, and a key has one type in all."""
    given = [metadata for metadata in given if metadata]
    if not given:
        return
    known = [shard.reader().metadata_kinds() for shard in shards]
    kinds = {name: kind for own in known for name, kind in own.items()}
    for metadata in given:
        # the change itself refuses invalid metadata
        with suppress(ValueError):
            kinds |= {name: type(value) for name, value in storable_metadata(metadata, kinds).items()}
    behind = [shard for shard, own in zip(shards, known, strict=True) if kinds.keys() - own.keys()]
    in_threads(lambda shard: shard.declare_metadata(kinds), behind)
