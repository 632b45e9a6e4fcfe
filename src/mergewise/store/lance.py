"""An index in a directory, on LanceDB.

LanceDB commits one table at a time, so the state of an index is its manifest, which names a version of each table and
is replaced last. A change works on the newest versions; if a writer was killed half way, the next one first goes back
to the versions that the manifest names. One process writes at a time, held by a file lock that dies with the process.

What tables there are, the registry of views says: nothing here names a view.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from threading import Lock, Thread
from time import sleep
from typing import Any, NoReturn, TypeVar
from weakref import ref

from mergewise.errors import CorruptIndex, UsageError
from mergewise.store.audit import audit
from mergewise.store.damage import ANEW, raising_store_errors, tells_full_disk
from mergewise.store.documents import DOCUMENTS
from mergewise.store.lance_change import LAST_ATTEMPT, Change, OpenTables
from mergewise.store.lance_import import IN_USE
from mergewise.store.lance_reader import LanceReader
from mergewise.store.manifest import Manifest, holds, without
from mergewise.store.places import place_of
from mergewise.store.places.cache import TOUCHED
from mergewise.store.places.place import ManifestState, Place, WritingRight
from mergewise.store.views import Registry
from mergewise.types import AddReport, DocumentRows, Metadata, Origin, Problem

log = logging.getLogger("mergewise")

# for which a change waits for another process that writes
LOCK_SECONDS = 3600.0
Method = TypeVar("Method", bound=Callable[..., Any])


def _making_room(method: Method) -> Method:
    """A change that is tried again where the disk is full: without old versions, then without files that only save time."""

    @wraps(method)
    def call(self: LanceStore, *args: Any, **kwargs: Any) -> Any:
        try:
            for attempt, make_room in enumerate((self._drop_leftovers, self._drop_mapped_files), 1):
                self._attempt = attempt
                try:
                    return method(self, *args, **kwargs)
                # a panic of Rust is no Exception
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
    """The `Store` protocol over a directory. Cheap to open: tables are opened when they are needed."""

    def __init__(self, place: Path | Place, registry: Registry, lock_wait: float = LOCK_SECONDS) -> None:
        self.place = place_of(place) if isinstance(place, Path) else place
        self.registry = registry
        self.lock_wait = lock_wait
        self._opening = Lock()
        self._reader: LanceReader | None = None
        self._attempt = 1
        # the state whose search indexes and mapped files were brought up to date here
        self._up_to_date: Manifest | None = None
        self._left_open = OpenTables()

    @classmethod
    def create(
        cls, place: Path | Place, manifest: Manifest, registry: Registry, lock_wait: float = LOCK_SECONDS
    ) -> LanceStore:
        """Make the place an index, unless another process just did."""
        store = cls(place, registry, lock_wait)
        store.place.create(manifest, lock_wait)
        return store

    @property
    def directory(self) -> Path:
        """Of this machine: the index itself, or what is kept here of one on a bucket."""
        return self.place.directory

    @property
    def manifest(self) -> Manifest:
        """As questions see it: in a folder as it stands on the disk, on a bucket as it stood when it was last looked at."""
        self.place.check_same()
        manifest = self.place.known()
        if manifest is None:
            raise self._lost()
        return manifest

    def _lost(self) -> CorruptIndex:
        return CorruptIndex(f"{self.place} has lost its manifest", "index the documents again")

    @property
    def settings(self) -> Mapping[str, Mapping[str, Any]]:
        return {name: view.settings for name, view in self.manifest.views.items()}

    def reader(self) -> LanceReader:
        IN_USE.check_own_process(self.place)
        manifest = self.manifest
        with self._opening:
            # one for all threads, so that nothing is worked out twice
            first, before = self._reader is None, self._open_reader
            if before is None or before.manifest != manifest:
                self._reader = LanceReader(self.place, manifest, self.registry, before)
                if self.place.refresh is not None and first:
                    self._reader.prewarm()
                    Thread(target=_look_for_changes, args=(ref(self), self.place.refresh), daemon=True).start()
            assert self._reader is not None
            return self._reader

    @property
    def _open_reader(self) -> LanceReader | None:
        return None if self._reader is None or self._reader.is_spoiled else self._reader

    def refresh(self) -> None:
        """Look for a newer state of the place, and open it beside the one that questions are answered from until then."""
        state = self.place.newer()
        if state is not None:
            reader = LanceReader(self.place, state.manifest, self.registry, self._open_reader)
            reader.prewarm()
            with self._opening:
                self.place.know(state)
                self._reader = reader

    # -- changes

    @_making_room
    def write(
        self,
        rows: Sequence[DocumentRows],
        *,
        force: bool = False,
        remove: Sequence[str] = (),
        origins: Mapping[str, Origin] | None = None,
        optimize: bool = False,
    ) -> AddReport:
        with self._writing() as change:
            records = change.reader.standing([*remove, *(r.document.id for r in rows)])
            standing = {doc_id: record["_digest"] for doc_id, record in records.items()}
            removed = [doc_id for doc_id in dict.fromkeys(remove) if doc_id in standing]
            fresh = [r for r in rows if force or standing.get(r.document.id) != r.digest]
            good, failed = change.storable(fresh)
            replaced = [r.document.id for r in good if r.document.id in standing]
            change.remove([*replaced, *removed])
            change.set_origins(origins or {})
            change.append(good)
            # that takes room, and rows are found without it
            optimized = optimize and self._attempt < LAST_ATTEMPT and bool(good or removed or origins)
            if optimized:
                change.bring_up_to_date()
        if optimized:
            self._up_to_date = change.manifest
        counts = len(good) - len(replaced), len(replaced), len(rows) - len(fresh)
        return AddReport(*counts, tuple(failed), removed=len(removed))

    @_making_room
    def remove(self, doc_ids: Sequence[str]) -> int:
        with self._writing() as change:
            standing = list(change.reader.standing(doc_ids))
            change.remove(standing)
        log.info("removed %d documents from %s", len(standing), self.place)
        return len(standing)

    @_making_room
    def describe(self, metadata: Mapping[str, Metadata]) -> None:
        with self._writing() as change:
            change.describe(metadata)

    @_making_room
    def declare_metadata(self, kinds: Mapping[str, type]) -> None:
        """Let documents have metadata under these keys, of these types."""
        with self._writing() as change:
            change.declare_metadata(kinds)

    @_making_room
    def optimize(self) -> None:
        if self._up_to_date is not None and self._up_to_date == self.manifest:
            return
        with self._writing() as change:
            change.bring_up_to_date()
        self._up_to_date = change.manifest

    def check(self) -> list[Problem]:
        self._forget()
        reader = self.reader()
        if damaged := self._damage(reader):
            return damaged
        try:
            return self._audit(reader)
        except (CorruptIndex, UsageError) as error:
            return [Problem(error.message)]

    def _forget(self) -> None:
        """Files may have been damaged since they were read."""
        self.place.read_anew()
        self._left_open, self._up_to_date = OpenTables(), None
        with self._opening:
            if self._reader is not None:
                self._reader = LanceReader(self.place, self._reader.manifest, self.registry)

    def _damage(self, reader: LanceReader) -> list[Problem]:
        """What of the files cannot be read, or is not what was written, with the documents concerned."""
        tables = reader.damage()
        problems = []
        for name, said in tables.items():
            problems.append(Problem(f"{said}; {ANEW}" if name == DOCUMENTS else said))
            if DOCUMENTS not in tables:
                problems += [
                    Problem(f"rows of the table {name!r} cannot be read", doc) for doc in reader.unreadable(name)
                ]
        if DOCUMENTS not in tables:
            what = "its text is not the one that was written: index it again"
            problems += [Problem(what, doc, "altered") for doc in reader.altered_documents()]
        return problems or [Problem(said) for said in reader.damaged_search().values()]

    def _audit(self, reader: LanceReader) -> list[Problem]:
        misled = [name for name in reader.manifest.mapped if not reader.knows_addresses(name)]
        problems = audit(reader, self.registry, self.manifest.dimension)
        next_id, next_number = reader.first_free()
        if reader.manifest.next_id < next_id or reader.manifest.next_number < next_number:
            problems.append(Problem("the manifest gives away ids or document numbers that are taken"))
        return problems + [Problem(f"addresses of the table {name!r} lead to other rows") for name in misled]

    @_making_room
    def repair(self) -> list[str]:
        """Mend what can be: tables that cannot be read are dropped, to be made again from the documents.

        The documents whose rows are then to be made anew are returned. Raises CorruptIndex where the documents themselves
        cannot be read.
        """
        self._forget()
        with self._writing() as change:
            damaged = change.reader.damage()
            if DOCUMENTS in damaged:
                raise CorruptIndex(damaged[DOCUMENTS], ANEW)
            views = list(dict.fromkeys(change.specs[name].view for name in damaged))
            rebuilt = change.reset(views) if views else []
            # one of them that is damaged stops every later change
            self.place.clean(change.manifest, all_of_it=True)
            unsearchable = list(change.reader.damaged_search())
            change.drop_search_indexes(unsearchable)
            change.drop_orphans()
            change.skip_taken_numbers()
            # that takes much room, and rows are found without it
            if unsearchable or self._attempt < LAST_ATTEMPT:
                change.build_indexes()
            # whatever they hold, they can be written again
            change.manifest = replace(change.manifest, mapped={})
            change.map_rows()
        return rebuilt

    # -- views that are added to documents that stand

    @_making_room
    def begin_view(self, view: str, settings: Mapping[str, Any]) -> None:
        with self._writing() as change:
            if view not in change.manifest.views:
                change.set_view(view, settings, ((0, change.manifest.next_number),))

    def missing(self, view: str) -> list[str]:
        return self.reader().numbered_in(self.manifest.views[view].missing)

    @_making_room
    def write_view(self, view: str, rows: Sequence[DocumentRows]) -> None:
        with self._writing() as change:
            state = change.manifest.views[view]
            standing = change.reader.standing([row.document.id for row in rows])
            lacking = []
            for row in rows:
                now = standing.get(row.document.id)
                if now is not None and now["_digest"] == row.digest and holds(state.missing, now["_number"]):
                    lacking.append((now["_number"], now["_first_id"], row))
            if lacking:
                numbers = [number for number, _, _ in lacking]
                change.append_view(view, lacking)
                change.set_view(view, state.settings, without(state.missing, numbers), offered=state.offered)

    @_making_room
    def finish_view(self, view: str) -> bool:
        with self._writing() as change:
            state = change.manifest.views[view]
            if change.reader.numbered_in(state.missing):
                return False
            change.set_view(view, state.settings, ())
            change.build_indexes()
            change.map_rows()
        return True

    # -- vectors that come after the text

    @_making_room
    def write_vectors(self, table: str, ids: Sequence[int], columns: Mapping[str, Any]) -> int:
        with self._writing() as change:
            return change.embed(table, ids, columns)

    @_making_room
    def finish_vectors(self) -> bool:
        if not self.manifest.unembedded:
            return True
        with self._writing() as change:
            if any(len(change.reader.unembedded(table)) for table in change.manifest.unembedded):
                return False
            change.manifest = replace(change.manifest, unembedded={})
            change.build_indexes()
            change.map_rows()
        return True

    # -- room on the disk

    def _drop_leftovers(self) -> None:
        """All that no state needs, also what a reader may be reading: without room no change is possible."""
        log.warning("the disk of %s is full: old versions are dropped", self.place)
        with self._held_state() as (_, state):
            self.place.clean(state.manifest, all_of_it=True)

    def _drop_mapped_files(self) -> None:
        """Rows are then read from the tables, until a change finds room to write the files anew."""
        log.warning("the disk of %s is full: mapped files are dropped, which makes questions slower", self.place)
        with self._held_state() as (writer, state):
            unmapped = replace(state.manifest, mapped={})
            self.place.clean(unmapped, all_of_it=True)
            self.place.swap(unmapped, state.tag, writer)

    # -- the lock

    @contextmanager
    def _writing(self) -> Iterator[Change]:
        """A change, committed at the end."""
        IN_USE.check_own_process(self.place)
        with self._held_state() as (writer, state):
            # what is open already need not be asked for again; in a folder that costs nothing, and shows damage
            before = None if self.place.refresh is None else self._open_reader
            left, self._left_open = self._left_open, OpenTables()
            change = Change(self.place, state, self.registry, writer, before, self._attempt, left)
            yield change
            change.commit()
            self._left_open = change.left_open
            if (now := self.place.known()) is not None:
                self.place.clean(now, sure=False)

    @contextmanager
    def _held_state(self) -> Iterator[tuple[WritingRight, ManifestState]]:
        """The right to write, and the state that stands meanwhile."""
        # before the lock, which would make a folder where there is none
        self.place.check_same()
        with self.place.writer(self.lock_wait) as writer:
            state = self.place.manifest()
            if state is None:
                raise self._lost()
            yield writer, state


def _look_for_changes(store_ref: ref[LanceStore], seconds: float) -> None:
    """For a thread, which ends once nobody has the store any more."""
    while True:
        # meanwhile the files that are in use are touched
        sleep(min(seconds, TOUCHED))
        store = store_ref()
        if store is None:
            return
        try:
            store.refresh()
        # whatever it is, questions are answered from the state that is open
        except Exception as error:
            log.info("no newer state of %s can be opened: %s", store.place, error)
        del store


class ClosedStore:
    """What stands in the place of a store once its index is closed: all but the directory raises UsageError."""

    def __init__(self, place: Place) -> None:
        self.place = place

    @property
    def directory(self) -> Path:
        return self.place.directory

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UsageError(f"the index {self.place} is closed", "open it again: mergewise.open")
