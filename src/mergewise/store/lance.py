"""An index in a directory, on LanceDB.

LanceDB commits one table at a time, so the state of an index is its manifest, which names a version of each table and
is replaced last. A change works on the newest versions; if a writer was killed half way, the next one first goes back
to the versions that the manifest names. One process writes at a time, held by a file lock that dies with the process.

What tables there are, the registry of views says: nothing here names a view.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from filelock import FileLock, Timeout

from mergewise.errors import CorruptIndex, IndexBusy, StoreError, UsageError
from mergewise.store import documents as d
from mergewise.store.audit import audit
from mergewise.store.lance_reader import ALL, LanceReader, specs_of, sql_numbers, sql_strings
from mergewise.store.manifest import Manifest, Run, ViewState, holds, read_manifest, without, write_manifest
from mergewise.store.mapped import IntArray, Mapped, MappingWriter, drop_unnamed
from mergewise.store.metadata import with_checked_metadata
from mergewise.store.tables import NUMBER, Placed, Table, arrow_table, ids_used
from mergewise.store.views import Registry
from mergewise.text.terms import STOP_WORDS
from mergewise.types import AddReport, DocumentRows, Failure, Problem

if TYPE_CHECKING:
    from lancedb.table import Table as LanceTable

log = logging.getLogger("mergewise")

LOCK_SECONDS = 3600.0
FEW_ROWS, MANY_FRAGMENTS = 1000, 32  # what a search goes through without an index before one is brought up to date
KEPT = timedelta(minutes=10)  # old versions stay for readers that are in the middle of a question
MAPPED_IDS = 20_000  # ids whose rows are in memory at once while they are written to mapped files
# Words by Unicode's rules, so that scripts without spaces are searched too. With this tokenizer the built-in stop words
# are those of all languages at once, "cat" and "dog" among them: ours take their place.
TEXT_TOKENIZER = "icu/split"


class LanceStore:
    """The `Store` protocol over a directory. Cheap to open: tables are opened when they are needed."""

    def __init__(self, directory: Path, registry: Registry) -> None:
        self.directory = directory
        self.registry = registry
        self._reader: LanceReader | None = None
        self._lock = FileLock(directory / ".lock")

    @classmethod
    def create(cls, directory: Path, manifest: Manifest, registry: Registry) -> LanceStore:
        """Make the directory an index, unless another process just did."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{directory} cannot be created: {error.strerror}", "choose another --index") from None
        store = cls(directory, registry)
        with store._locked():
            if read_manifest(directory) is None:
                write_manifest(directory, manifest)
        return store

    @property
    def manifest(self) -> Manifest:
        """As it stands on disk now."""
        manifest = read_manifest(self.directory)
        if manifest is None:
            raise CorruptIndex(f"{self.directory} has lost its manifest", "index the documents again")
        return manifest

    @property
    def settings(self) -> Mapping[str, Mapping[str, Any]]:
        return {name: view.settings for name, view in self.manifest.views.items()}

    def reader(self) -> LanceReader:
        manifest = self.manifest
        if self._reader is None or self._reader.manifest != manifest:
            self._reader = LanceReader(self.directory, manifest, self.registry)
        return self._reader

    # -- changes

    def write(self, rows: Sequence[DocumentRows], *, force: bool = False) -> AddReport:
        with self._writing() as change:
            standing = change.reader.digests([r.document.id for r in rows])
            fresh = [r for r in rows if force or standing.get(r.document.id) != r.digest]
            for name, spec in change.specs.items():
                if any(name not in row.tables for row in fresh):
                    raise StoreError(
                        f"{self.directory} got a {spec.view} view from another process", "run the same call again"
                    )
            good, failed = change.checked(fresh)
            replaced = [r.document.id for r in good if r.document.id in standing]
            if good:
                change.remove(replaced)
                change.append(good)
                change.commit()
            return AddReport(len(good) - len(replaced), len(replaced), len(rows) - len(fresh), tuple(failed))

    def remove(self, doc_ids: Sequence[str]) -> int:
        with self._writing() as change:
            standing = list(change.reader.digests(doc_ids))
            change.remove(standing)
            change.commit()
            return len(standing)

    def optimize(self) -> None:
        with self._writing() as change:
            behind = change.needs_indexing()
            if behind:
                change.build_indexes()
            if change.map_rows(compacted=behind):
                change.commit()
            if behind:
                # only now may old versions go: until the commit the manifest named them
                change.drop_old_versions()
                change.commit()

    def check(self) -> list[Problem]:
        reader = self.reader()
        misled = [name for name in reader.manifest.mapped if not reader.knows_addresses(name)]
        problems = audit(reader, self.registry, self.manifest.dimension)
        return problems + [Problem(f"addresses of the table {name!r} lead to other rows") for name in misled]

    def repair(self) -> None:
        with self._writing() as change:
            change.drop_orphans()
            change.build_indexes()
            change.manifest = replace(change.manifest, mapped={})  # whatever they hold, they can be written again
            change.map_rows(compacted=True)
            change.commit()

    # -- views that are added to documents that stand

    def begin_view(self, view: str, settings: Mapping[str, Any]) -> None:
        with self._writing() as change:
            if view not in change.manifest.views:
                change.set_view(view, settings, ((0, change.manifest.next_number),))
                change.commit()

    def missing(self, view: str) -> list[str]:
        return self.reader().numbered_in(self.manifest.views[view].missing)

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
                change.delete(view, numbers)  # what an older mergewise left half done
                change.append_view(view, lacking)
                change.set_view(view, state.settings, without(state.missing, numbers))
                change.commit()

    def finish_view(self, view: str) -> bool:
        with self._writing() as change:
            state = change.manifest.views[view]
            if change.reader.numbered_in(state.missing):
                return False
            change.set_view(view, state.settings, ())
            change.build_indexes()
            change.map_rows(compacted=True)
            change.commit()
            return True

    # -- the lock

    @contextmanager
    def _writing(self) -> Iterator[_Change]:
        with self._locked():
            yield _Change(self.directory, self.manifest, self.registry)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            log.warning("another process is writing to %s; waiting for it", self.directory)
            try:
                self._lock.acquire(timeout=LOCK_SECONDS)
            except Timeout:
                raise IndexBusy(f"another process is writing to {self.directory}", "try again later") from None
        try:
            yield
        finally:
            self._lock.release()


