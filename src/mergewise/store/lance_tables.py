"""The tables of an index during one change, with detection of a second writer.

LanceDB applies concurrent changes of a table one after the other, whoever made them. The later change then builds on rows that
no manifest names. So each step checks its effect: a step of our own raises the version by one, and a rearrangement of rows keeps
their number. Any other effect comes from another writer, and the change is abandoned. Nothing of the change is visible then,
and the next change goes back to the state before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mergewise.errors import IndexBusy
from mergewise.log import log
from mergewise.store.digests import digests_of
from mergewise.store.lance_reader import LanceReader
from mergewise.store.manifest import Manifest, Run, ViewState
from mergewise.store.mapped import FOLDER, files_of
from mergewise.store.places.place import ManifestState, Place, Stamp, WritingRight
from mergewise.store.snapshot import new_schema, specs_of
from mergewise.store.tables import Table, with_record
from mergewise.store.views import Registry
from mergewise.types import Json, JsonDict, frozen

if TYPE_CHECKING:
    from lancedb.table import Table as LanceTable

# number of changes after which tables are opened again for writing
CHANGES = 50
# methods that raise the version by one
_STEPS = frozenset({"add", "delete", "add_columns", "alter_columns"})
# methods that only rearrange rows
_REARRANGEMENTS = frozenset({"optimize", "create_index", "drop_index"})
# parts of Lance's messages about two conflicting changes
_CONFLICTS = ("concurrent transaction", "commit conflict")


class SteppedTable:
    """A proxy of a LanceDB table. Methods raise IndexBusy if another writer changes the table at the same time."""

    def __init__(self, table: Any, place: object) -> None:
        self._table = table
        self._place = place

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._table, name)
        if name in _STEPS:
            return self._measured(attribute, lambda: self._table.version, 1)
        if name in _REARRANGEMENTS:
            return self._measured(attribute, self._table.count_rows, 0)
        return attribute

    def updating(self, column: str, rows: Any) -> int:
        """Update the rows with equal values in `column` from `rows`. Return their number."""
        update = self._table.merge_insert(column).when_matched_update_all().execute
        return int(self._measured(update, lambda: self._table.version, 1)(rows).num_updated_rows)

    def _measured(self, method: Callable[..., Any], measure: Callable[[], int], most: int) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            busy = IndexBusy(f"another writer has changed {self._place}", "try again")
            before = measure()
            try:
                done = method(*args, **kwargs)
            except RuntimeError as error:
                # the other writer has restored a version, which fences off open tables
                if any(sign in str(error).lower() for sign in _CONFLICTS):
                    raise busy from error
                raise
            if not 0 <= measure() - before <= most:
                raise busy
            return done

        return call


@frozen
class OpenTables:
    """Tables that a change leaves open for the next one, at the committed versions and with their stamps.

    LanceDB's caches of older versions grow with them, so they are opened again after `CHANGES` changes.
    """

    manifest: Manifest | None = None
    tables: Mapping[str, tuple[LanceTable, Stamp]] = field(default_factory=dict)
    changes: int = 0


class WritableTables:
    """The tables of an index during one change, and its manifest. Both are invisible to others before `commit`."""

    def __init__(
        self,
        place: Place,
        state: ManifestState,
        registry: Registry,
        writer: WritingRight,
        before: LanceReader | None,
        left: OpenTables,
    ) -> None:
        self.place, self.registry = place, registry
        self.manifest = self.committed = state.manifest
        # the state before the change
        is_same = before is not None and before.manifest == state.manifest
        self.reader = before if before and is_same else LanceReader(place, state.manifest, registry, before)
        self._tag, self._writer = state.tag, writer
        self.specs = specs_of(self.manifest, registry)
        # the tables that nobody else has written to since
        self._opened: dict[str, LanceTable] = {}
        if left.manifest == state.manifest and left.changes < CHANGES:
            for name, (table, stamp) in left.tables.items():
                if place.is_untouched(name, state.manifest.tables[name], stamp, writer):
                    self._opened[name] = table
        # set by `commit` for the next change
        self.left_open = OpenTables()
        self._changes = left.changes + 1 if self._opened else 0
        for name in self.manifest.tables if writer.took_over else ():
            self.open(name)

    def open(self, name: str) -> LanceTable:
        """Open or create a table for changes. Remains of an interrupted change are undone."""
        # the caller may change the table
        self.left_open = OpenTables()
        if name in self._opened:
            return self._opened[name]
        version, manifest = self.manifest.tables.get(name), self.manifest
        if version is None:
            record: JsonDict = {"embedder": manifest.embedder}
            if name in self.specs:
                view = self.specs[name].view
                record |= {"view": view, "settings": manifest.views[view].settings}
            schema = new_schema(name, self.specs, manifest.dimension)
            table = self.place.create_table(name, with_record(schema, record))
        else:
            self.place.check_own_files(name, version)
            table = self.place.database().open_table(name)
            # restoring a version also fences off a writer that lost its lease: it can no longer change the table
            if table.version != version or self._writer.took_over:
                log.info("restoring version %d of %s: a writer was interrupted", version, name)
                table.checkout(version)
                table.restore()
        stepped: Any = SteppedTable(table, self.place)
        self._opened[name] = stepped
        return self._opened[name]

    def update(self, **fields: Any) -> None:
        """Replace fields of the manifest."""
        self.manifest = replace(self.manifest, **fields)
        if "views" in fields:
            self.specs = specs_of(self.manifest, self.registry)

    def set_view(self, view: str, settings: Json, missing: Sequence[Run], *, offered: bool = False) -> None:
        missing = tuple((first, end) for first, end in missing if first < end)
        state = ViewState(settings, missing, offered or not missing)
        self.update(views={**self.manifest.views, view: state})

    def forget(self, names: Collection[str]) -> None:
        of_tables = ("tables", "mapped", "trained", "unembedded")
        self.update(**{name: without_names(getattr(self.manifest, name), names) for name in of_tables})
        self._opened = without_names(self._opened, names)

    def drop(self, names: Collection[str]) -> None:
        """Delete tables, even if their files are damaged."""
        self.forget(names)
        for name in names:
            self._writer.check()
            self.place.drop_table(name)

    def of_view(self, view: str) -> list[Table]:
        return [spec.table for spec in self.specs.values() if spec.view == view]

    def exists(self, name: str) -> bool:
        """Return whether a table exists. Tables that this change has created are not in the manifest yet."""
        return name in self.manifest.tables or name in self._opened

    def commit(self) -> None:
        """Replace the manifest, unless nothing has changed."""
        versions = {name: table.version for name, table in self._opened.items()}
        committed = replace(self.manifest, tables={**self.manifest.tables, **versions})
        if committed != self.committed:
            for file in files_of(committed.mapped) - files_of(self.committed.mapped):
                self.place.publish(file)
            mapped = {f"{FOLDER}/{file}" for file in files_of(committed.mapped)}
            digests = digests_of(self.place, committed, self.committed.tables, mapped)
            committed = replace(committed, digests=digests)
            self.place.compared |= digests.items() - self.committed.digests.items()
            self._tag = self.place.swap(committed, self._tag, self._writer)
        self.manifest = self.committed = committed
        stamped = ((name, table, self.place.stamp(name, versions[name])) for name, table in self._opened.items())
        tables = {name: (table, stamp) for name, table, stamp in stamped if stamp is not None}
        self.left_open = OpenTables(committed, tables, self._changes)


def without_names(entries: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Drop the entries of tables or views. Keys are names or TABLE.COLUMN."""
    return {key: value for key, value in entries.items() if key.partition(".")[0] not in names}


def scan_rows(
    table: LanceTable, columns: Sequence[str] | None, condition: str | None, *, with_row_id: bool = False
) -> pa.Table:
    search = table.search().with_row_id(with_row_id)
    if columns is not None:
        search = search.select(list(columns))
    if condition is not None:
        search = search.where(condition)
    return search.to_arrow()
