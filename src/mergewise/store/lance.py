"""An index in a directory, on LanceDB.

LanceDB commits one table at a time, so the state of an index is its manifest, which names a version of each table and
is replaced last. A change works on the newest versions; if a writer was killed half way, the next one first goes back
to the versions that the manifest names. One process writes at a time, held by a file lock that dies with the process.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from filelock import FileLock, Timeout

from mergewise.errors import CorruptIndex, IndexBusy, UsageError
from mergewise.store import schema as s
from mergewise.store.audit import audit
from mergewise.store.lance_reader import LanceReader, connect, scan, sql_numbers, sql_strings
from mergewise.store.manifest import Manifest, read_manifest, write_manifest
from mergewise.store.rows import moved, with_checked_metadata
from mergewise.text.terms import STOP_WORDS
from mergewise.types import AddReport, DocumentRows, Failure, Problem

if TYPE_CHECKING:
    from lancedb.table import Table

log = logging.getLogger("mergewise")

LOCK_SECONDS = 3600.0
VECTOR_INDEX_ROWS = 20_000  # below, an exact scan is as fast (benchmarks/vectors.py)
FEW_ROWS, MANY_FRAGMENTS = 1000, 32  # what a search goes through without an index before one is brought up to date
KEPT = timedelta(minutes=10)  # old versions stay for readers that are in the middle of a question
# Words by Unicode's rules, so that scripts without spaces are searched too. With this tokenizer the built-in stop words
# are those of all languages at once, "cat" and "dog" among them: ours take their place.
TEXT_TOKENIZER = "icu/split"


class LanceStore:
    """The `Store` protocol over a directory. Cheap to open: tables are opened when they are needed."""

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.directory = directory
        self._manifest = manifest
        self._reader: LanceReader | None = None
        self._lock = FileLock(directory / ".lock")

    @classmethod
    def create(cls, directory: Path, manifest: Manifest) -> LanceStore:
        """Make the directory an index, unless another process just did."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{directory} cannot be created: {error.strerror}", "choose another --index") from None
        store = cls(directory, manifest)
        with store._writing(fresh=True):
            existing = read_manifest(directory)
            if existing is None:
                write_manifest(directory, manifest)
        return cls(directory, existing or manifest)

    @property
    def manifest(self) -> Manifest:
        """As it stands on disk now."""
        manifest = read_manifest(self.directory)
        if manifest is None:
            raise CorruptIndex(f"{self.directory} has lost its manifest", "index the documents again")
        return manifest

    def reader(self) -> LanceReader:
        manifest = self.manifest
        if self._reader is None or self._reader.manifest != manifest:
            self._reader = LanceReader(self.directory, manifest)
        return self._reader

    # -- changes

    def write(self, rows: Sequence[DocumentRows], *, force: bool = False) -> AddReport:
        with self._writing() as change:
            standing = change.reader.digests([r.document.id for r in rows])
            fresh = [r for r in rows if force or standing.get(r.document.id) != r.digest]
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
            if not change.needs_indexing():
                return
            change.build_indexes()
            change.commit()
            # only now may old versions go: until the commit the manifest named them
            change.drop_old_versions()
            change.commit()

    def check(self) -> list[Problem]:
        return audit(self.reader(), self.manifest.dimension)

    def repair(self) -> None:
        with self._writing() as change:
            change.drop_orphans()
            change.build_indexes()
            change.commit()

    @contextmanager
    def _writing(self, fresh: bool = False) -> Iterator[_Change]:
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            log.warning("another process is writing to %s; waiting for it", self.directory)
            try:
                self._lock.acquire(timeout=LOCK_SECONDS)
            except Timeout:
                raise IndexBusy(f"another process is writing to {self.directory}", "try again later") from None
        try:
            yield _Change(self.directory, self._manifest if fresh else self.manifest)
        finally:
            self._lock.release()