class _Change:
    """One change, under the lock. Nothing of it is visible before `commit`."""

    def __init__(self, directory: Path, manifest: Manifest, registry: Registry) -> None:
        self.directory = directory
        self.manifest = manifest
        self.registry = registry
        self.specs = specs_of(manifest, registry)
        self.reader = LanceReader(directory, manifest, registry)
        self._tables: dict[str, LanceTable] = {}

    def table(self, name: str) -> LanceTable:
        if name not in self._tables:
            self._tables[name] = self._open_for_writing(name)
        return self._tables[name]

    def _open_for_writing(self, name: str) -> LanceTable:
        database = _connect(self.directory)
        named = self.manifest.tables.get(name)
        if named is None:
            schema = d.SCHEMA if name == d.DOCUMENTS else self.specs[name].table.schema(self.manifest.dimension)
            database.drop_table(name, ignore_missing=True)  # an interrupted first change may have left it
            created: LanceTable = database.create_table(name, schema=schema)
            return created
        table: LanceTable = database.open_table(name)
        if table.version != named:
            log.info("going back to version %d of %s: a writer was interrupted", named, name)
            table.checkout(named)
            table.restore()
        return table

    def set_view(self, view: str, settings: Mapping[str, Any], missing: Sequence[Run]) -> None:
        missing = tuple((first, end) for first, end in missing if first < end)
        self.manifest = replace(self.manifest, views={**self.manifest.views, view: ViewState(settings, missing)})
        self.specs = specs_of(self.manifest, self.registry)

    def tables_of(self, view: str) -> list[Table]:
        return [spec.table for spec in self.specs.values() if spec.view == view]

    # -- rows

    def remove(self, doc_ids: Sequence[str]) -> None:
        if not doc_ids:
            return
        documents = self.table(d.DOCUMENTS)
        condition = f"id in ({sql_strings(doc_ids)})"
        numbers = _scan(documents, ["_number"], condition)["_number"].to_pylist()
        for view in self.manifest.views:
            self.delete(view, numbers)
        documents.delete(condition)

    def delete(self, view: str, numbers: Sequence[int]) -> None:
        """The rows of the documents with these numbers."""
        for table in self.tables_of(view):
            opened = self.table(table.name)
            if table.name in self.manifest.tables:
                opened.delete(f"{NUMBER} in ({sql_numbers(numbers)})")

    def checked(self, rows: Sequence[DocumentRows]) -> tuple[list[DocumentRows], list[Failure]]:
        """The rows that can be stored; the table of documents gets the columns that their metadata needs."""
        documents = self.table(d.DOCUMENTS)
        kinds = d.metadata_kinds(documents.schema)
        known = set(kinds)
        good, failed = with_checked_metadata(rows, kinds)
        added = [d.metadata_field(name, kind) for name, kind in kinds.items() if name not in known]
        if added:
            documents.add_columns(added)
        return good, failed

    def append(self, rows: Sequence[DocumentRows]) -> None:
        placed: dict[str, list[Placed]] = defaultdict(list)
        numbered = []
        for row in rows:
            number, first_id = self.manifest.next_number, self.manifest.next_id
            numbered.append((number, first_id, row))
            for view in self.manifest.views:
                self._place(view, number, first_id, row, placed)
            self.manifest = replace(self.manifest, next_number=number + 1)
        documents = self.table(d.DOCUMENTS)
        documents.add(d.document_table(numbered, next(iter(self.specs)), documents.schema))
        self._add(placed)

    def append_view(self, view: str, rows: Sequence[tuple[int, int, DocumentRows]]) -> None:
        """Rows of documents that stand, with the number and the first leaf of each."""
        placed: dict[str, list[Placed]] = defaultdict(list)
        for number, first_id, row in rows:
            self._place(view, number, first_id, row, placed)
        self._add(placed)

    def _place(
        self, view: str, number: int, first_id: int, row: DocumentRows, placed: Mapping[str, list[Placed]]
    ) -> None:
        """Give the rows of one view the next range of ids."""
        by = {"row": self.manifest.next_id, "leaf": first_id}
        tables = self.tables_of(view)
        for table in tables:
            placed[table.name].append(Placed(number, row.tables[table.name], by))
        self.manifest = replace(self.manifest, next_id=self.manifest.next_id + ids_used(tables, row.tables))

    def _add(self, placed: Mapping[str, Sequence[Placed]]) -> None:
        for name, rows in placed.items():
            opened, table = self.table(name), self.specs[name].table
            opened.add(arrow_table(table, rows, opened.schema))
            if table.text is not None and not _has_index(opened, table.text):
                _index_text(opened, table.text)

    # -- search indexes and mapped files

    def needs_indexing(self) -> bool:
        """Whether enough has come since the indexes were made; a few rows more are searched without them as quickly."""
        searched = [spec.table for spec in self.specs.values() if spec.table.text is not None]
        return any(_is_behind(self.table(t.name), str(t.text)) for t in searched if t.name in self.manifest.tables)

    def build_indexes(self) -> None:
        """Full text, vectors (where there are enough) and keys: made once, then brought up to date."""
        from lancedb.index import BTree, IvfRq

        if not self.manifest.tables:
            return
        self.table(d.DOCUMENTS).optimize(cleanup_older_than=timedelta(days=36500))
        _index(self.table(d.DOCUMENTS), "id", BTree())
        for name, spec in self.specs.items():
            opened, table = self.table(name), spec.table
            opened.optimize(cleanup_older_than=timedelta(days=36500))
            if table.text is not None and not _has_index(opened, table.text):
                _index_text(opened, table.text)
            for column in table.keys:
                _index(opened, column, BTree())
            for column in table.vectors:
                if column in opened.schema.names and opened.count_rows() >= table.vector_index_rows:
                    _index(opened, column, IvfRq(distance_type="dot", num_bits=4))

    def map_rows(self, *, compacted: bool) -> bool:
        """Write the rows that came since the last time to mapped files. Whether there were any.

        Compacting moves rows, so that all addresses are then written anew.
        """
        changed = False
        for name, spec in self.specs.items():
            if not spec.table.mapped or not (name in self.manifest.tables or name in self._tables):
                continue
            written = self._mapped(name, Mapped.of(self.manifest.mapped.get(name)), compacted)
            if written is not None:
                changed = True
                self.manifest = replace(self.manifest, mapped={**self.manifest.mapped, name: written.as_dict()})
        return changed

    def _mapped(self, name: str, mapped: Mapped, compacted: bool) -> Mapped | None:
        table = self.table(name)
        after = f"id >= {mapped.end}"
        addressed = _scan(table, ["id"], None if compacted else after, with_row_id=True)
        if not compacted and not len(addressed):
            return None
        living = np.sort(_scan(self.table(d.DOCUMENTS), ["_number"], None)["_number"].to_numpy())
        parts = (
            _scan(table, None, f"id >= {first} and id < {first + MAPPED_IDS}").sort_by("id")
            for first in range(mapped.end, self.manifest.next_id, MAPPED_IDS)
        )
        written = MappingWriter(self.directory, name, mapped).with_rows(parts, living)
        addresses, ids = addressed["_rowid"].to_numpy().astype(np.int64), addressed["id"].to_numpy()
        if not compacted:
            addresses, ids = self._with_known_addresses(name, addresses, ids)
        return MappingWriter(self.directory, name, written).with_addresses(addresses, ids)

    def _with_known_addresses(self, name: str, addresses: IntArray, ids: IntArray) -> tuple[IntArray, IntArray]:
        known, known_ids = self.reader.mapped_rows(name).addresses
        return np.concatenate([known, addresses]), np.concatenate([known_ids, ids])

    def drop_old_versions(self) -> None:
        versions = {name: table.version for name, table in self._tables.items()}
        for table in self._tables.values():
            table.optimize(cleanup_older_than=KEPT)
        if any(table.version != versions[name] for name, table in self._tables.items()):
            self.map_rows(compacted=True)
        named = {file for raw in self.manifest.mapped.values() for file in Mapped.of(raw).files}
        drop_unnamed(self.directory, named, KEPT.total_seconds())

    def drop_orphans(self) -> None:
        if not self.manifest.tables:
            return
        numbers = set(_scan(self.table(d.DOCUMENTS), ["_number"], None)["_number"].to_pylist())
        for name in self.specs:
            table = self.table(name)
            docs = pa.chunked_array([_scan(table, [NUMBER], None)[NUMBER].unique()])
            orphans = set(docs.to_pylist()) - numbers
            if orphans:
                table.delete(f"{NUMBER} in ({sql_numbers(orphans)})")

    def commit(self) -> None:
        versions = {name: table.version for name, table in self._tables.items()}
        committed = replace(self.manifest, tables={**self.manifest.tables, **versions})
        write_manifest(self.directory, committed)
        self.manifest = committed


