"""One change of an index on LanceDB: rows written and deleted, search indexes and mapped files brought up to date."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from mergewise.errors import StoreError
from mergewise.store import documents as d
from mergewise.store.damage import tells_full_disk
from mergewise.store.lance_reader import LanceReader
from mergewise.store.lance_state import new_schema, specs_of, sql_strings
from mergewise.store.manifest import Manifest, Run, ViewState, holds, with_run, without_span
from mergewise.store.mapped import IntArray, Mapped, MappingWriter, files_of
from mergewise.store.numbers import sql_numbers
from mergewise.store.places.place import ManifestState, Place, Stamp, WritingRight
from mergewise.store.places.steps import SteppedTable
from mergewise.store.tables import NUMBER, PlacedRows, Table, arrow_table, embedded_rows, ids_used
from mergewise.store.views import Registry
from mergewise.text.terms import STOP_WORDS
from mergewise.types import DocumentRows, Failure, Metadata, Origin

if TYPE_CHECKING:
    from lancedb.table import Table as LanceTable

log = logging.getLogger("mergewise")

# Rows that a text search goes through without an index before the index is brought up to date, or a thousandth of the rows where
# that is more: its cost grows with all of them (docs/log.md).
FEW_ROWS, MANY_FRAGMENTS = 128, 64
# of an index of vectors, which gets one whenever it is brought up to date, before it is made anew
MANY_PARTS = 16
# times the rows that a vector index was trained on, from which it is trained anew
GROWN = 8
# of a change for which two attempts found no room on the disk
LAST_ATTEMPT = 3
# ids whose rows are in memory at once while they are written to mapped files
MAPPED_IDS = 20_000
# Rows without vectors that are put into one fragment of a table: LanceDB writes whole fragments when vectors come.
FRAGMENT_ROWS = 4096
# Words by Unicode's rules, so that scripts without spaces are searched too. With this tokenizer the built-in stop words
# are those of all languages at once, "cat" and "dog" among them: ours take their place.
TEXT_TOKENIZER = "icu/split"
_WORDS_AS_THEY_STAND: Mapping[str, Any] = {
    "base_tokenizer": "whitespace",
    "lower_case": False,
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
    "with_position": False,
}
_ADDRESS = "_rowid"
# after which tables are opened anew for writing
CHANGES = 50


@dataclass(frozen=True, slots=True)
class OpenTables:
    """What a change leaves open for the next one: tables at the versions that it committed, and which writings of these they are.

    LanceDB keeps what it has read of older versions with them. So they are opened anew after so many `changes`.
    """

    manifest: Manifest | None = None
    tables: Mapping[str, tuple[LanceTable, Stamp]] = field(default_factory=dict)
    changes: int = 0

    def untouched_tables(self, place: Place, state: ManifestState, writer: WritingRight) -> dict[str, LanceTable]:
        """The tables that nobody else has written to since."""
        if self.manifest != state.manifest or self.changes >= CHANGES:
            return {}
        return {
            name: table
            for name, (table, stamp) in self.tables.items()
            if place.is_untouched(name, state.manifest.tables[name], stamp, writer)
        }


class Change:
    """One change, under the writer's lock. Nothing of it is visible before `commit`."""

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
        self.manifest = self._standing = state.manifest
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
        # by a change that is over
        self.left_open = OpenTables()
        self._changes = left.changes + 1 if self._tables else 0
        # the first ids that the vector indexes do not have, where they were brought up to date
        self._indexed: dict[str, int] = {}
        for name in self.manifest.tables if writer.took_over else ():
            self.table(name)

    def table(self, name: str) -> LanceTable:
        # it may be changed now
        self.left_open = OpenTables()
        if name not in self._tables:
            stepped: Any = SteppedTable(self._open_for_writing(name), self.place)
            self._tables[name] = stepped
        return self._tables[name]

    def _open_for_writing(self, name: str) -> LanceTable:
        named = self.manifest.tables.get(name)
        if named is None:
            created: LanceTable = self.place.create_table(name, new_schema(name, self.specs, self.manifest.dimension))
            return created
        self.place.check_own_files(name, named)
        table: LanceTable = self.place.database().open_table(name)
        # Going back is a fence, too: what a writer that was given up has open can change the table no more.
        if table.version != named or self._writer.took_over:
            log.info("going back to version %d of %s: a writer was interrupted", named, name)
            table.checkout(named)
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
        """Leave out the tables of views that are to be made again, and give the documents whose rows have to be.

        A view beside the first one is built from what is whole, like one that is added. Without the first one nothing
        is: then all of them go, and every document is made anew.
        """
        first = next(iter(self.manifest.views))
        gone = list(self.manifest.views) if first in views else list(views)
        names = {table.name for view in gone for table in self.tables_of(view)}
        for view in gone if first not in views else ():
            self.set_view(view, self.manifest.views[view].settings, ((0, self.manifest.next_number),))
        now = self.manifest
        self.manifest = replace(
            now,
            tables=_without(now.tables, names),
            mapped=_without(now.mapped, names),
            trained=_without(now.trained, names),
            unembedded=_without(now.unembedded, names),
        )
        for name in names:
            self._writer.check()
            self.place.drop_table(name)
        self.commit()
        self.reader = LanceReader(self.place, self.manifest, self.registry)
        return self.reader.ids() if first in views else []

    def drop_search_indexes(self, names: Sequence[str]) -> None:
        """Of these tables. They are made anew with `build_indexes`."""
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

    def delete(self, view: str, numbers: Sequence[int]) -> None:
        """The rows of the documents with these numbers."""
        for table in self.tables_of(view):
            opened = self.table(table.name)
            if table.name in self.manifest.tables:
                opened.delete(f"{NUMBER} in ({sql_numbers(numbers)})")

    def set_origins(self, origins: Mapping[str, Origin]) -> None:
        """Write down where documents that stand were read from."""
        self._set_columns({doc_id: d.origin_columns(origin) for doc_id, origin in origins.items()})

    def describe(self, metadata: Mapping[str, Metadata]) -> None:
        """Give documents that stand metadata beside their own. Raises StoreError where they cannot be stored."""
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
        self._set_columns(values)

    def declare_metadata(self, kinds: Mapping[str, type]) -> None:
        """Give the table of documents the columns that metadata of these types need."""
        documents = self.table(d.DOCUMENTS)
        known = d.metadata_kinds(documents.schema)
        added = [d.metadata_field(name, kind) for name, kind in kinds.items() if name not in known]
        if added:
            documents.add_columns(added)

    def _set_columns(self, values: Mapping[str, Mapping[str, object]]) -> None:
        """Give documents that stand, by their ids, these values of columns."""
        if not values:
            return
        documents = self.table(d.DOCUMENTS)
        condition = f"id in ({sql_strings(values)})"
        rows = _scan(documents, None, condition).to_pylist()
        documents.delete(condition)
        documents.add(pa.Table.from_pylist([{**row, **values[row["id"]]} for row in rows], documents.schema))

    def storable(self, rows: Sequence[DocumentRows]) -> tuple[list[DocumentRows], list[Failure]]:
        """The rows that can be stored; the table of documents gets the columns that their metadata needs."""
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
        """Rows of documents that stand, with the number and the first leaf of each."""
        placed: dict[str, list[PlacedRows]] = defaultdict(list)
        for number, first_id, row in rows:
            self._place(view, number, first_id, row, placed)
        self._add(placed)

    def _place(
        self, view: str, number: int, first_id: int, row: DocumentRows, placed: Mapping[str, list[PlacedRows]]
    ) -> None:
        """Give the rows of one view the next range of ids."""
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
                # empty in the rows that stand: none of them is written again
                opened.add_columns([pa.field(words, pa.string())])
            lacking = bool(self.manifest.dimension) and any(p.lacks_vectors(table) for p in rows)
            if lacking:
                _let_vectors_be_missing(opened, table)
            fresh = arrow_table(table, rows, opened.schema)
            at_once = FRAGMENT_ROWS if lacking else max(1, len(fresh))
            for first in range(0, max(1, len(fresh)), at_once):
                opened.add(fresh.slice(first, at_once))
            self._index_texts(name)

    def embed(self, name: str, ids: Sequence[int], columns: Mapping[str, Any]) -> int:
        """Give rows that wait for them their vectors, and say how many rows. `ids` are in order, and are all between the first
        and the last of them that wait."""
        runs = self.manifest.unembedded.get(name, ())
        waiting = [at for at, row in enumerate(ids) if holds(runs, row)]
        if not waiting:
            return 0
        from lancedb.index import BTree

        opened, table = self.table(name), self.specs[name].table
        schema = pa.schema([field for field in opened.schema if field.name == "id" or field.name in columns])
        rows = embedded_rows(table, ids, columns, schema).take(waiting)
        # rows that the index lacks are looked for by reading all of them, with their vectors
        _index(opened, "id", BTree(), anew=True)
        updated = cast(SteppedTable, opened).updating("id", rows)
        left = without_span(runs, ids[0], ids[-1] + 1)
        self.manifest = replace(self.manifest, unembedded={**self.manifest.unembedded, name: left})
        return updated

    # -- search indexes and mapped files

    def behind(self) -> list[str]:
        """The tables to which so much has come since they were last brought up to date that questions pay for it."""
        return [name for name in (d.DOCUMENTS, *self.specs) if self._stands(name) and self._is_behind(name)]

    def _stands(self, name: str) -> bool:
        """Whether there is such a table: one that this change has made is in no manifest yet."""
        return name in self.manifest.tables or name in self._tables

    def _is_behind(self, name: str) -> bool:
        opened = self.table(name)
        texts, keys = (
            max((_rows_outside(opened, column) for column in columns), default=0)
            for columns in (self._searched(name), self._keys(name))
        )
        if name in self.manifest.unembedded:
            # fragments are not joined, and text indexes are made anew
            return texts > _many_rows(opened)
        if texts > _few_rows(opened) or keys > _many_rows(opened):
            return True
        parts = max((_parts(opened, column) for column in self._vectors(name)), default=0)
        return _fragments(opened) > MANY_FRAGMENTS + parts

    def _searched(self, name: str) -> list[str]:
        """Return the columns of a table that full text searches."""
        if name == d.DOCUMENTS:
            return []
        present, table = self.table(name).schema.names, self.specs[name].table
        return [column for column in (table.text, table.words) if column is not None and column in present]

    def _keys(self, name: str) -> tuple[str, ...]:
        return ("id",) if name == d.DOCUMENTS else self.specs[name].table.keys

    def _vectors(self, name: str) -> list[str]:
        """The columns of a table that have a search index of vectors, or are to get one."""
        if name == d.DOCUMENTS or name in self.manifest.unembedded:
            return []
        opened, table = self.table(name), self.specs[name].table
        if not any(column in opened.schema.names for column in table.vectors):
            return []
        return list(table.vectors) if opened.count_rows() >= table.vector_index_rows else []

    def bring_up_to_date(self) -> bool:
        """The search indexes and mapped files, where questions pay for what has come since. Whether anything was to do."""
        behind = self.behind()
        self.build_indexes(behind)
        return self.map_rows(behind) or bool(behind)

    def build_indexes(self, names: Sequence[str] | None = None) -> None:
        """Full text, vectors (where there are enough) and keys, of these tables or of all: made once, then brought up to date."""
        for name in (d.DOCUMENTS, *self.specs) if names is None else names:
            if self._stands(name):
                self._bring_up_to_date(name)

    def _bring_up_to_date(self, name: str) -> None:
        from lancedb.index import BTree

        opened = self.table(name)
        vectors = self._vectors(name)
        if name in self.manifest.unembedded:
            # joined fragments would be written anew with every few vectors that come
            self._index_texts(name, anew=True)
        else:
            for column in vectors:
                if _parts(opened, column) >= MANY_PARTS:
                    # made anew below: until then nothing keeps fragments from being joined
                    opened.drop_index(f"{column}_idx")
            opened.optimize(cleanup_older_than=timedelta(days=36500))
            self._index_texts(name)
        for column in self._keys(name):
            _index(opened, column, BTree())
        for column in vectors:
            self._index_vectors(opened, column)
        if vectors and not any(_rows_outside(opened, column) for column in vectors):
            self._indexed[name] = self.manifest.next_id

    def _index_texts(self, name: str, *, anew: bool = False) -> None:
        """Full text of what has no index of it yet; or `anew` where many rows are outside of it."""
        from lancedb.index import FTS

        for column in self._searched(name):
            is_text = column == self.specs[name].table.text
            text = FTS(base_tokenizer=TEXT_TOKENIZER, custom_stop_words=sorted(STOP_WORDS))
            _index(self.table(name), column, text if is_text else FTS(**_WORDS_AS_THEY_STAND), anew=anew)

    def _index_vectors(self, table: LanceTable, column: str) -> None:
        """Made once, and anew where the rows have become so many that its partitions are too large."""
        from lancedb.index import IvfRq

        name, rows = f"{table.name}.{column}", table.count_rows()
        stands = _has_index(table, column)
        if not stands or rows >= GROWN * self.manifest.trained.get(name, rows):
            table.create_index(column, config=IvfRq(distance_type="dot", num_bits=4), replace=True)
        elif name in self.manifest.trained:
            return
        self.manifest = replace(self.manifest, trained={**self.manifest.trained, name: rows})

    def map_rows(self, compacted: Sequence[str] | None = None) -> bool:
        """Write the rows that came since the last time to mapped files. Whether there were any.

        Compacting moves rows, so that all addresses of `compacted` tables, without which all are meant, are then written anew.
        Files that cannot be written are done without: rows are then read from the table. At the first attempt a full disk is an
        error, at the last one nothing is mapped.
        """
        if self._attempt == LAST_ATTEMPT:
            return False
        before = dict(self.manifest.mapped)
        mapped = dict(before)
        for name, spec in self.specs.items():
            if not spec.table.mapped or not self._stands(name):
                continue
            moved = compacted is None or name in compacted
            try:
                written = self._write_files(name, Mapped.of(before.get(name)), moved)
            except OSError as error:
                if self._attempt == 1 and tells_full_disk(error):
                    raise
                log.warning("rows of %s are not mapped, which makes questions slower: %s", name, error)
                # the room that begun files take may be what a commit needs
                self.place.drop_unnamed(files_of(self._standing.mapped) | files_of(mapped))
                if moved:
                    # its addresses are those of before
                    mapped.pop(name, None)
                continue
            if written is not None:
                mapped[name] = written.as_dict()
        self.manifest = replace(self.manifest, mapped=mapped)
        return mapped != before

    def _write_files(self, name: str, mapped: Mapped, compacted: bool) -> Mapped | None:
        table = self.table(name)
        # a row that is mapped never changes: one that waits for vectors will
        waiting = self.manifest.unembedded.get(name, ())
        end = waiting[0][0] if waiting else self.manifest.next_id
        if not compacted and end <= mapped.end:
            return None
        below = f" and id < {end}" if waiting else ""
        # words are searched, never read
        columns = [column for column in table.schema.names if column != self.specs[name].table.words]
        few = not compacted and end - mapped.end <= MAPPED_IDS
        condition = f"id >= {0 if compacted else mapped.end}{below}"
        rows = _scan(table, columns if few else ["id"], condition, with_row_id=True)
        addresses, ids = rows[_ADDRESS].to_numpy().astype(np.int64), rows["id"].to_numpy()
        fresh = np.sort(ids[ids >= mapped.end])
        written = mapped
        if len(fresh):
            parts = [rows.drop_columns([_ADDRESS]).sort_by("id")] if few else self._sorted_rows(table, columns, fresh)
            written = MappingWriter(self.place, name, mapped).with_rows(parts, lambda: self._living)
        if compacted or len(fresh):
            kept = Mapped(written.segments, end=written.end) if compacted else written
            written = MappingWriter(self.place, name, kept).with_addresses(addresses, ids)
        return replace(written, end=max(end, written.end), indexed=self._indexed.get(name, mapped.indexed))

    def _sorted_rows(self, table: LanceTable, columns: Sequence[str], ids: IntArray) -> Iterator[pa.Table]:
        """By the ids that there are: the manifest may say anything about those to come."""
        for first in range(0, len(ids), MAPPED_IDS):
            some = ids[first : first + MAPPED_IDS]
            yield _scan(table, columns, f"id >= {some[0]} and id <= {some[-1]}").sort_by("id")

    @cached_property
    def _living(self) -> IntArray:
        """The numbers of the documents that stand, sorted. To be asked for once documents have come and gone."""
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
        """Let ids and document numbers begin behind all that are taken."""
        next_id, next_number = LanceReader(self.place, self.manifest, self.registry).first_free()
        now = self.manifest
        self.manifest = replace(now, next_id=max(now.next_id, next_id), next_number=max(now.next_number, next_number))

    def commit(self) -> None:
        """Replace the manifest, unless nothing has changed."""
        versions = {name: table.version for name, table in self._tables.items()}
        committed = replace(self.manifest, tables={**self.manifest.tables, **versions})
        if committed != self._standing:
            for file in files_of(committed.mapped) - files_of(self._standing.mapped):
                self.place.publish(file)
            self._tag = self.place.swap(committed, self._tag, self._writer)
        self.manifest = self._standing = committed
        stamped = ((name, table, self.place.stamp(name, versions[name])) for name, table in self._tables.items())
        tables = {name: (table, stamp) for name, table, stamp in stamped if stamp is not None}
        self.left_open = OpenTables(committed, tables, self._changes)


