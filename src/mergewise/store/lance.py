"""An index in a directory, on LanceDB.

LanceDB commits one table at a time, so the state of an index is its manifest. The manifest names a version of each table and is
replaced last. A change works on the newest versions. If a writer was killed during a change, the next one first goes back to
the versions in the manifest. One process writes at a time, under a file lock that ends with the process.

The registry of views defines the tables. This module names no view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from threading import Lock, Thread
from time import sleep
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from weakref import ref

from mergewise.errors import CorruptIndex, StoreError, UsageError
from mergewise.log import log
from mergewise.store.audit import audit
from mergewise.store.damage import REINDEX_HINT, after_change, raising_store_errors, tells_full_disk
from mergewise.store.documents import DOCUMENTS
from mergewise.store.lance_import import IN_USE
from mergewise.store.lance_indexes import LAST_ATTEMPT, Upkeep
from mergewise.store.lance_inspection import Inspection
from mergewise.store.lance_reader import LanceReader
from mergewise.store.lance_tables import OpenTables, WritableTables, without_names
from mergewise.store.manifest import Manifest, ViewState, holds, without
from mergewise.store.mapped import FOLDER
from mergewise.store.places import place_of
from mergewise.store.places.cache import TOUCHED
from mergewise.store.places.place import ManifestState, Place, WritingRight
from mergewise.store.views import Registry
from mergewise.types import AddReport, DocumentRows, Json, Metadata, Problem

if TYPE_CHECKING:
    import pyarrow as pa

    from mergewise.store.lance_change import Change
    from mergewise.store.shards.store import ShardedStore

# time for which a change waits for another writing process
LOCK_SECONDS = 3600.0
Method = TypeVar("Method", bound=Callable[..., Any])
State = TypeVar("State", Manifest, ManifestState)


def _making_room(method: Method) -> Method:
    """Retry a change if the disk is full: first without old versions, then also without mapped files."""

    @wraps(method)
    def call(self: LanceStore, *args: Any, **kwargs: Any) -> Any:
        try:
            for attempt, make_room in enumerate((self._drop_leftovers, self._drop_mapped_files), 1):
                self._attempt = attempt
                try:
                    return method(self, *args, **kwargs)
                # a Rust panic is not an Exception
                except BaseException as error:
                    if not tells_full_disk(error):
                        raise
                make_room()
            self._attempt = LAST_ATTEMPT
            return method(self, *args, **kwargs)
        finally:
            self._attempt = 1

    return call  # type: ignore[return-value]


@raising_store_errors
class LanceStore:
    """The `Store` protocol over a place. Tables are opened on first use."""

    def __init__(
        self,
        place: Path | Place,
        registry: Registry,
        lock_wait: float = LOCK_SECONDS,
        reader: LanceReader | None = None,
    ) -> None:
        self.place = place_of(place) if isinstance(place, Path) else place
        # the local folder: the index itself, or the cache of a bucket
        self.directory = self.place.directory
        self.registry = registry
        self.lock_wait = lock_wait
        self._opening = Lock()
        self._reader = reader
        self.upkeep = Upkeep()
        self._attempt = 1
        # the last state for which this object updated search indexes and mapped files
        self._up_to_date: Manifest | None = None
        self._left_open = OpenTables()

    @property
    def manifest(self) -> Manifest:
        """The manifest that queries use: in a folder the one on disk, in a bucket the one last read."""
        self.place.check_same()
        return self._present(self.place.known())

    def _present(self, state: State | None) -> State:
        if state is None:
            raise CorruptIndex(f"missing manifest in {self.place}", "index the documents again")
        return state

    @property
    def settings(self) -> Mapping[str, Json]:
        return self.manifest.settings

    def reader(self) -> LanceReader:
        IN_USE.check_own_process(self.place)
        manifest = self.manifest
        with self._opening:
            # all threads share one reader, so that nothing is computed twice
            first, reader = self._reader is None, self._reader
            while reader is None or reader.manifest != manifest:
                self._reader = reader = LanceReader(self.place, manifest, self.registry, reader)
                reader.hold = self.place.hold(manifest)
                # files of a state that was replaced before the reader held them may be gone
                manifest = self.manifest
            if self.place.refresh is not None and first:
                reader.prewarm()
                look_for_changes(self, self.place.refresh)
            return reader

    def shard_readers(self) -> Sequence[LanceReader]:
        """Return the one reader, as an index in shards returns those of all shards."""
        return [self.reader()]

    def refresh(self) -> None:
        """Look for a newer state of the place and open it. Queries use the old state until the new one is ready."""
        state = self.place.newer()
        if state is not None:
            reader = LanceReader(self.place, state.manifest, self.registry, self._reader)
            reader.prewarm()
            with self._opening:
                self.place.know(state)
                self._reader = reader

    # -- changes

    @_making_room
    def write(
        self, rows: Sequence[DocumentRows], *, force: bool = False, remove: Sequence[str] = (), optimize: bool = False
    ) -> AddReport:
        with self._writing(cleans=optimize) as change:
            records = change.tables.reader.stored_records([*remove, *(r.document.id for r in rows)])
            digests = {doc_id: record["_digest"] for doc_id, record in records.items()}
            removed = [doc_id for doc_id in dict.fromkeys(remove) if doc_id in digests]
            fresh = [r for r in rows if force or digests.get(r.document.id) != r.digest]
            good, failed = change.rows.storable(fresh)
            replaced = [r.document.id for r in good if r.document.id in digests]
            change.rows.remove([*replaced, *removed])
            change.rows.append(good)
            # an update needs disk space, and rows are found without it
            optimized = optimize and self._attempt < LAST_ATTEMPT and bool(good or removed)
            if optimized:
                change.bring_up_to_date()
        if optimized:
            self._up_to_date = change.tables.manifest
        counts = len(good) - len(replaced), len(replaced), len(rows) - len(fresh)
        return AddReport(*counts, tuple(failed), removed=len(removed))

    @_making_room
    def rewrite(self, rows: Sequence[DocumentRows]) -> None:
        with self._writing() as change:
            same = change.tables.reader.unchanged_rows(rows)
            change.rows.remove([row.document.id for row in same])
            change.rows.append(same)

    @_making_room
    def remove(self, doc_ids: Sequence[str]) -> int:
        with self._writing() as change:
            stored = list(change.tables.reader.stored_records(doc_ids))
            change.rows.remove(stored)
        log.info("removed %d documents from %s", len(stored), self.place)
        return len(stored)

    @_making_room
    def describe(self, metadata: Mapping[str, Metadata]) -> None:
        with self._writing() as change:
            change.rows.describe(metadata)

    @_making_room
    def declare_metadata(self, kinds: Mapping[str, type]) -> None:
        """Add metadata keys of these types."""
        with self._writing() as change:
            change.rows.declare_metadata(kinds)

    @_making_room
    def optimize(self) -> None:
        if self._up_to_date is not None and self._up_to_date == self.manifest:
            return
        with self._writing(cleans=True) as change:
            change.bring_up_to_date()
        self._up_to_date = change.tables.manifest

    def check(self) -> list[Problem]:
        return check_one_state(self, lambda: self.problems(self.manifest))

    def problems(self, manifest: Manifest) -> list[Problem]:
        """List the broken invariants of one state."""
        self._forget()
        try:
            reader = LanceReader(self.place, manifest, self.registry, compares=False)
            note = "no digests yet: the next change, or `mergewise check --repair`, writes them"
            lacking = [Problem(note, kind="note")] if not manifest.digests else []
            inspection = Inspection(reader.state)
            if damaged := inspection.problems():
                return damaged
            try:
                wrong = [name for name in manifest.mapped if not inspection.addresses_match(name)]
                problems = audit(reader, self.registry, manifest.dimension)
                next_id, next_number = inspection.first_free()
            except (CorruptIndex, UsageError) as error:
                return [Problem(error.message)]
            if manifest.next_id < next_id or manifest.next_number < next_number:
                problems.append(Problem("the manifest's next id or document number is already in use"))
            problems += [Problem(f"wrong row addresses in mapped files of table {name!r}") for name in wrong]
            return problems + (lacking if manifest.tables else [])
        finally:
            self._forget(bypass=False)

    def _forget(self, bypass: bool = True) -> None:
        """Drop all open tables and caches, because files may have been damaged since. With `bypass`, also read no copies."""
        self.place.bypass_caches(bypass)
        self._left_open, self._up_to_date = OpenTables(), None
        with self._opening:
            if self._reader is not None:
                self._reader = LanceReader(self.place, self._reader.manifest, self.registry)

    @_making_room
    def repair(self) -> list[str]:
        """Repair the index. Unreadable tables are dropped, to be rebuilt from the documents.

        Returns:
            The ids of the documents whose rows must be rebuilt.

        Raises:
            CorruptIndex: if the documents themselves are unreadable.
        """
        self._forget()
        with self._writing() as change:
            change.read_anew()
            inspection = Inspection(change.tables.reader.state)
            damaged, files = inspection.damage(), inspection.damaged_files()
            if DOCUMENTS in damaged:
                raise CorruptIndex(damaged[DOCUMENTS], REINDEX_HINT)
            views = list(dict.fromkeys(change.tables.specs[name].view for name in damaged))
            rebuilt = change.reset(views) if views else []
            # a damaged old version would stop every later change
            self.place.clean(change.tables.manifest, all_of_it=True)
            # of a new state after a reset
            inspection = Inspection(change.tables.reader.state)
            unsearchable = list(inspection.damaged_search())
            change.indexes.drop(unsearchable)
            change.rows.drop_orphans()
            # the next id and document number are above all that are in use
            next_id, next_number = inspection.first_free()
            now = change.tables.manifest
            change.tables.update(next_id=max(now.next_id, next_id), next_number=max(now.next_number, next_number))
            # indexes need much disk space, and rows are found without them
            if unsearchable or self._attempt < LAST_ATTEMPT:
                change.indexes.build()
            # mapped files can always be written again
            altered = inspection.altered_documents()
            # with another digest, a source counts as changed
            change.rows.set_columns({doc_id: {"_digest": ""} for doc_id in altered})
            change.tables.update(mapped={}, digests={}, altered=tuple(altered))
            change.mapped.write()
        for file in files:
            taken = "titles or metadata may be wrong" if file.startswith(f"{DOCUMENTS}.lance/data/") else "made anew"
            log.warning("repaired the damaged file %s of %s: %s", file, self.place, taken)
        return rebuilt

    # -- views that are added to existing documents

    @_making_room
    def begin_view(self, view: str, settings: Json) -> None:
        with self._writing() as change:
            if view not in change.tables.manifest.views:
                change.tables.set_view(view, settings, ((0, change.tables.manifest.next_number),))

    @_making_room
    def remove_view(self, view: str) -> None:
        with self._writing() as change:
            tables = change.tables
            tables.forget({table.name for table in tables.of_view(view)})
            tables.update(views=without_names(tables.manifest.views, {view}))

    def missing(self, view: str) -> list[str]:
        return self.reader().numbered_in(self.manifest.views.get(view, ViewState({})).missing)

    @_making_room
    def write_view(self, view: str, rows: Sequence[DocumentRows]) -> None:
        with self._writing() as change:
            state = change.tables.manifest.views.get(view, ViewState({}))
            records = change.tables.reader.stored_records([row.document.id for row in rows])
            missing = []
            for row in rows:
                record = records.get(row.document.id)
                if record is not None and record["_digest"] == row.digest and holds(state.missing, record["_number"]):
                    missing.append((record["_number"], record["_first_id"], row))
            if missing:
                numbers = [number for number, _, _ in missing]
                change.rows.append_view(view, missing)
                change.tables.set_view(view, state.settings, without(state.missing, numbers), offered=state.offered)

    @_making_room
    def finish_view(self, view: str) -> bool:
        with self._writing() as change:
            state = change.tables.manifest.views.get(view, ViewState({}))
            if change.tables.reader.numbered_in(state.missing):
                return False
            if view in change.tables.manifest.views:
                change.tables.set_view(view, state.settings, ())
            change.indexes.build()
            change.mapped.write()
        return True

    # -- vectors that come after the text

    @_making_room
    def write_vectors(self, table: str, ids: Sequence[int], columns: Mapping[str, Any]) -> int:
        with self._writing() as change:
            return change.rows.embed(table, ids, columns)

    @_making_room
    def finish_vectors(self) -> bool:
        if not self.manifest.unembedded:
            return True
        with self._writing() as change:
            if any(len(change.tables.reader.unembedded(table)) for table in change.tables.manifest.unembedded):
                return False
            change.tables.update(unembedded={})
            change.indexes.build()
            change.mapped.write()
        return True

    @_making_room
    def replace_vectors(self, embedder: str, dimension: int, vectors: Mapping[str, pa.Table]) -> None:
        with self._writing(cleans=True) as change:
            change.rows.replace_vectors(embedder, dimension, vectors)
            change.indexes.build()
            change.mapped.write()

    # -- disk space

    def _drop_leftovers(self) -> None:
        """Delete all unneeded files, even if a reader may be reading them, because no change is possible on a full disk."""
        log.warning("disk of %s is full: dropping old versions", self.place)
        with self._held_state() as (_, state):
            self.place.clean(state.manifest, all_of_it=True)

    def _drop_mapped_files(self) -> None:
        """Drop mapped files. Rows come from the tables until a change has room to write the files again."""
        log.warning("disk of %s is full: dropping mapped files, queries are slower", self.place)
        with self._held_state() as (writer, state):
            left = {file: digest for file, digest in state.manifest.digests.items() if not file.startswith(FOLDER)}
            unmapped = replace(state.manifest, mapped={}, digests=left)
            self.place.clean(unmapped, all_of_it=True)
            self.place.swap(unmapped, state.tag, writer)

    # -- the lock

    @contextmanager
    def _writing(self, *, cleans: bool = False) -> Iterator[Change]:
        """Begin a change and commit it at the end. `cleans` deletes old versions also if they are few."""
        # its modules are imported by writers alone
        from mergewise.store.lance_change import Change

        IN_USE.check_own_process(self.place)
        with self._held_state() as (writer, state):
            # On a bucket, reuse the open tables. In a folder, opening them again costs nothing and shows damage.
            before = None if self.place.refresh is None else self._reader
            left, self._left_open = self._left_open, OpenTables()
            tables = WritableTables(self.place, state, self.registry, writer, before, left)
            change = Change(tables, self.upkeep, self._attempt)
            yield change
            change.tables.commit()
            self._left_open = change.tables.left_open
            cleans = cleans and self.place.refresh is None
            # its reader of the state before needs no files any more
            if cleans and self._reader is not None:
                self.reader()
            after_change(lambda: self.place.clean(change.tables.manifest, sure=cleans), f"cannot clean {self.place}")

    @contextmanager
    def _held_state(self) -> Iterator[tuple[WritingRight, ManifestState]]:
        """Hold the right to write. Yield it with the current state."""
        # check before locking, because the lock file would create a missing folder
        self.place.check_same()
        with self.place.writer(self.lock_wait) as writer:
            yield writer, self._present(self.place.manifest())


def check_one_state(store: LanceStore | ShardedStore, problems: Callable[[], list[Problem]]) -> list[Problem]:
    """Return the problems of one state. If the index changes meanwhile, check the newer state instead of reporting problems.

    A change may drop files of the state before. The third state is checked under the writer's lock, so that it stays.
    """
    for _ in range(2):
        # reads the newest state, also of a bucket
        before = store.place.manifest()
        try:
            found = problems()
            if not found or store.place.manifest() == before:
                return found
        except StoreError:
            if store.place.manifest() == before:
                raise
    with store.place.writer(store.lock_wait):
        store.place.manifest()
        return problems()


def look_for_changes(store: LanceStore | ShardedStore, seconds: float) -> None:
    """Refresh the store from time to time in a thread, which ends when the store is no longer referenced."""
    store_ref = ref(store)

    def look() -> None:
        while True:
            # at least every `TOUCHED` seconds, because a refresh also touches the files in use
            sleep(min(seconds, TOUCHED))
            current = store_ref()
            if current is None:
                return
            try:
                current.refresh()
            # queries continue with the open state after any error
            except Exception as error:
                log.info("cannot open a newer state of %s: %s", current.place, error)
            del current

    Thread(target=look, daemon=True).start()


class ClosedStore:
    """The store of a closed index. Everything but the directory raises UsageError."""

    def __init__(self, place: Place) -> None:
        self.place, self.directory = place, place.directory

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UsageError(f"the index {self.place} is closed", "open it again: mergewise.open")