def _connect(directory: Path) -> Any:
    import lancedb

    return lancedb.connect(directory)


def _scan(
    table: LanceTable, columns: Sequence[str] | None, condition: str | None, *, with_row_id: bool = False
) -> pa.Table:
    search = table.search().with_row_id(with_row_id)
    if columns is not None:
        search = search.select(list(columns))
    if condition is not None:
        search = search.where(condition)
    return search.limit(ALL).to_arrow()


def _is_behind(table: LanceTable, column: str) -> bool:
    stats = table.index_stats(f"{column}_idx")
    outside = table.count_rows() if stats is None else stats.num_unindexed_rows
    return outside > FEW_ROWS or _fragments(table) > MANY_FRAGMENTS


def _fragments(table: LanceTable) -> int:
    statistics: Any = table.stats()
    return int(statistics["fragment_stats"]["num_fragments"])


def _has_index(table: LanceTable, column: str) -> bool:
    return any(index.columns == [column] for index in table.list_indices())


def _index(table: LanceTable, column: str, config: Any) -> None:
    if not _has_index(table, column) and table.count_rows():
        table.create_index(column, config=config)


def _index_text(table: LanceTable, column: str) -> None:
    from lancedb.index import FTS

    config = FTS(base_tokenizer=TEXT_TOKENIZER, custom_stop_words=sorted(STOP_WORDS))
    table.create_index(column, config=config)