class _Change:
    """One change, under the lock. Nothing of it is visible before `commit`."""

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.directory = directory
        self.manifest = manifest
        self.reader = LanceReader(directory, manifest)
        self._tables: dict[str, Table] = {}

    def table(self, name: str) -> Table:
        if name not in self._tables:
            self._tables[name] = self._open_for_writing(name)
        return self._tables[name]

    def _open_for_writing(self, name: str) -> Table:
        database = connect(self.directory)
        named = self.manifest.tables.get(name)
        if named is None:
            schemas = {
                s.DOCUMENTS: s.DOCUMENT_SCHEMA,
                s.LEAF: s.leaf_schema(self.manifest.dimension),
                s.SECTION: s.SECTION_SCHEMA,
                s.NAME: s.NAME_SCHEMA,
            }
            database.drop_table(name, ignore_missing=True)  # an interrupted first change may have left it
            created: Table = database.create_table(name, schema=schemas[name])
            return created
        table: Table = database.open_table(name)
        if table.version != named:
            log.info("going back to version %d of %s: a writer was interrupted", named, name)
            table.checkout(named)
            table.restore()
        return table

    def remove(self, doc_ids: Sequence[str]) -> None:
        if not doc_ids:
            return
        documents = self.table(s.DOCUMENTS)
        condition = f"id in ({sql_strings(doc_ids)})"
        numbers = scan(documents, ["_number"], condition)["_number"].to_pylist()
        for name in s.OF_DOCUMENTS:
            self.table(name).delete(f"doc in ({sql_numbers(numbers)})")
        documents.delete(condition)

    def checked(self, rows: Sequence[DocumentRows]) -> tuple[list[DocumentRows], list[Failure]]:
        """The rows that can be stored; the table of documents gets the columns that their metadata needs."""
        documents = self.table(s.DOCUMENTS)
        kinds = s.metadata_kinds(documents.schema)
        known = set(kinds)
        good, failed = with_checked_metadata(rows, kinds)
        added = [s.metadata_field(name, kind) for name, kind in kinds.items() if name not in known]
        if added:
            documents.add_columns(added)
        return good, failed

    def append(self, rows: Sequence[DocumentRows]) -> None:
        documents = self.table(s.DOCUMENTS)
        numbered = []
        for row in rows:
            numbered.append((self.manifest.next_number, moved(row, self.manifest.next_id)))
            self.manifest = replace(
                self.manifest,
                next_id=self.manifest.next_id + len(row.leaves) + len(row.sections),
                next_number=self.manifest.next_number + 1,
            )
        documents.add(s.document_table(numbered, documents.schema))
        self.table(s.LEAF).add(s.leaf_table(numbered, self.manifest.dimension))
        self.table(s.SECTION).add(s.section_table(numbered))
        self.table(s.NAME).add(s.name_table(numbered))
        if not _has_index(self.table(s.LEAF), "key"):
            self._index_text()

    def _index_text(self) -> None:
        from lancedb.index import FTS

        config = FTS(base_tokenizer=TEXT_TOKENIZER, custom_stop_words=sorted(STOP_WORDS))
        self.table(s.LEAF).create_index("key", config=config)

    def needs_indexing(self) -> bool:
        """Whether enough has come since the indexes were made; a few rows more are searched without them as quickly."""
        if not self.manifest.tables:
            return False
        leaf = self.table(s.LEAF)
        stats = leaf.index_stats("key_idx")
        outside = leaf.count_rows() if stats is None else stats.num_unindexed_rows
        return outside > FEW_ROWS or _fragments(leaf) > MANY_FRAGMENTS

    def build_indexes(self) -> None:
        """Full text, vectors (where there are enough) and ids: made once, then brought up to date."""
        from lancedb.index import BTree, IvfRq

        if not self.manifest.tables:
            return
        for name in (s.DOCUMENTS, *s.OF_DOCUMENTS):
            self.table(name).optimize(cleanup_older_than=timedelta(days=36500))
        leaf = self.table(s.LEAF)
        if not _has_index(leaf, "key"):
            self._index_text()
        for name, column in ((s.LEAF, "id"), (s.LEAF, "doc"), (s.SECTION, "id"), (s.DOCUMENTS, "id")):
            table = self.table(name)
            if not _has_index(table, column) and table.count_rows():
                table.create_index(column, config=BTree())
        if self.manifest.dimension and leaf.count_rows() >= VECTOR_INDEX_ROWS and not _has_index(leaf, "vector"):
            leaf.create_index("vector", config=IvfRq(distance_type="dot", num_bits=4))

    def drop_old_versions(self) -> None:
        for table in self._tables.values():
            table.optimize(cleanup_older_than=KEPT)

    def drop_orphans(self) -> None:
        if not self.manifest.tables:
            return
        numbers = scan(self.table(s.DOCUMENTS), ["_number"], None)["_number"]
        for name in s.OF_DOCUMENTS:
            table = self.table(name)
            docs = pa.chunked_array([scan(table, ["doc"], None)["doc"].unique()])
            orphans = set(docs.to_pylist()) - set(numbers.to_pylist())
            if orphans:
                table.delete(f"doc in ({sql_numbers(orphans)})")

    def commit(self) -> None:
        versions = {name: table.version for name, table in self._tables.items()}
        committed = replace(self.manifest, tables={**self.manifest.tables, **versions})
        write_manifest(self.directory, committed)
        self.manifest = committed


def _fragments(table: Table) -> int:
    statistics: Any = table.stats()
    return int(statistics["fragment_stats"]["num_fragments"])


def _has_index(table: Table, column: str) -> bool:
    return any(index.columns == [column] for index in table.list_indices())
