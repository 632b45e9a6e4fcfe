"""One change of an index on LanceDB: it writes and deletes rows, and updates search indexes and mapped files."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from mergewise.errors import StoreError
from mergewise.store import documents as d
from mergewise.store.damage import tells_full_disk
from mergewise.store.digests import digests_of
from mergewise.store.lance_reader import LanceReader
from mergewise.store.lance_state import new_schema, specs_of, sql_strings
from mergewise.store.manifest import Manifest, Run, ViewState, holds, with_run, without_span
from mergewise.store.mapped import FOLDER, IntArray, Mapped, MappingWriter, files_of
from mergewise.store.numbers import sql_numbers
from mergewise.store.places.place import ManifestState, Place, Stamp, WritingRight
from mergewise.store.places.steps import SteppedTable
from mergewise.store.postings import MAX_ROWS, make_postings
from mergewise.store.tables import NUMBER, PlacedRows, Table, arrow_table, embedded_rows, ids_used, with_record
from mergewise.store.text_scores import text_index, text_terms
from mergewise.store.views import Registry
from mergewise.types import DocumentRows, Failure, Metadata

if TYPE_CHECKING:
    from lancedb.table import Table as LanceTable

log = logging.getLogger("mergewise")

# Number of unindexed rows from which a text index is updated, or a thousandth of all rows if that is more, because the cost of an
# update grows with all rows (archive/log.md). And the number of fragments from which they are compacted.
FEW_ROWS, MANY_FRAGMENTS = 128, 64
# number of parts from which a vector index is rebuilt: each update adds one
MANY_PARTS = 16
# a vector index is trained again when its table has grown by this factor
GROWN = 8
# the last attempt of a change, after two attempts filled the disk
LAST_ATTEMPT = 3
# number of rows in memory at once while mapped files are written
MAPPED_IDS = 20_000
# Number of rows without vectors in one fragment: LanceDB rewrites whole fragments when vectors are added.
FRAGMENT_ROWS = 4096
_PLAIN_WORDS: Mapping[str, Any] = {
    "base_tokenizer": "whitespace",
    "lower_case": False,
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
    "with_position": False,
}
_ADDRESS = "_rowid"
# number of changes after which tables are opened again for writing
CHANGES = 50


@dataclass(frozen=True, slots=True)
class OpenTables:
    """Tables that a change leaves open for the next one, at the committed versions and with their stamps.

    LanceDB's caches of older versions grow with them, so they are opened again after `CHANGES` changes.
    """

    manifest: Manifest | None = None
    tables: Mapping[str, tuple[LanceTable, Stamp]] = field(default_factory=dict)
    changes: int = 0

    def untouched_tables(self, place: Place, state: ManifestState, writer: WritingRight) -> dict[str, LanceTable]:
        """Return the tables that nobody else has written to since."""
        if self.manifest != state.manifest or self.changes >= CHANGES:
            return {}
        return {
            name: table
            for name, (table, stamp) in self.tables.items()
            if place.is_untouched(name, state.manifest.tables[name], stamp, writer)
        }


class Change:
    """One change, under the writer's lock. It is invisible before `commit`."""

    def __init__(
        self,
        place: Place,
        state: ManifestState,
        registry: Registry,
        writer: WritingRight,
        before: LanceReader | None = None,
        attempt: int = 1,
        left: OpenTables | None = None,
    ) -> None:
        self.place = place
        self.manifest = self._committed = state.manifest
        self._tag = state.tag
        self._writer = writer
        self.registry = registry
        self._attempt = attempt
        self.specs = specs_of(self.manifest, registry)
        if before is None or before.manifest != self.manifest:
            before = LanceReader(place, self.manifest, registry, before)
        self.reader = before
        left = left or OpenTables()
        self._tables = left.untouched_tables(place, state, writer)
        # set by `commit` for the next change
        self.left_open = OpenTables()
        self._changes = left.changes + 1 if self._tables else 0
        # the first id that the updated vector indexes of a table lack
        self._indexed: dict[str, int] = {}
        for name in self.manifest.tables if writer.took_over else ():
            self.table(name)

    def table(self, name: str) -> LanceTable:
        # the caller may change the table
        self.left_open = OpenTables()
        if name not in self._tables:
            stepped: Any = SteppedTable(self._open_for_writing(name), self.place)
            self._tables[name] = stepped
        return self._tables[name]

    def _open_for_writing(self, name: str) -> LanceTable:
        version = self.manifest.tables.get(name)
        if version is None:
            view = self.specs[name].view if name in self.specs else None
            record = {} if view is None else {"view": view, "settings": self.manifest.views[view].settings}
            schema = new_schema(name, self.specs, self.manifest.dimension)
            created: LanceTable = self.place.create_table(
                name, with_record(schema, {"embedder": self.manifest.embedder, **record})
            )
            return created
        self.place.check_own_files(name, version)
        table: LanceTable = self.place.database().open_table(name)
        # restoring a version also fences off a writer that lost its lease: it can no longer change the table
        if table.version != version or self._writer.took_over:
            log.info("restoring version %d of %s: a writer was interrupted", version, name)
            table.checkout(version)
            table.restore()
        return table

    def set_view(
        self, view: str, settings: Mapping[str, Any], missing: Sequence[Run], *, offered: bool = False
    ) -> None:
        missing = tuple((first, end) for first, end in missing if first < end)
        state = ViewState(settings, missing, offered or not missing)
        self.manifest = replace(self.manifest, views={**self.manifest.views, view: state})
        self.specs = specs_of(self.manifest, self.registry)

    def reset(self, views: Sequence[str]) -> list[str]:
        """Drop the tables of views, and return the ids of the documents that must be rebuilt.

        A later view is rebuilt from intact documents, like a new view. The other views depend on the first view, so dropping
        it drops all views, and every document must be rebuilt.
        """
        first = next(iter(self.manifest.views))
        gone = list(self.manifest.views) if first in views else list(views)
        names = {table.name for view in gone for table in self.tables_of(view)}
        for view in gone if first not in views else ():
            self.set_view(view, self.manifest.views[view].settings, ((0, self.manifest.next_number),))
        self._forget_tables(names)
        for name in names:
            self._writer.check()
            self.place.drop_table(name)
        self.commit()
        self.reader = LanceReader(self.place, self.manifest, self.registry, compares=False)
        return self.reader.ids() if first in views else []

    def remove_view(self, view: str) -> None:
        """Remove a view, unless the index lacks it. Cleaning deletes the files, which readers of earlier states may need."""
        self._forget_tables({table.name for table in self.tables_of(view)})
        self.manifest = replace(self.manifest, views=_without(self.manifest.views, {view}))
        self.specs = specs_of(self.manifest, self.registry)

    def _forget_tables(self, names: Collection[str]) -> None:
        of_tables = ("tables", "mapped", "trained", "unembedded")
        left: dict[str, Any] = {name: _without(getattr(self.manifest, name), names) for name in of_tables}
        self.manifest = replace(self.manifest, **left)
        self._tables = _without(self._tables, names)

    def drop_search_indexes(self, names: Sequence[str]) -> None:
        """Drop the search indexes of tables. `build_indexes` builds them again."""
        for name in names:
            table = self.table(name)
            for index in table.list_indices():
                table.drop_index(index.name)
        self.manifest = replace(self.manifest, trained=_without(self.manifest.trained, names))

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
        altered = tuple(doc_id for doc_id in self.manifest.altered if doc_id not in doc_ids)
        self.manifest = replace(self.manifest, altered=altered)

    def delete(self, view: str, numbers: Sequence[int]) -> None:
        """Delete a view's rows of the documents with these numbers."""
        for table in self.tables_of(view):
            opened = self.table(table.name)
            if table.name in self.manifest.tables:
                opened.delete(f"{NUMBER} in ({sql_numbers(numbers)})")

    def describe(self, metadata: Mapping[str, Metadata]) -> None:
        """Add metadata to existing documents. Raise StoreError if it is invalid."""
        documents = self.table(d.DOCUMENTS)
        kinds = d.metadata_kinds(documents.schema)
        values: dict[str, Metadata] = {}
        for doc_id, given in metadata.items():
            try:
                values[doc_id] = d.storable_metadata(given, kinds)
            except ValueError as error:
                raise StoreError(str(error), "give other metadata") from None
            kinds |= {name: type(value) for name, value in values[doc_id].items()}
        self.declare_metadata(kinds)
        self.set_columns(values)

    def declare_metadata(self, kinds: Mapping[str, type]) -> None:
        """Add the columns for metadata keys of these types to the documents table."""
        documents = self.table(d.DOCUMENTS)
        known = d.metadata_kinds(documents.schema)
        added = [d.metadata_field(name, kind) for name, kind in kinds.items() if name not in known]
        if added:
            documents.add_columns(added)

    def set_columns(self, values: Mapping[str, Mapping[str, object]]) -> None:
        """Set columns of existing documents, by id."""
        if not values:
            return
        documents = self.table(d.DOCUMENTS)
        condition = f"id in ({sql_strings(values)})"
        rows = _scan(documents, None, condition).to_pylist()
        documents.delete(condition)
        documents.add(pa.Table.from_pylist([{**row, **values[row["id"]]} for row in rows], documents.schema))

    def storable(self, rows: Sequence[DocumentRows]) -> tuple[list[DocumentRows], list[Failure]]:
        """Split rows into those with valid metadata and failures. Add the metadata columns to the documents table."""
        if not rows:
            return [], []
        kinds = d.metadata_kinds(self.table(d.DOCUMENTS).schema)
        good, failed = d.with_checked_metadata(rows, kinds)
        self.declare_metadata(kinds)
        return good, failed

    def append(self, rows: Sequence[DocumentRows]) -> None:
        if not rows:
            return
        placed: dict[str, list[PlacedRows]] = defaultdict(list)
        numbered = []
        for row in rows:
            number, first_id = self.manifest.next_number, self.manifest.next_id
            numbered.append((number, first_id, row))
            for view, state in self.manifest.views.items():
                if all(table.name in row.tables for table in self.tables_of(view)):
                    self._place(view, number, first_id, row, placed)
                else:
                    missing = with_run(state.missing, number, number + 1)
                    self.set_view(view, state.settings, missing, offered=state.offered)
            self.manifest = replace(self.manifest, next_number=number + 1)
        documents = self.table(d.DOCUMENTS)
        documents.add(d.document_table(numbered, next(iter(self.specs)), documents.schema))
        self._add(placed)

    def append_view(self, view: str, rows: Sequence[tuple[int, int, DocumentRows]]) -> None:
        """Add rows of a view to existing documents, given with their numbers and first leaves."""
        placed: dict[str, list[PlacedRows]] = defaultdict(list)
        for number, first_id, row in rows:
            self._place(view, number, first_id, row, placed)
        self._add(placed)

    def _place(
        self, view: str, number: int, first_id: int, row: DocumentRows, placed: Mapping[str, list[PlacedRows]]
    ) -> None:
        """Assign the next range of ids to the rows of one view."""
        by = {"row": self.manifest.next_id, "leaf": first_id}
        tables = self.tables_of(view)
        end = by["row"] + ids_used(tables, row.tables)
        unembedded = dict(self.manifest.unembedded)
        for table in tables:
            rows = PlacedRows(number, row.tables[table.name], by)
            placed[table.name].append(rows)
            if self.manifest.dimension and rows.lacks_vectors(table):
                unembedded[table.name] = with_run(unembedded.get(table.name, ()), by["row"], end)
        self.manifest = replace(self.manifest, next_id=end, unembedded=unembedded)

    def _add(self, placed: Mapping[str, Sequence[PlacedRows]]) -> None:
        for name, rows in placed.items():
            opened, table = self.table(name), self.specs[name].table
            words = str(table.words)
            if words not in opened.schema.names and any(p.rows.columns.get(words) for p in rows):
                # the column is null in existing rows, so they need no rewrite
                opened.add_columns([pa.field(words, pa.string())])
            lacks_vectors = bool(self.manifest.dimension) and any(p.lacks_vectors(table) for p in rows)
            if lacks_vectors:
                _allow_missing_vectors(opened, table)
            fresh = arrow_table(table, rows, opened.schema)
            step = FRAGMENT_ROWS if lacks_vectors else max(1, len(fresh))
            for first in range(0, max(1, len(fresh)), step):
                opened.add(fresh.slice(first, step))
            self._index_texts(name)

    def embed(self, name: str, ids: Sequence[int], columns: Mapping[str, Any]) -> int:
        """Write the vectors of rows without them. Return the number of rows.

        `ids` are sorted, and include all rows without vectors between the first and the last id.
        """
        runs = self.manifest.unembedded.get(name, ())
        waiting = [at for at, row in enumerate(ids) if holds(runs, row)]
        if not waiting:
            return 0
        from lancedb.index import BTree

        opened, table = self.table(name), self.specs[name].table
        schema = pa.schema([field for field in opened.schema if field.name == "id" or field.name in columns])
        rows = embedded_rows(table, ids, columns, schema).take(waiting)
        # index the ids first, because LanceDB finds unindexed rows by reading all of them with their vectors
        _index(opened, "id", BTree(), rebuild=True)
        updated = cast(SteppedTable, opened).updating("id", rows)
        left = without_span(runs, ids[0], ids[-1] + 1)
        self.manifest = replace(self.manifest, unembedded={**self.manifest.unembedded, name: left})
        return updated

    # -- search indexes and mapped files

    def behind(self) -> list[str]:
        """Return the tables whose unindexed rows make queries slower."""
        return [name for name in (d.DOCUMENTS, *self.specs) if self._exists(name) and self._is_behind(name)]

    def _exists(self, name: str) -> bool:
        """Return whether a table exists. Tables that this change has created are not in the manifest yet."""
        return name in self.manifest.tables or name in self._tables

    def _is_behind(self, name: str) -> bool:
        opened = self.table(name)
        searched, keys, vectors = self._searched(name), self._keys(name), self._vectors(name)
        if _most_rows_outside(opened, keys) > _many_rows(opened):
            return True
        if name in self.manifest.unembedded:
            # fragments are not compacted here, and text indexes are rebuilt
            return _most_rows_outside(opened, searched) > _many_rows(opened)
        if _most_rows_outside(opened, [*searched, *vectors]) > _few_rows(opened):
            return True
        parts = max((_parts(opened, column) for column in vectors), default=0)
        return _fragments(opened) > MANY_FRAGMENTS + parts

    def _searched(self, name: str) -> list[str]:
        """Return the columns of a table that have, or need, a text index of LanceDB."""
        if name == d.DOCUMENTS:
            return []
        present, table = self.table(name).schema.names, self.specs[name].table
        text = None if self._text_of_postings(name) else table.text
        return [column for column in (text, table.words) if column is not None and column in present]

    def _keys(self, name: str) -> tuple[str, ...]:
        return ("id", "_source", "_number") if name == d.DOCUMENTS else self.specs[name].table.keys

    def _vectors(self, name: str) -> list[str]:
        """Return the columns of a table that have, or need, a vector index."""
        if name == d.DOCUMENTS or name in self.manifest.unembedded:
            return []
        opened, table = self.table(name), self.specs[name].table
        if not any(column in opened.schema.names for column in table.vectors):
            return []
        return list(table.vectors) if opened.count_rows() >= table.vector_index_rows else []

    def bring_up_to_date(self) -> bool:
        """Update search indexes and mapped files if new rows make queries slower. Return whether anything was updated."""
        behind = self.behind()
        self.build_indexes(behind)
        return self.map_rows(behind) or bool(behind)

    def build_indexes(self, names: Sequence[str] | None = None) -> None:
        """Build or update the search indexes of these tables, or of all: full text, keys, and vectors if there are enough."""
        for name in (d.DOCUMENTS, *self.specs) if names is None else names:
            if self._exists(name):
                self._update_indexes(name)

    def _update_indexes(self, name: str) -> None:
        from lancedb.index import BTree

        opened = self.table(name)
        vectors = self._vectors(name)
        if (text := self._text_of_postings(name)) and _has_index(opened, text):
            # an older mergewise built it, or the table was larger
            opened.drop_index(f"{text}_idx")
        # While rows wait for vectors, large fragments would be rewritten for every few new ones. So the table is not
        # compacted, and indexes that lack many rows are replaced.
        waits = name in self.manifest.unembedded
        if not waits:
            for column in vectors:
                if _parts(opened, column) >= MANY_PARTS:
                    # rebuilt below; without the index, compaction can join all fragments
                    opened.drop_index(f"{column}_idx")
            # so that no damage gets a new digest
            self.reader.compare_files(name, "data", "_deletions")
            opened.optimize(cleanup_older_than=timedelta(days=36500))
        self._index_texts(name, rebuild=waits)
        for column in self._keys(name):
            _index(opened, column, BTree(), rebuild=waits)
        for column in vectors:
            self._index_vectors(opened, column)
        if vectors and not any(_rows_outside(opened, column) for column in vectors):
            self._indexed[name] = self.manifest.next_id

    def _index_texts(self, name: str, *, rebuild: bool = False) -> None:
        """Build missing full text indexes. With `rebuild`, also replace indexes that lack many rows."""
        from lancedb.index import FTS

        for column in self._searched(name):
            is_text = column == self.specs[name].table.text
            _index(self.table(name), column, text_index() if is_text else FTS(**_PLAIN_WORDS), rebuild=rebuild)

    def _index_vectors(self, table: LanceTable, column: str) -> None:
        """Build a vector index. Rebuild it if the table has grown so much that the partitions are too large."""
        from lancedb.index import IvfRq

        name, rows = f"{table.name}.{column}", table.count_rows()
        exists = _has_index(table, column)
        if not exists or rows >= GROWN * self.manifest.trained.get(name, rows):
            table.create_index(column, config=IvfRq(distance_type="dot", num_bits=4), replace=True)
        elif name in self.manifest.trained:
            return
        self.manifest = replace(self.manifest, trained={**self.manifest.trained, name: rows})

    def map_rows(self, compacted: Sequence[str] | None = None) -> bool:
        """Write new rows to mapped files. Return whether anything changed.

        Compaction moves rows, so all addresses of `compacted` tables (default: all tables) are written again. If a file cannot
        be written, its rows are read from the table. A full disk is an error at the first attempt; the last attempt maps nothing.
        """
        if self._attempt == LAST_ATTEMPT:
            return False
        before = dict(self.manifest.mapped)
        mapped = dict(before)
        for name, spec in self.specs.items():
            if not spec.table.mapped or not self._exists(name):
                continue
            moved = compacted is None or name in compacted
            try:
                written = self._write_files(name, Mapped.of(before.get(name)), moved)
            except OSError as error:
                if self._attempt == 1 and tells_full_disk(error):
                    raise
                log.warning("cannot map rows of %s, queries are slower: %s", name, error)
                # drop unfinished files, because the commit may need the disk space
                self.place.drop_unnamed(files_of(self._committed.mapped) | files_of(mapped))
                if moved:
                    # the old addresses are wrong now
                    mapped.pop(name, None)
                continue
            if written is not None:
                mapped[name] = written.as_dict()
        self.manifest = replace(self.manifest, mapped=mapped)
        return mapped != before

    def _write_files(self, name: str, mapped: Mapped, compacted: bool) -> Mapped | None:
        table = self.table(name)
        # mapped rows must never change, so rows that wait for vectors are not mapped yet
        waiting = self.manifest.unembedded.get(name, ())
        end = waiting[0][0] if waiting else self.manifest.next_id
        text = self._text_of_postings(name)
        needs_postings = text is not None and mapped.posted < self.manifest.next_id
        if not compacted and end <= mapped.end and not needs_postings:
            return None
        below = f" and id < {end}" if waiting else ""
        # the `words` column is searched, but never read
        columns = [column for column in table.schema.names if column != self.specs[name].table.words]
        few = not compacted and end - mapped.end <= MAPPED_IDS
        condition = f"id >= {0 if compacted else mapped.end}{below}"
        rows = _scan(table, columns if few else ["id"], condition, with_row_id=True)
        addresses, ids = rows[_ADDRESS].to_numpy().astype(np.int64), rows["id"].to_numpy()
        fresh = np.sort(ids[ids >= mapped.end])
        written, parts = mapped, [rows.drop_columns([_ADDRESS]).sort_by("id")] if few else []
        if len(fresh):
            stored = parts or self._sorted_rows(table, columns, fresh)
            written = self._mapping_writer(name, mapped).with_rows(stored, lambda: self._document_numbers)
        if compacted or len(fresh):
            base = replace(written, addresses=()) if compacted else written
            written = self._mapping_writer(name, base).with_addresses(addresses, ids)
        if text is None:
            written = replace(written, postings=(), posted=0)
        elif needs_postings:
            has_all = mapped.posted == mapped.end and not waiting
            unposted = fresh if has_all else np.sort(_scan(table, ["id"], f"id >= {mapped.posted}")["id"].to_numpy())
            texts = parts if few and has_all else self._sorted_rows(table, ["id", NUMBER, text], unposted)
            if len(unposted):
                postings = (make_postings(part, text, text_terms) for part in texts)
                written = self._mapping_writer(name, written).with_postings(postings, lambda: self._document_numbers)
            written = replace(written, posted=self.manifest.next_id)
        return replace(written, end=max(end, written.end), indexed=self._indexed.get(name, mapped.indexed))

    def _mapping_writer(self, name: str, mapped: Mapped) -> MappingWriter:
        return MappingWriter(self.place, name, mapped, self.manifest.digests)

    def _text_of_postings(self, name: str) -> str | None:
        """Return the column of a table that gets postings instead of a text index."""
        table = self.specs[name].table if name in self.specs else None
        return table.text if table and table.mapped and self.table(name).count_rows() <= MAX_ROWS else None

    def _sorted_rows(self, table: LanceTable, columns: Sequence[str], ids: IntArray) -> Iterator[pa.Table]:
        """Yield the rows in blocks of sorted ids. Uses the stored ids, because the manifest's next id may be wrong."""
        for first in range(0, len(ids), MAPPED_IDS):
            some = ids[first : first + MAPPED_IDS]
            yield _scan(table, columns, f"id >= {some[0]} and id <= {some[-1]}").sort_by("id")

    @cached_property
    def _document_numbers(self) -> IntArray:
        """The sorted numbers of all documents. Read this only after all documents are added and removed."""
        return np.sort(_scan(self.table(d.DOCUMENTS), ["_number"], None)["_number"].to_numpy())

    def drop_orphans(self) -> None:
        if not self.manifest.tables:
            return
        numbers = set(_scan(self.table(d.DOCUMENTS), ["_number"], None)["_number"].to_pylist())
        for name in self.specs:
            if name not in self.manifest.tables:
                continue
            table = self.table(name)
            docs = pa.chunked_array([_scan(table, [NUMBER], None)[NUMBER].unique()])
            orphans = set(docs.to_pylist()) - numbers
            if orphans:
                table.delete(f"{NUMBER} in ({sql_numbers(orphans)})")

    def skip_taken_numbers(self) -> None:
        """Raise the next id and document number above all that are in use."""
        next_id, next_number = self.reader.first_free()
        now = self.manifest
        self.manifest = replace(now, next_id=max(now.next_id, next_id), next_number=max(now.next_number, next_number))

    def commit(self) -> None:
        """Replace the manifest, unless nothing has changed."""
        versions = {name: table.version for name, table in self._tables.items()}
        committed = replace(self.manifest, tables={**self.manifest.tables, **versions})
        if committed != self._committed:
            for file in files_of(committed.mapped) - files_of(self._committed.mapped):
                self.place.publish(file)
            mapped = {f"{FOLDER}/{file}" for file in files_of(committed.mapped)}
            digests = digests_of(self.place, committed, self._committed.tables, mapped)
            committed = replace(committed, digests=digests)
            self.place.compared |= digests.items() - self._committed.digests.items()
            self._tag = self.place.swap(committed, self._tag, self._writer)
        self.manifest = self._committed = committed
        stamped = ((name, table, self.place.stamp(name, versions[name])) for name, table in self._tables.items())
        tables = {name: (table, stamp) for name, table, stamp in stamped if stamp is not None}
        self.left_open = OpenTables(committed, tables, self._changes)


