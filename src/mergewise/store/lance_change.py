"""One change of an index on LanceDB: it writes and deletes rows, and updates search indexes and mapped files."""

from __future__ import annotations

from collections.abc import Sequence

from mergewise.store.lance_indexes import SearchIndexes, Upkeep
from mergewise.store.lance_mapping import MappedFiles
from mergewise.store.lance_reader import LanceReader
from mergewise.store.lance_rows import RowWriter
from mergewise.store.lance_tables import WritableTables


class Change:
    """One change, under the writer's lock. It is invisible before `tables.commit`."""

    def __init__(self, tables: WritableTables, upkeep: Upkeep, attempt: int) -> None:
        self.tables = tables
        self.indexes = SearchIndexes(tables, upkeep)
        self.rows = RowWriter(tables, self.indexes, upkeep)
        self.mapped = MappedFiles(tables, self.indexes, upkeep, attempt)

    def read_anew(self) -> None:
        """Open the present state again, without comparing files with their digests."""
        tables = self.tables
        tables.reader = LanceReader(tables.place, tables.manifest, tables.registry, compares=False)

    def bring_up_to_date(self) -> None:
        """Update search indexes and mapped files if new rows make queries slower."""
        behind = self.indexes.behind()
        self.indexes.build(behind)
        self.mapped.write(behind)

    def reset(self, views: Sequence[str]) -> list[str]:
        """Drop the tables of views, and return the ids of the documents that must be rebuilt.

        A later view is rebuilt from intact documents, like a new view. The other views depend on the first view, so dropping
        it drops all views, and every document must be rebuilt.
        """
        first = next(iter(self.tables.manifest.views))
        gone = list(self.tables.manifest.views) if first in views else list(views)
        names = {table.name for view in gone for table in self.tables.of_view(view)}
        for view in gone if first not in views else ():
            self.tables.set_view(
                view, self.tables.manifest.views[view].settings, ((0, self.tables.manifest.next_number),)
            )
        self.tables.drop(names)
        self.tables.commit()
        self.read_anew()
        return self.tables.reader.ids() if first in views else []