def _without(of_tables: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Leave out tables, and columns of them, which are named TABLE.COLUMN."""
    return {name: of for name, of in of_tables.items() if name.partition(".")[0] not in names}


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
    """The rows that the search index of a column does not have."""
    stats = table.index_stats(f"{column}_idx")
    return int(table.count_rows() if stats is None else stats.num_unindexed_rows)


def _few_rows(table: LanceTable) -> int:
    return max(FEW_ROWS, table.count_rows() // 1000)


def _many_rows(table: LanceTable) -> int:
    return max(8 * FEW_ROWS, table.count_rows() // 16)


def _parts(table: LanceTable, column: str) -> int:
    """The parts of the search index of a column, each of which a search goes through."""
    stats = table.index_stats(f"{column}_idx")
    return 0 if stats is None else int(stats.num_indices or 1)


def _fragments(table: LanceTable) -> int:
    statistics: Any = table.stats()
    return int(statistics["fragment_stats"]["num_fragments"])


def _has_index(table: LanceTable, column: str) -> bool:
    return any(index.columns == [column] for index in table.list_indices())


def _index(table: LanceTable, column: str, config: Any, *, anew: bool = False) -> None:
    """What has no index of the column yet; or `anew` where many rows are outside of it."""
    is_due = not _has_index(table, column) or (anew and _rows_outside(table, column) > _many_rows(table))
    if is_due and table.count_rows():
        table.create_index(column, config=config, replace=True)


def _let_vectors_be_missing(opened: LanceTable, table: Table) -> None:
    """For a table that an older mergewise made."""
    firm = [column for column in table.vectors if not opened.schema.field(column).nullable]
    changes: list[Any] = [{"path": column, "nullable": True} for column in firm]
    if changes:
        opened.alter_columns(*changes)
