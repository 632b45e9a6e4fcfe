"""What is open of one state of an index: versions of LanceDB tables, mapped files, and values that are kept.

Tables are asked through LanceDB's asynchronous interface: the synchronous one spends two milliseconds a call on its own
wrapping. Searches are awaited in the thread that asks, all else on an event loop of our own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from mergewise.concurrency import BackgroundLoop, check_time, together
from mergewise.errors import CorruptIndex, StoreError, UsageError
from mergewise.ranges import short_repr
from mergewise.store import documents as d
from mergewise.store.conditions import parse_condition, sql_of
from mergewise.store.damage import ANEW, MEND, raising_store_errors, reading
from mergewise.store.kept import Changes, SnapshotCache, SnapshotRange
from mergewise.store.lance_import import IN_USE
from mergewise.store.manifest import Manifest
from mergewise.store.mapped import IntArray, Mapped, MappedRows
from mergewise.store.numbers import DocumentNumbers, sorted_once
from mergewise.store.places.place import Place, Stamp
from mergewise.store.sorted_columns import SortedColumns, all_columns
from mergewise.store.tables import NUMBER, Table
from mergewise.store.views import Registry
from mergewise.types import Document

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

Kept = TypeVar("Kept")

# all documents are looked at for a condition: a million take a few of them
CONDITION_SECONDS = 60.0
LOOP = BackgroundLoop("mergewise-store")
run = LOOP.run
ID = "id"


@raising_store_errors
class LanceState:
    """From the state `before` of the same directory, where there is one, it takes what is the same in both and is open there
    already: tables of the same version, and mapped files.
    """

    def __init__(self, place: Place, manifest: Manifest, registry: Registry, before: LanceState | None = None) -> None:
        place.check_plain()
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
        self._kept = SnapshotCache()
        # the documents of a state before
        self._older: SnapshotRange | None = None
        # its tables were opened from copies that were damaged
        self.is_spoiled = False
        if before is not None:
            self._take_over(before)
        # a state never changes, and questions after one another are answered from the same documents
        self._documents: dict[str, Document] = {}

    def _take_over(self, before: LanceState) -> None:
        # copies: other threads still ask it
        for name, stamp in before._stamps.copy().items():
            if name in before._tables and self._is_same(name, before.manifest.tables[name], stamp):
                self._tables[name], self._stamps[name] = before._tables[name], stamp
        for name, rows in before._mapped.copy().items():
            self._mapped[name] = MappedRows(self.place, Mapped.of(self.manifest.mapped.get(name)), rows)
        documents = before._stamps.get(d.DOCUMENTS)
        # of the same table, in whatever version
        if documents is not None and self._stands(d.DOCUMENTS, before.manifest.tables[d.DOCUMENTS], documents):
            self._kept = SnapshotCache(before._kept)
            self._older = before._basis() if before._kept.has("numbers") else before._older

    def _is_same(self, name: str, version: int, stamp: Stamp) -> bool:
        return self.manifest.tables.get(name) == version and self._stands(name, version, stamp)

    def _stands(self, name: str, version: int, stamp: Stamp) -> bool:
        """A version has the file that it had: a table that was made anew counts from the beginning."""
        return self.place.stamp(name, version) == stamp

    def once(self, name: str, make: Callable[[], Kept], where: str | None = None) -> Kept:
        return self._kept.once(name, make, where)

    def _grown(self, name: str, make: Callable[[], Kept], extend: Callable[[Kept, Changes], Kept | None]) -> Kept:
        return self._kept.grown(name, self._basis, make, extend)

    def _basis(self) -> SnapshotRange:
        return SnapshotRange(self.numbers(), self.manifest.next_number, self.manifest.next_id)

    # -- documents

    def numbers(self, where: str | None = None) -> DocumentNumbers:
        """The numbers of the documents, or of those that meet a condition."""
        return self.once("numbers", lambda: self._read_numbers(where), where)

    def _read_numbers(self, where: str | None) -> DocumentNumbers:
        if where is None:
            return DocumentNumbers(self._all_numbers())
        table = self._table(d.DOCUMENTS)
        if table is None:
            return DocumentNumbers.of(())
        condition = sql_of(parse_condition(where, d.condition_columns(self._schema(d.DOCUMENTS))))
        try:
            asked = asyncio.wait_for(scan(table, ["_number"], condition), CONDITION_SECONDS)
            return DocumentNumbers(sorted_once(run(asked)["_number"].to_numpy()))
        except TimeoutError:
            raise UsageError(
                f"the condition {short_repr(where)} takes more than {CONDITION_SECONDS:.0f} seconds", "ask for less"
            ) from None

    def _all_numbers(self) -> IntArray:
        older = self._older
        if older is not None and older.next_number <= self.manifest.next_number:
            added = self._documents_from(older.next_number)["_number"].to_numpy()
            if len(older.numbers) + len(added) == self._row_count(d.DOCUMENTS):
                return np.concatenate([older.numbers.array, sorted_once(added)])
        return sorted_once(self.whole(d.DOCUMENTS, ["_number"])["_number"].to_numpy())

    def _documents_from(self, number: int) -> pa.Table:
        """Return number, digest of the text and language of the documents with this number and later ones."""
        condition = f"_number >= {number}"
        return self.once(f"documents from {number}", lambda: self.whole(d.DOCUMENTS, d.OF_TEXTS, condition))

    # -- tables

    def whole(self, table: str, columns: Sequence[str] | None, condition: str | None = None) -> pa.Table:
        """Return the rows that meet a condition, without `columns` with all of them."""
        opened = self._table(table)
        if opened is not None:
            return run(scan(opened, columns, condition))
        empty = self._schema(table).empty_table()
        return empty if columns is None else empty.select(list(columns))

    def sorted_columns(self, table: str, columns: Sequence[str]) -> Mapping[str, IntArray]:
        wanted = all_columns(columns)
        by_id = self._specs[table].table.has_ids

        def extend(older: SortedColumns, changes: Changes) -> SortedColumns | None:
            added = f"{ID} >= {changes.first_id}" if by_id else f"{NUMBER} >= {changes.first_number}"
            grown = older.with_changes(self.whole(table, wanted, added), changes.gone)
            # rows may have gone or come otherwise, by a repair
            return grown if len(grown) == self._row_count(table) else None

        return self._grown(
            f"sorted {table} {wanted}", lambda: SortedColumns.of(self.whole(table, wanted)), extend
        ).columns

    def _row_count(self, table: str) -> int:
        opened = self._table(table)
        return self.once(f"row count of {table}", lambda: 0 if opened is None else run(opened.count_rows()))

    def _schema(self, table: str) -> pa.Schema:
        """Return the columns of a table. One that no change has made yet has those that it is made with."""
        opened = self._table(table)
        return self.once(
            f"schema of {table}", lambda: new_schema(table, self._specs, 0) if opened is None else run(opened.schema())
        )

    def mapped_rows(self, table: str) -> MappedRows:
        if table not in self._mapped:
            self._mapped[table] = MappedRows(self.place, Mapped.of(self.manifest.mapped.get(table)))
        return self._mapped[table]

    def _is_mapped(self, table: str) -> bool:
        return bool(self.manifest.mapped.get(table))

    def _table(self, name: str) -> AsyncTable | None:
        check_time()
        IN_USE.check_own_process(self.place)
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
            self.place.check_own_files(name, version)
            table = run(self.place.open_table(name, version))
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
            if state is None or state.manifest != self.manifest:
                raise StoreError(f"{place} has changed since it was opened: {error.message}", "ask again") from error
            if not self.place.drop_copies():
                raise
            self.is_spoiled = True
            raise StoreError(
                f"the copy of {place} on this machine was damaged: {error.message}", "ask again"
            ) from error

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
                run(load_indexes(table))

    def _load_mapped_rows(self, name: str) -> None:
        rows = self.mapped_rows(name)
        _ = rows.addresses, rows._blocks


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


def new_schema(table: str, specs: Mapping[str, Spec], dimension: int) -> pa.Schema:
    """Return the columns that a table is made with."""
    return d.SCHEMA if table == d.DOCUMENTS else specs[table].table.schema(dimension)


def scan(table: AsyncTable, columns: Sequence[str] | None, condition: str | None = None) -> Coroutine[Any, Any, Any]:
    """All rows that meet the condition; without `columns` whole."""
    query = table.query()
    if columns is not None:
        query = query.select(list(columns))
    return query.to_arrow() if condition is None else query.where(condition).to_arrow()


def sql_strings(values: Iterable[str]) -> str:
    """A list to compare with. What holds half a surrogate pair, as a file's name may, is in no table: it is left out."""
    whole = (value for value in values if value == value.encode("utf-8", "ignore").decode())
    return ",".join("'" + value.replace("'", "''") + "'" for value in whole) or "null"


async def load_indexes(table: AsyncTable) -> None:
    await together(*(table.prewarm_index(index.name) for index in await table.list_indices()))
