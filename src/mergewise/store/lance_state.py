"""The open resources of one state of an index: versions of LanceDB tables, mapped files and cached values.

Tables are read through LanceDB's asynchronous interface, because the synchronous one spends two milliseconds a call on its own
wrapping. Searches are awaited in the calling thread, everything else on an event loop of the store.
"""

from __future__ import annotations

import asyncio
from collections import Counter
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
from mergewise.store.damage import REINDEX_HINT, REPAIR_HINT, DamagedCopies, raising_store_errors, reading
from mergewise.store.digests import LARGEST, file_digest
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

# time limit of a condition, which reads all documents: a million take a few seconds
CONDITION_SECONDS = 60.0
LOOP = BackgroundLoop("mergewise-store")
run = LOOP.run
# While rows wait for vectors: number of searches of one state after which its rows are held in memory, which costs as much as a
# dozen searches, and maximum of numbers in held vectors.
SEARCHES, MOST_HELD = 12, 64_000_000
ID = "id"


@raising_store_errors
class LanceState:
    """One state of an index. It takes over tables of the same version and mapped files that the state `before` has open."""

    def __init__(
        self,
        place: Place,
        manifest: Manifest,
        registry: Registry,
        before: LanceState | None = None,
        *,
        compares: bool = True,
    ) -> None:
        """Open a state. Without `compares`, files of tables are not compared with their digests."""
        place.check_plain()
        self.place = place
        self.directory = place.directory
        self.manifest = manifest
        self._specs = specs_of(manifest, registry)
        # the default table: the leaves
        self._first = next(iter(self._specs))
        self._tables: dict[str, AsyncTable | None] = {}
        # the stamps of the open tables
        self._stamps: dict[str, Stamp] = {}
        self._mapped: dict[str, MappedRows] = {}
        # tables with rows in memory while some wait for vectors, and the number of vector searches
        self._held: dict[str, MappedRows] = {}
        self._searches: Counter[str] = Counter()
        self._kept = SnapshotCache()
        self._compares = compares
        # the documents of an earlier state
        self._older: SnapshotRange | None = None
        if before is not None:
            self._take_over(before)
        # recently read documents: a state never changes, and successive queries use the same documents
        self._documents: dict[str, Document] = {}

    def _take_over(self, before: LanceState) -> None:
        self.place.compared.intersection_update(self.manifest.digests.items())
        # iterate over copies, because other threads still use the earlier state
        for name, stamp in before._stamps.copy().items():
            if name in before._tables and self._is_same(name, before.manifest.tables[name], stamp):
                self._tables[name], self._stamps[name] = before._tables[name], stamp
        for name, rows in before._mapped.copy().items():
            self._mapped[name] = self._map_rows(name, rows)
        documents = before._stamps.get(d.DOCUMENTS)
        # the same documents table, in any version
        if documents is not None and self._has_stamp(d.DOCUMENTS, before.manifest.tables[d.DOCUMENTS], documents):
            self._kept = SnapshotCache(before._kept)
            self._older = before._basis() if before._kept.has("numbers") else before._older

    def _is_same(self, name: str, version: int, stamp: Stamp) -> bool:
        return self.manifest.tables.get(name) == version and self._has_stamp(name, version, stamp)

    def _has_stamp(self, name: str, version: int, stamp: Stamp) -> bool:
        """Return whether a version is still the same file. A recreated table counts its versions from the beginning."""
        return self.place.stamp(name, version) == stamp

    def once(self, name: str, make: Callable[[], Kept], where: str | None = None) -> Kept:
        # Methods of the store use `_kept` themselves: damaged copies must repeat the whole method, which opens the table again.
        return self._kept.once(name, make, where)

    def _extend_or_make(
        self, name: str, make: Callable[[], Kept], extend: Callable[[Kept, Changes], Kept | None]
    ) -> Kept:
        return self._kept.extend_or_make(name, self._basis, make, extend)

    def _basis(self) -> SnapshotRange:
        return SnapshotRange(self.numbers(), self.manifest.next_number, self.manifest.next_id)

    # -- documents

    def numbers(self, where: str | None = None) -> DocumentNumbers:
        """Return the numbers of the documents that meet a condition, or of all documents."""
        return self._kept.once("numbers", lambda: self._read_numbers(where), where)

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
                f"condition too slow: {short_repr(where)} takes more than {CONDITION_SECONDS:.0f} seconds",
                "simplify it",
            ) from None

    def _all_numbers(self) -> IntArray:
        older = self._older
        if older is not None and older.next_number <= self.manifest.next_number:
            added = self._documents_from(older.next_number)["_number"].to_numpy()
            if len(older.numbers) + len(added) == self._row_count(d.DOCUMENTS):
                return np.concatenate([older.numbers.array, sorted_once(added)])
        return sorted_once(self.whole(d.DOCUMENTS, ["_number"])["_number"].to_numpy())

    def _documents_from(self, number: int) -> pa.Table:
        """Return number, text digest and language of the documents from this number on."""
        condition = f"_number >= {number}"
        return self._kept.once(f"documents from {number}", lambda: self.whole(d.DOCUMENTS, d.OF_TEXTS, condition))

    # -- tables

    def whole(self, table: str, columns: Sequence[str] | None, condition: str | None = None) -> pa.Table:
        """Return the rows that meet a condition, with the given columns or all."""
        opened = self._table(table)
        if opened is not None:
            self._compare(table, "data")
            return run(scan(opened, columns, condition))
        empty = self._schema(table).empty_table()
        return empty if columns is None else empty.select(list(columns))

    def sorted_columns(self, table: str, columns: Sequence[str]) -> Mapping[str, IntArray]:
        wanted = all_columns(columns)
        by_id = self._specs[table].table.has_ids

        def extend(older: SortedColumns, changes: Changes) -> SortedColumns | None:
            added = f"{ID} >= {changes.first_id}" if by_id else f"{NUMBER} >= {changes.first_number}"
            grown = older.with_changes(self.whole(table, wanted, added), changes.gone)
            # a repair may have added or removed other rows
            return grown if len(grown) == self._row_count(table) else None

        return self._extend_or_make(
            f"sorted {table} {wanted}", lambda: SortedColumns.of(self.whole(table, wanted)), extend
        ).columns

    def _row_count(self, table: str) -> int:
        opened = self._table(table)
        return self._kept.once(f"row count of {table}", lambda: 0 if opened is None else run(opened.count_rows()))

    def _schema(self, table: str) -> pa.Schema:
        """Return the schema of a table. A table that does not exist yet has the schema of a new one."""
        opened = self._table(table)
        return self._kept.once(
            f"schema of {table}", lambda: new_schema(table, self._specs, 0) if opened is None else run(opened.schema())
        )

    def mapped_rows(self, table: str) -> MappedRows:
        if table in self._held:
            return self._held[table]
        if table not in self._mapped:
            self._mapped[table] = self._map_rows(table)
        return self._mapped[table]

    def _map_rows(self, table: str, before: MappedRows | None = None) -> MappedRows:
        return MappedRows(self.place, Mapped.of(self.manifest.mapped.get(table)), before, self.manifest.digests)

    def _is_mapped(self, table: str) -> bool:
        return bool(self.manifest.mapped.get(table)) or table in self._held

    def _hold_waiting_rows(self, table: str, opened: AsyncTable) -> None:
        """Read unmapped rows to memory after some searches while rows wait for vectors.

        Rows are mapped once all have vectors. Until then LanceDB compares all vectors, and finds each row in the table.
        """
        self._searches[table] += 1
        first, end = self.mapped_rows(table).end, self.manifest.next_id
        if self._searches[table] > SEARCHES and (end - first) * self.manifest.dimension <= MOST_HELD:
            self._kept.once(f"hold {table}", lambda: self._read_waiting_rows(table, opened, first, end))

    def _read_waiting_rows(self, table: str, opened: AsyncTable, first: int, end: int) -> None:
        own = self._specs[table].table
        columns = [name for name in self._schema(table).names if name != own.words]
        query = opened.query().select(columns).where(f"{ID} >= {first}").with_row_id()
        rows = run(query.to_arrow()).sort_by(ID)
        self._held[table] = self.mapped_rows(table).with_rows(rows, end, own.vectors)

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
            self.place, f"version {version} of table {name!r}", REINDEX_HINT if name == d.DOCUMENTS else REPAIR_HINT
        ):
            renewals = self.place.renewals
            stamp = self.place.stamp(name, version)
            self.place.check_own_files(name, version)
            table = run(self.place.open_table(name, version))
            if stamp is not None:
                self._stamps[name] = stamp
            folders = ["_versions", "_deletions", "_indices"]
            # questions about mapped rows do not read the table's
            is_read = Mapped.of(self.manifest.mapped.get(name)).end < self.manifest.next_id
            self._compare(name, *folders, *(["data"] if is_read else []))
            # meanwhile another thread may have replaced the copies that this table was opened from
            return table if self.place.renewals == renewals else self._open(name)

    def compare_files(self, name: str, *folders: str) -> None:
        """Compare files of a table, unless they are very large. Each is compared once. Raise CorruptIndex for damage."""
        self._compare(name, *folders)

    def _compare(self, name: str, *folders: str) -> None:
        if self._compares:
            self._kept.once(f"compared {name}: {folders}", lambda: self._compare_files(name, folders))

    def _compare_files(self, name: str, folders: Sequence[str]) -> None:
        compared = self.place.compared
        for file, digest in self.manifest.digests.items():
            table, _, inner = file.partition(".lance/")
            if table == name and inner.partition("/")[0] in folders and (file, digest) not in compared:
                path = self.place.local(file)
                if path is not None and path.stat().st_size <= LARGEST and file_digest(path) != digest:
                    raise CorruptIndex(f"damaged file: {file}", REPAIR_HINT)
                compared.add((file, digest))

    @contextmanager
    def _reading(self, place: object, what: str = "", hint: str = REPAIR_HINT) -> Iterator[None]:
        """Translate errors like `reading`, but distinguish damage from old files that a writer has just dropped."""
        try:
            with reading(place, what, hint):
                yield
        except CorruptIndex as error:
            state = self.place.manifest()
            if state is None or state.manifest != self.manifest:
                raise StoreError(f"{place} has changed since it was opened: {error.message}", "ask again") from error
            if self.place.refresh is None:
                raise
            raise DamagedCopies(error.message, error.hint) from error

    def renew(self) -> None:
        """Read everything anew, because local copies of the place may be damaged."""
        self.place.renew_copies()
        self._tables, self._stamps, self._mapped, self._held, self._documents = {}, {}, {}, {}, {}
        self._kept, self._older = SnapshotCache(), None

    # -- before queries

    def prewarm(self) -> None:
        """Open all tables, search indexes and mapped files in parallel, so that queries read nothing from the place."""
        names = (d.DOCUMENTS, *self._specs)
        with ThreadPoolExecutor(2 * len(names), thread_name_prefix="mergewise-prewarm") as pool:
            mapped = [pool.submit(self._load_mapped_rows, name) for name in names if self._is_mapped(name)]
            tables = [pool.submit(self._prewarm_table, name) for name in names]
            for started in (*tables, *mapped):
                started.result()

    def _prewarm_table(self, name: str) -> None:
        table = self._table(name)
        if table is not None:
            with self._reading(self.place, f"table {name!r}"):
                run(load_indexes(table))

    def _load_mapped_rows(self, name: str) -> None:
        rows = self.mapped_rows(name)
        _ = rows.addresses, rows._blocks, rows.postings


