"""An index in a directory, on LanceDB.

LanceDB commits one table at a time, so the state of an index is its manifest, which names a version of each table and
is replaced last. A change works on the newest versions; if a writer was killed half way, the next one first goes back
to the versions that the manifest names. One process writes at a time, held by a file lock that dies with the process.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from filelock import FileLock, Timeout

from mergewise.errors import CorruptIndex, IndexBusy, StoreError, UsageError
from mergewise.store import schema as s
from mergewise.store.audit import audit
from mergewise.store.lance_reader import LanceReader, connect, scan, sql_numbers, sql_strings
from mergewise.store.manifest import Manifest, read_manifest, write_manifest
from mergewise.store.rows import moved_slices, placed, with_checked_metadata
from mergewise.text.terms import STOP_WORDS
from mergewise.types import AddReport, DocumentRows, Failure, Problem, SliceRows

if TYPE_CHECKING:
    from lancedb.table import Table

log = logging.getLogger("mergewise")

LOCK_SECONDS = 3600.0
VECTOR_INDEX_ROWS = 20_000  # below, an exact scan is as fast (benchmarks/vectors.py)
SLICE_INDEX_ROWS = 8_000  # for slices sooner: `macrag` has more to do after its search (benchmarks/slices.py)
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
            if change.manifest.slices is not None and any(r.slices is None for r in fresh):
                raise StoreError(f"{self.directory} got a slice view from another process", "open the index again")
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

    # -- the slice view

    def begin_slices(self, settings: Mapping[str, Any]) -> None:
        """From now on every document that is written brings its slice view; `missing_slices` are those that stand without."""
        with self._writing() as change:
            if change.manifest.slices is None:
                change.manifest = replace(change.manifest, slices=dict(settings))
                change.commit()

    def missing_slices(self) -> list[str]:
        """The documents without a slice view, in the order in which they were added; none once the view is whole."""
        manifest = self.manifest
        return [] if "slice" in manifest.views else self.reader().unsliced()

    def write_slices(self, rows: Sequence[tuple[str, str, SliceRows]]) -> None:
        """Slice views by document and digest. One whose document is gone, changed or served by now is left out."""
        with self._writing() as change:
            numbers = change.reader.numbers_of([doc_id for doc_id, _, _ in rows])
            lacking = set(change.reader.unsliced())
            good = []
            for doc_id, digest, own in rows:
                number, first_leaf, standing = numbers.get(doc_id, (0, 0, None))
                if standing == digest and doc_id in lacking:
                    good.append((number, moved_slices(own, change.manifest.next_id, first_leaf)))
                    taken = len(own.chunks) + len(own.slices)
                    change.manifest = replace(change.manifest, next_id=change.manifest.next_id + taken)
            if good:
                change.append_slices(good)
                change.commit()

    def finish_slices(self) -> bool:
        """Add the view to those that the index has, if every document has its slices."""
        with self._writing() as change:
            if change.reader.unsliced():
                return False
            views = tuple(dict.fromkeys((*change.manifest.views, "slice")))
            change.manifest = replace(change.manifest, views=views)
            change.build_indexes()
            change.commit()
            return True

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
                s.CHUNK: s.chunk_schema(self.manifest.dimension, (self.manifest.slices or {}).get("vectors", ())),
                s.SLICE: s.slice_schema(self.manifest.dimension),
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
        for name in self._owned():
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
            own, next_id = placed(row, self.manifest.next_id)
            numbered.append((self.manifest.next_number, own))
            self.manifest = replace(self.manifest, next_id=next_id, next_number=self.manifest.next_number + 1)
        documents.add(s.document_table(numbered, documents.schema))
        self.table(s.LEAF).add(s.leaf_table(numbered, self.manifest.dimension))
        self.table(s.SECTION).add(s.section_table(numbered))
        self.table(s.NAME).add(s.name_table(numbered))
        if not _has_index(self.table(s.LEAF), "key"):
            self._index_text(s.LEAF)
        if self.manifest.slices is not None:
            self.append_slices([(number, row.slices) for number, row in numbered if row.slices is not None])

    def append_slices(self, rows: Sequence[tuple[int, SliceRows]]) -> None:
        """Slice views of numbered documents, whose ids are final."""
        dimension, vectors = self.manifest.dimension, (self.manifest.slices or {})["vectors"]
        self.table(s.CHUNK).add(s.chunk_table(rows, dimension, vectors))
        self.table(s.SLICE).add(s.slice_table(rows, dimension))
        for name in self._searched():
            if not _has_index(self.table(name), "key"):
                self._index_text(name)

    def _searched(self) -> list[str]:
        """The tables whose text is searched."""
        if self.manifest.slices is None:
            return [s.LEAF]
        return [s.LEAF, s.SLICE, *([s.CHUNK] if set(self.manifest.slices["vectors"]) - {"slice"} else [])]

    def _owned(self) -> list[str]:
        """The tables whose rows belong to documents."""
        return [*s.OF_DOCUMENTS, *(s.OF_SLICES if self.manifest.slices is not None else ())]

    def _index_text(self, name: str) -> None:
        from lancedb.index import FTS

        config = FTS(base_tokenizer=TEXT_TOKENIZER, custom_stop_words=sorted(STOP_WORDS))
        self.table(name).create_index("key", config=config)

    def needs_indexing(self) -> bool:
        """Whether enough has come since the indexes were made; a few rows more are searched without them as quickly."""
        if not self.manifest.tables:
            return False
        return any(_is_behind(self.table(name)) for name in self._searched())

    def build_indexes(self) -> None:
        """Full text, vectors (where there are enough) and ids: made once, then brought up to date."""
        from lancedb.index import BTree, IvfRq

        if not self.manifest.tables:
            return
        for name in (s.DOCUMENTS, *self._owned()):
            self.table(name).optimize(cleanup_older_than=timedelta(days=36500))
        for name in self._searched():
            if not _has_index(self.table(name), "key"):
                self._index_text(name)
        keys = [(s.LEAF, "id"), (s.LEAF, "doc"), (s.SECTION, "id"), (s.DOCUMENTS, "id")]
        if self.manifest.slices is not None:
            keys += [(name, column) for name in s.OF_SLICES for column in ("id", "doc")]
        for name, column in keys:
            table = self.table(name)
            if not _has_index(table, column) and table.count_rows():
                table.create_index(column, config=BTree())
        for name, column in dict.fromkeys(s.VECTOR_COLUMNS.values()):
            if name not in (s.LEAF, *self._owned()) or column not in self.table(name).schema.names:
                continue
            enough = VECTOR_INDEX_ROWS if name == s.LEAF else SLICE_INDEX_ROWS
            if self.table(name).count_rows() >= enough and not _has_index(self.table(name), column):
                self.table(name).create_index(column, config=IvfRq(distance_type="dot", num_bits=4))

    def drop_old_versions(self) -> None:
        for table in self._tables.values():
            table.optimize(cleanup_older_than=KEPT)

    def drop_orphans(self) -> None:
        if not self.manifest.tables:
            return
        numbers = scan(self.table(s.DOCUMENTS), ["_number"], None)["_number"]
        for name in self._owned():
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


def _is_behind(table: Table) -> bool:
    stats = table.index_stats("key_idx")
    outside = table.count_rows() if stats is None else stats.num_unindexed_rows
    return outside > FEW_ROWS or _fragments(table) > MANY_FRAGMENTS


def _fragments(table: Table) -> int:
    statistics: Any = table.stats()
    return int(statistics["fragment_stats"]["num_fragments"])


def _has_index(table: Table, column: str) -> bool:
    return any(index.columns == [column] for index in table.list_indices())