def _without(entries: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Drop the entries of tables or views. Keys are names or TABLE.COLUMN."""
    return {key: value for key, value in entries.items() if key.partition(".")[0] not in names}


def _scan(
    table: LanceTable, columns: Sequence[str] | None, condition: str | None, *, with_row_id: bool = False
) -> pa.Table:
    search = table.search().with_row_id(with_row_id)
    if columns is not None:
        search = search.select(list(columns))
    if condition is not None:
        search = search.where(condition)
    return search.to_arrow()


def _rows_outside(table: LanceTable, column: str) -> int:
    """Return the number of rows that the search index of a column lacks."""
    stats = table.index_stats(f"{column}_idx")
    return int(table.count_rows() if stats is None else stats.num_unindexed_rows)


def _most_rows_outside(table: LanceTable, columns: Iterable[str]) -> int:
    return max((_rows_outside(table, column) for column in columns), default=0)


def _few_rows(table: LanceTable) -> int:
    return max(FEW_ROWS, table.count_rows() // 1000)


def _many_rows(table: LanceTable) -> int:
    return max(8 * FEW_ROWS, table.count_rows() // 16)


def _parts(table: LanceTable, column: str) -> int:
    """Return the number of parts of a column's search index. A search reads all parts."""
    stats = table.index_stats(f"{column}_idx")
    return 0 if stats is None else int(stats.num_indices or 1)


def _fragments(table: LanceTable) -> int:
    statistics: Any = table.stats()
    return int(statistics["fragment_stats"]["num_fragments"])


def _has_index(table: LanceTable, column: str) -> bool:
    return any(index.columns == [column] for index in table.list_indices())


def _index(table: LanceTable, column: str, config: Any, *, rebuild: bool = False) -> None:
    """Build the index of a column if it is missing. With `rebuild`, also replace an index that lacks many rows."""
    is_due = not _has_index(table, column) or (rebuild and _rows_outside(table, column) > _many_rows(table))
    if is_due and table.count_rows():
        table.create_index(column, config=config, replace=True)


def _allow_missing_vectors(opened: LanceTable, table: Table) -> None:
    """Make vector columns nullable in a table that an older mergewise created."""
    required = [column for column in table.vectors if not opened.schema.field(column).nullable]
    changes: list[Any] = [{"path": column, "nullable": True} for column in required]
    if changes:
        opened.alter_columns(*changes)
