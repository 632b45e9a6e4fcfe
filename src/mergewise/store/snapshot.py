"""One state of an index: open versions of LanceDB tables, mapped files, cached values and the documents of searches.

Tables are read through LanceDB's asynchronous interface, because the synchronous one spends two milliseconds a call on its own
wrapping. Searches are awaited in the calling thread, everything else on an event loop of the store.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from mergewise.concurrency import BackgroundLoop, ThreadLoop, check_time, together
from mergewise.errors import CorruptIndex, StoreError, UsageError
from mergewise.ranges import short_repr
from mergewise.store import documents as d
from mergewise.store.conditions import parse_condition, sql_of, sql_value
from mergewise.store.copies import RepeatedTexts, copies_of
from mergewise.store.damage import REINDEX_HINT, REPAIR_HINT, DamagedCopies, reading
from mergewise.store.digests import LARGEST, file_digest
from mergewise.store.kept import Changes, SnapshotCache, SnapshotRange
from mergewise.store.lance_import import IN_USE
from mergewise.store.lance_values import stored_columns
from mergewise.store.manifest import Manifest
from mergewise.store.mapped import Mapped, MappedRows
from mergewise.store.numbers import EVERYTHING, DocumentFilter, DocumentNumbers, IntArray, sorted_once, sql_numbers
from mergewise.store.places.place import Place, Stamp
from mergewise.store.tables import NUMBER, Table
from mergewise.store.views import Registry
from mergewise.types import frozen

if TYPE_CHECKING:
    from lancedb._lancedb import Table as LanceTable

# time limit of a condition, which reads all documents: a million take a few seconds
CONDITION_SECONDS = 60.0
LOOP = BackgroundLoop("mergewise-store")
run = LOOP.run
# While rows wait for vectors: number of searches of one state after which its rows are held in memory, which costs as much as a
# dozen searches, and maximum of numbers in held vectors.
SEARCHES, MOST_HELD = 12, 64_000_000
ID, ADDRESS = "id", "_rowid"
# number of documents up to which a condition names them
DOCUMENTS_AT_ONCE = 1000


class Snapshot:
    """One state of an index. It takes over tables of the same version and mapped files that the state `before` has open.

    Its methods raise errors of any kind, which the public classes translate (`damage.raising_store_errors`). Damaged copies
    must repeat a whole public method, which opens its tables again.
    """

    def __init__(
        self, place: Place, manifest: Manifest, registry: Registry, before: Snapshot | None, *, compares: bool
    ) -> None:
        """Open a state. Without `compares`, files of tables are not compared with their digests."""
        place.check_plain()
        self.place = place
        self.manifest = manifest
        self.specs = specs_of(manifest, registry)
        # the default table: the leaves
        self.first = next(iter(self.specs))
        self.opened: dict[str, LanceTable | None] = {}
        # the stamps of the open tables
        self.stamps: dict[str, Stamp] = {}
        self._mapped: dict[str, MappedRows] = {}
        # tables with rows in memory while some wait for vectors, and the number of vector searches
        self.held: dict[str, MappedRows] = {}
        self.searches: Counter[str] = Counter()
        self.kept = SnapshotCache()
        self._compares = compares
        # the documents of an earlier state
        self._older: SnapshotRange | None = None
        if before is None:
            return
        tables = before.manifest.tables
        place.compared.intersection_update(manifest.digests.items())
        # iterate over copies, because other threads still use the earlier state
        # and compare stamps, because a recreated table counts its versions from the beginning
        for name, stamp in before.stamps.copy().items():
            is_named = name in before.opened and manifest.tables.get(name) == tables[name]
            if is_named and place.stamp(name, tables[name]) == stamp:
                self.opened[name], self.stamps[name] = before.opened[name], stamp
        for name, rows in before._mapped.copy().items():
            self._mapped[name] = self._map_rows(name, rows)
        documents = before.stamps.get(d.DOCUMENTS)
        # the same documents table, in any version
        if documents is not None and place.stamp(d.DOCUMENTS, tables[d.DOCUMENTS]) == documents:
            self.kept = SnapshotCache(before.kept)
            self._older = before.basis() if before.kept.has("numbers") else before._older

    def basis(self) -> SnapshotRange:
        return SnapshotRange(self.numbers(), self.manifest.next_number, self.manifest.next_id)

    # -- documents

    def numbers(self, where: str | None = None) -> DocumentNumbers:
        """Return the numbers of the documents that meet a condition, or of all documents."""
        return self.kept.once("numbers", lambda: self.read_numbers(where), where)

    def read_numbers(self, where: str | None) -> DocumentNumbers:
        older = self._older
        if where is None and older is not None and older.next_number <= self.manifest.next_number:
            added = self.documents_from(older.next_number)["_number"].to_numpy()
            if len(older.numbers) + len(added) == self.row_count(d.DOCUMENTS):
                return DocumentNumbers(np.concatenate([older.numbers.array, sorted_once(added)]))
        if where is None:
            return DocumentNumbers(sorted_once(self.whole(d.DOCUMENTS, ["_number"])["_number"].to_numpy()))
        table = self.table(d.DOCUMENTS)
        if table is None:
            return DocumentNumbers.of(())
        # the columns that a user's condition may name
        kinds = {"id": str, "title": str, **d.metadata_kinds(self.schema(d.DOCUMENTS))}
        condition = sql_of(parse_condition(where, kinds))
        try:
            asked = asyncio.wait_for(scan(table, ["_number"], condition), CONDITION_SECONDS)
            return DocumentNumbers(sorted_once(run(asked)["_number"].to_numpy()))
        except TimeoutError:
            raise UsageError(
                f"condition too slow: {short_repr(where)} takes more than {CONDITION_SECONDS:.0f} seconds",
                "simplify it",
            ) from None

    def filter(self, where: str | None) -> DocumentFilter:
        """Return the filter of a search: the documents that meet a condition, without duplicates."""

        def make() -> DocumentFilter:
            everything, copies = self.numbers(), DocumentNumbers.of(self.copies(where))
            wanted = self.numbers(where).without(copies)
            if len(wanted) == len(everything):
                return EVERYTHING
            share = len(wanted) / len(everything)
            return DocumentFilter(copies, True, share) if where is None else DocumentFilter(wanted, False, share)

        return self.kept.once("filter", make, where)

    def copies(self, where: str | None = None) -> Mapping[int, int]:
        def read() -> Mapping[int, int]:
            repeated = self.repeated_texts()
            if where is None or not repeated.records:
                return repeated.copies
            return copies_of(repeated.records, self.numbers(where))

        return self.kept.once("copies", read, where)

    def repeated_texts(self) -> RepeatedTexts:
        """Return the hashes of all texts, and the documents whose text occurs more than once."""

        def make() -> RepeatedTexts:
            rows = self.whole(d.DOCUMENTS, ["_number", "_content"])
            return RepeatedTexts().with_changes(rows, DocumentNumbers.of(()), self.statements)

        def extend(older: RepeatedTexts, changes: Changes) -> RepeatedTexts:
            return older.with_changes(self.documents_from(changes.first_number), changes.gone, self.statements)

        return self.kept.extend_or_make("repeated texts", self.basis, make, extend)

    def statements(self, numbers: IntArray) -> list[tuple[int, str, d.Statement]]:
        """Return number, id and statement of the documents with these numbers."""
        if not len(numbers):
            return []
        rows = self.numbered(DocumentNumbers(numbers), ["_number", "id", "title", "_content"]).to_pylist()
        return [(row["_number"], row["id"], d.statement_of(row["id"], row["title"], row["_content"])) for row in rows]

    def numbered(self, numbers: DocumentNumbers, columns: Sequence[str]) -> pa.Table:
        """Return the documents with these numbers. The columns must include the number."""
        few = 0 < len(numbers) <= DOCUMENTS_AT_ONCE
        rows = self.whole(d.DOCUMENTS, columns, f"_number in ({sql_numbers(numbers)})" if few else None)
        if len(rows) == len(numbers):
            return rows
        return rows.filter(pa.array(numbers.holds(rows["_number"].to_numpy())))

    def documents_from(self, number: int) -> pa.Table:
        """Return number, text digest and language of the documents from this number on."""
        condition = f"_number >= {number}"
        return self.kept.once(f"documents from {number}", lambda: self.whole(d.DOCUMENTS, d.OF_TEXTS, condition))

    # -- tables

    def whole(self, table: str, columns: Sequence[str] | None, condition: str | None = None) -> pa.Table:
        """Return the rows that meet a condition, with the given columns or all."""
        opened = self.table(table)
        if opened is not None:
            self.compare(table, "data")
            return run(scan(opened, columns, condition))
        empty = self.schema(table).empty_table()
        return empty if columns is None else empty.select(list(columns))

    def sorted_columns(self, table: str, columns: Sequence[str]) -> Mapping[str, IntArray]:
        # the document column tells which rows to drop
        wanted = list(dict.fromkeys([*columns, NUMBER]))

        def make() -> SortedColumns:
            return SortedColumns.of(self.whole(table, wanted))

        def extend(older: SortedColumns, changes: Changes) -> SortedColumns | None:
            by_id = self.specs[table].table.has_ids
            added = f"{ID} >= {changes.first_id}" if by_id else f"{NUMBER} >= {changes.first_number}"
            grown = older.with_changes(self.whole(table, wanted, added), changes.gone)
            # a repair may have added or removed other rows
            return grown if len(grown) == self.row_count(table) else None

        return self.kept.extend_or_make(f"sorted {table} {wanted}", self.basis, make, extend).columns

    def row_count(self, table: str) -> int:
        opened = self.table(table)
        return self.kept.once(
            f"row count of {table}", lambda: 0 if opened is None else run(call_in_loop(opened.count_rows, None))
        )

    def schema(self, table: str) -> pa.Schema:
        """Return the schema of a table. A table that does not exist yet has the schema of a new one."""
        opened = self.table(table)
        return self.kept.once(
            f"schema of {table}",
            lambda: new_schema(table, self.specs, 0) if opened is None else run(call_in_loop(opened.schema)),
        )

    def mapped_rows(self, table: str) -> MappedRows:
        if table in self.held:
            return self.held[table]
        if table not in self._mapped:
            self._mapped[table] = self._map_rows(table)
        return self._mapped[table]

    def _map_rows(self, table: str, before: MappedRows | None = None) -> MappedRows:
        spec = self.specs.get(table)
        stored = stored_columns(self.place, self.manifest, spec.table) if spec else {}
        mapped = Mapped.of(self.manifest.mapped.get(table))
        return MappedRows(self.place, mapped, before, self.manifest.digests, stored)

    def is_mapped(self, table: str) -> bool:
        return bool(self.manifest.mapped.get(table)) or table in self.held

    def hold_waiting_rows(self, table: str, opened: LanceTable) -> None:
        """Read unmapped rows to memory after some searches while rows wait for vectors.

        Rows are mapped once all have vectors. Until then LanceDB compares all vectors, and finds each row in the table.
        """
        self.searches[table] += 1
        first, end = self.mapped_rows(table).end, self.manifest.next_id

        def read() -> None:
            own = self.specs[table].table
            columns = [name for name in self.schema(table).names if name != own.words]
            rows = run(scan(opened, columns, f"{ID} >= {first}", addresses=True)).sort_by(ID)
            self.held[table] = self.mapped_rows(table).with_rows(rows, end, own.vectors)

        if self.searches[table] > SEARCHES and (end - first) * self.manifest.dimension <= MOST_HELD:
            self.kept.once(f"hold {table}", read)

    def table(self, name: str) -> LanceTable | None:
        check_time()
        IN_USE.check_own_process(self.place)
        if name not in self.opened:
            self.opened[name] = self._open(name)
        return self.opened[name]

    def _open(self, name: str) -> LanceTable | None:
        version = self.manifest.tables.get(name)
        if version is None:
            return None
        with self.reading(
            self.place, f"version {version} of table {name!r}", REINDEX_HINT if name == d.DOCUMENTS else REPAIR_HINT
        ):
            renewals = self.place.renewals
            stamp = self.place.stamp(name, version)
            self.place.check_own_files(name, version)
            table = run(self.place.open_table(name, version))
            if stamp is not None:
                self.stamps[name] = stamp
            folders = ["_versions", "_deletions", "_indices"]
            # questions about mapped rows do not read the table's
            is_read = Mapped.of(self.manifest.mapped.get(name)).end < self.manifest.next_id
            self.compare(name, *folders, *(["data"] if is_read else []))
            # meanwhile another thread may have replaced the copies that this table was opened from
            return table if self.place.renewals == renewals else self._open(name)

    def compare(self, name: str, *folders: str) -> None:
        """Compare files of a table, unless they are very large. Each is compared once. Raise CorruptIndex for damage."""

        def compare() -> None:
            compared = self.place.compared
            for file, digest in self.manifest.digests.items():
                table, _, inner = file.partition(".lance/")
                if table == name and inner.partition("/")[0] in folders and (file, digest) not in compared:
                    path = self.place.local(file)
                    if path is not None and path.stat().st_size <= LARGEST and file_digest(path) != digest:
                        raise CorruptIndex(f"damaged file: {file}", REPAIR_HINT)
                    compared.add((file, digest))

        if self._compares:
            self.kept.once(f"compared {name}: {folders}", compare)

    @contextmanager
    def reading(self, place: object, what: str = "", hint: str = REPAIR_HINT) -> Iterator[None]:
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
        self.opened, self.stamps, self._mapped, self.held = {}, {}, {}, {}
        self.kept, self._older = SnapshotCache(), None

    # -- before queries

    def prewarm(self) -> None:
        """Open all tables, search indexes and mapped files in parallel, so that queries read nothing from the place."""
        names = (d.DOCUMENTS, *self.specs)

        def load(name: str) -> None:
            table = self.table(name)
            if table is not None:
                with self.reading(self.place, f"table {name!r}"):
                    run(load_indexes(table))

        with ThreadPoolExecutor(2 * len(names), thread_name_prefix="mergewise-prewarm") as pool:
            mapped = [pool.submit(self.mapped_rows(name).load) for name in names if self.is_mapped(name)]
            for started in (*[pool.submit(load, name) for name in names], *mapped):
                started.result()


@frozen
class SortedColumns:
    """Numeric columns by name, sorted by the first column, then by the second. The document column is always included."""

    columns: Mapping[str, IntArray]

    @classmethod
    def of(cls, table: pa.Table) -> SortedColumns:
        """Sort a table of at least two columns. The document column must be one of them."""
        table = table.sort_by([(name, "ascending") for name in table.column_names[:2]])
        return cls({name: table[name].to_numpy() for name in table.column_names})

    def __len__(self) -> int:
        return len(self.columns[NUMBER])

    def with_changes(self, added: pa.Table, gone: DocumentNumbers) -> SortedColumns:
        """Drop the rows of deleted documents and insert the added rows.

        No value in the second column of the added rows may be below an existing one.
        """
        if not len(added) and not len(gone):
            return self
        stays = ~gone.holds(self.columns[NUMBER])
        fresh = SortedColumns.of(added).columns
        first = next(iter(self.columns))
        at = np.searchsorted(self.columns[first][stays], fresh[first], "right")
        return SortedColumns({name: np.insert(held[stays], at, fresh[name]) for name, held in self.columns.items()})


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


def start(coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
    """Start a search in this thread, or on the store's loop if this thread already runs a loop."""
    return ThreadLoop.start(coroutine) if asyncio._get_running_loop() is None else LOOP.start(coroutine)


