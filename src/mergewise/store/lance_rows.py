"""Rows of one change of an index on LanceDB: documents with their metadata, rows of views, and vectors that come later."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mergewise.errors import IndexBusy, StoreError
from mergewise.store import documents as d
from mergewise.store.lance_indexes import SearchIndexes, Upkeep
from mergewise.store.lance_tables import SteppedTable, WritableTables, scan_rows, without_names
from mergewise.store.manifest import holds, with_run, without_span
from mergewise.store.numbers import sql_numbers
from mergewise.store.snapshot import sql_strings
from mergewise.store.tables import NUMBER, PlacedRows, arrow_table, embedded_rows, ids_used, with_embedder
from mergewise.types import DocumentRows, Failure, Metadata, frozen

if TYPE_CHECKING:
    from lancedb.table import Table as LanceTable

_Placed: TypeAlias = defaultdict[str, list[PlacedRows]]
"""Rows with their ids, by table."""


@frozen
class RowWriter:
    """The rows of a change."""

    tables: WritableTables
    indexes: SearchIndexes
    upkeep: Upkeep

    @property
    def _documents(self) -> LanceTable:
        return self.tables.open(d.DOCUMENTS)

    def remove(self, doc_ids: Sequence[str]) -> None:
        if not doc_ids:
            return
        condition = f"id in ({sql_strings(doc_ids)})"
        numbers = scan_rows(self._documents, ["_number"], condition)["_number"].to_pylist()
        manifest = self.tables.manifest
        for name in self.tables.specs:
            opened = self.tables.open(name)
            if name in manifest.tables:
                opened.delete(f"{NUMBER} in ({sql_numbers(numbers)})")
        self._documents.delete(condition)
        self.tables.update(altered=tuple(doc_id for doc_id in manifest.altered if doc_id not in doc_ids))

    def describe(self, metadata: Mapping[str, Metadata]) -> None:
        """Add metadata to existing documents. Raise StoreError if it is invalid."""
        kinds = d.metadata_kinds(self._documents.schema)
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
        known = d.metadata_kinds(self._documents.schema)
        added = [pa.field(name, d.METADATA_TYPES[kind]) for name, kind in kinds.items() if name not in known]
        if added:
            self._documents.add_columns(added)

    def set_columns(self, values: Mapping[str, Mapping[str, object]]) -> None:
        """Set columns of existing documents, by id."""
        if not values:
            return
        documents, condition = self._documents, f"id in ({sql_strings(values)})"
        rows = scan_rows(documents, None, condition).to_pylist()
        documents.delete(condition)
        documents.add(pa.Table.from_pylist([{**row, **values[row["id"]]} for row in rows], documents.schema))

    def storable(self, rows: Sequence[DocumentRows]) -> tuple[list[DocumentRows], list[Failure]]:
        """Split rows into those with valid metadata and failures. Add the metadata columns to the documents table."""
        if not rows:
            return [], []
        kinds = d.metadata_kinds(self._documents.schema)
        good, failed = d.with_checked_metadata(rows, kinds)
        self.declare_metadata(kinds)
        return good, failed

    def append(self, rows: Sequence[DocumentRows]) -> None:
        if not rows:
            return
        tables, placed, numbered = self.tables, _Placed(list), []
        for row in rows:
            number, first_id = tables.manifest.next_number, tables.manifest.next_id
            numbered.append((number, first_id, row))
            for view, state in tables.manifest.views.items():
                if all(table.name in row.tables for table in tables.of_view(view)):
                    self._place(view, number, first_id, row, placed)
                else:
                    missing = with_run(state.missing, number, number + 1)
                    tables.set_view(view, state.settings, missing, offered=state.offered)
            tables.update(next_number=number + 1)
        documents = self._documents
        documents.add(d.document_table(numbered, next(iter(tables.specs)), documents.schema))
        self._add(placed)

    def append_view(self, view: str, rows: Sequence[tuple[int, int, DocumentRows]]) -> None:
        """Add rows of a view to existing documents, given with their numbers and first leaves."""
        placed = _Placed(list)
        for number, first_id, row in rows:
            self._place(view, number, first_id, row, placed)
        self._add(placed)

    def _place(self, view: str, number: int, first_id: int, row: DocumentRows, placed: _Placed) -> None:
        """Assign the next range of ids to the rows of one view."""
        manifest, tables = self.tables.manifest, self.tables.of_view(view)
        by = {"row": manifest.next_id, "leaf": first_id}
        end = by["row"] + ids_used(tables, row.tables)
        unembedded = dict(manifest.unembedded)
        for table in tables:
            rows = PlacedRows(number, row.tables[table.name], by)
            placed[table.name].append(rows)
            if manifest.dimension and rows.lacks_vectors(table):
                unembedded[table.name] = with_run(unembedded.get(table.name, ()), by["row"], end)
        self.tables.update(next_id=end, unembedded=unembedded)

    def _add(self, placed: _Placed) -> None:
        for name, rows in placed.items():
            opened, table = self.tables.open(name), self.tables.specs[name].table
            words = str(table.words)
            if words not in opened.schema.names and any(p.rows.columns.get(words) for p in rows):
                # the column is null in existing rows, so they need no rewrite
                opened.add_columns([pa.field(words, pa.string())])
            lacks_vectors = bool(self.tables.manifest.dimension) and any(p.lacks_vectors(table) for p in rows)
            if lacks_vectors:
                # an older mergewise created the table without missing vectors
                required = [column for column in table.vectors if not opened.schema.field(column).nullable]
                if required:
                    opened.alter_columns(*[{"path": column, "nullable": True} for column in required])  # type: ignore[arg-type]
            fresh = arrow_table(table, rows, opened.schema)
            step = self.upkeep.fragment_rows if lacks_vectors else max(1, len(fresh))
            for first in range(0, max(1, len(fresh)), step):
                opened.add(fresh.slice(first, step))
            self.indexes.index_texts(name)

    def embed(self, name: str, ids: Sequence[int], columns: Mapping[str, Any]) -> int:
        """Write the vectors of rows without them. Return the number of rows.

        `ids` are sorted, and include all rows without vectors between the first and the last id.
        """
        unembedded = self.tables.manifest.unembedded
        runs = unembedded.get(name, ())
        waiting = [at for at, row in enumerate(ids) if holds(runs, row)]
        if not waiting:
            return 0
        from lancedb.index import BTree

        opened = self.tables.open(name)
        schema = pa.schema([field for field in opened.schema if field.name == "id" or field.name in columns])
        rows = embedded_rows(self.tables.specs[name].table, ids, columns, schema).take(waiting)
        # index the ids first, because LanceDB finds unindexed rows by reading all of them with their vectors
        self.indexes.index(opened, "id", BTree(), rebuild=True)
        updated = cast(SteppedTable, opened).updating("id", rows)
        self.tables.update(unembedded={**unembedded, name: without_span(runs, ids[0], ids[-1] + 1)})
        return updated

    def replace_vectors(self, embedder: str, dimension: int, vectors: Mapping[str, pa.Table]) -> None:
        """Replace the vectors of tables by those of another embedder, given with ids. Other views with vectors are made anew.

        Raise IndexBusy if a row has no new vector.
        """
        tables = self.tables
        tables.update(embedder=embedder, dimension=dimension, unembedded={})
        for name, new in vectors.items():
            if not tables.exists(name):
                continue
            opened, table = tables.open(name), tables.specs[name].table
            for index in opened.list_indices():
                if index.columns[0] in table.computed:
                    opened.drop_index(index.name)
            if made := [column for column in table.computed if column in opened.schema.names]:
                opened.drop_columns(made)
            if added := [with_embedder(one, embedder) for one in table.schema(dimension) if one.name in table.computed]:
                opened.add_columns(added)
            ids = np.sort(scan_rows(opened, ["id"], None)["id"].to_numpy())
            # rows are written anew, so that no file keeps the vectors before
            for first in range(0, len(ids), self.upkeep.mapped_ids):
                some = ids[first : first + self.upkeep.mapped_ids]
                condition = f"id >= {some[0]} and id <= {some[-1]}"
                rows = scan_rows(opened, None, condition).sort_by("id")
                places = pc.index_in(rows["id"], new["id"].combine_chunks())
                if places.null_count:
                    raise IndexBusy(f"{tables.place} has new rows", "try again")
                for column in new.column_names[1:]:
                    rows = rows.set_column(rows.schema.get_field_index(column), column, new[column].take(places))
                opened.delete(condition)
                opened.add(rows)
            tables.update(
                mapped=without_names(tables.manifest.mapped, {name}),
                trained=without_names(tables.manifest.trained, {name}),
            )
        own = {spec.view for name, spec in tables.specs.items() if spec.table.vectors and name not in vectors}
        for view in own:
            tables.forget({table.name for table in tables.of_view(view)})
            tables.set_view(view, tables.manifest.views[view].settings, ((0, tables.manifest.next_number),))

    def drop_orphans(self) -> None:
        named = self.tables.manifest.tables
        if not named:
            return
        numbers = set(scan_rows(self._documents, ["_number"], None)["_number"].to_pylist())
        for name in [name for name in self.tables.specs if name in named]:
            table = self.tables.open(name)
            orphans = set(pc.unique(scan_rows(table, [NUMBER], None)[NUMBER]).to_pylist()) - numbers
            if orphans:
                table.delete(f"{NUMBER} in ({sql_numbers(orphans)})")