class Spec(NamedTuple):
    """A table and the name of its view."""

    view: str
    table: Table


def specs_of(manifest: Manifest, registry: Registry) -> dict[str, Spec]:
    """Return the tables of all views of an index by name, including views that are being added."""
    unknown = [name for name in manifest.views if name not in registry]
    if unknown:
        raise UsageError(
            f"unknown view in the index: {unknown[0]!r}",
            "upgrade mergewise, or install the package that defines the view",
        )
    first = next(iter(registry))
    if first not in manifest.views:
        raise CorruptIndex(f"view missing from the index: {first!r}", REINDEX_HINT)
    return {
        table.name: Spec(name, table)
        for name in registry
        if name in manifest.views
        for table in registry[name].tables_of(manifest.views[name].settings)
    }


def new_schema(table: str, specs: Mapping[str, Spec], dimension: int) -> pa.Schema:
    """Return the schema of a new table."""
    return d.SCHEMA if table == d.DOCUMENTS else specs[table].table.schema(dimension)


def scan(table: AsyncTable, columns: Sequence[str] | None, condition: str | None = None) -> Coroutine[Any, Any, Any]:
    """Read the rows that meet a condition, with the given columns or all."""
    query = table.query()
    if columns is not None:
        query = query.select(list(columns))
    return query.to_arrow() if condition is None else query.where(condition).to_arrow()


def sql_strings(values: Iterable[str]) -> str:
    """Write strings as an SQL list. Invalid Unicode, as in a file name, is omitted: no table can hold it."""
    whole = (value for value in values if value == value.encode("utf-8", "ignore").decode())
    return ",".join("'" + value.replace("'", "''") + "'" for value in whole) or "null"


async def load_indexes(table: AsyncTable) -> None:
    await together(*(table.prewarm_index(index.name) for index in await table.list_indices()))