async def scan(
    table: LanceTable, columns: Sequence[str] | None, condition: str | None = None, *, addresses: bool = False
) -> pa.Table:
    """Read the rows that meet a condition, with the given columns or all."""
    query: Any = table.query()
    if columns is not None:
        query.select_columns(list(columns))
    if condition is not None:
        query.where(condition)
    if addresses:
        query.with_row_id()
    return await rows_of(query)


async def rows_of(query: Any, most: float = math.inf) -> pa.Table:
    """Run a query, and stop after `most` rows."""
    stream = await query.execute(None, None)
    batches: list[pa.RecordBatch] = []
    async for batch in stream:
        batches.append(batch)
        if sum(map(len, batches)) >= most:
            break
    return pa.Table.from_batches(batches, stream.schema)


async def call_in_loop(function: Any, *arguments: Any, **options: Any) -> Any:
    """Call a function of LanceDB's table, which needs a running loop."""
    return await function(*arguments, **options)


def sql_strings(values: Iterable[str]) -> str:
    """Write strings as an SQL list. Invalid Unicode, as in a file name, is omitted: no table can hold it."""
    whole = (value for value in values if value == value.encode("utf-8", "ignore").decode())
    return ",".join(map(sql_value, whole)) or "null"


async def load_indexes(table: LanceTable) -> None:
    await together(*(call_in_loop(table.prewarm_index, index.name) for index in await table.list_indices()))
