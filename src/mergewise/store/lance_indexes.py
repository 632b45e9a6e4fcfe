"""Search indexes of one change of an index on LanceDB: full text, keys and vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from mergewise.store import documents as d
from mergewise.store.lance_tables import WritableTables, without_names
from mergewise.store.postings import MAX_ROWS
from mergewise.store.text_scores import text_index
from mergewise.types import frozen

if TYPE_CHECKING:
    from lancedb.table import Table as LanceTable

# the last attempt of a change, after two attempts filled the disk
LAST_ATTEMPT = 3


@frozen
class Upkeep:
    """Limits of the work that a change does for searches.

    Attributes:
        few_rows: Number of unindexed rows from which a text index is updated, or a thousandth of all rows if that is more,
            because the cost of an update grows with all rows.
        many_rows: The same for indexes that lack many rows, or a sixteenth of all rows.
        many_fragments: Number of fragments from which they are compacted.
        many_parts: Number of parts from which a vector index is rebuilt. Each update adds one.
        grown: A vector index is trained again when its table has grown by this factor.
        mapped_ids: Number of rows in memory at once while mapped files are written.
        fragment_rows: Number of rows without vectors in one fragment. LanceDB rewrites whole fragments when vectors are added.
        most_posted: Number of rows up to which a table has postings instead of a text index.
    """

    few_rows: int = 128
    many_rows: int = 1024
    many_fragments: int = 64
    many_parts: int = 16
    grown: int = 8
    mapped_ids: int = 20_000
    fragment_rows: int = 4096
    most_posted: int = MAX_ROWS


class SearchIndexes:
    """The search indexes of the tables of a change."""

    def __init__(self, tables: WritableTables, upkeep: Upkeep) -> None:
        self._tables, self._upkeep = tables, upkeep
        # the first id that the updated vector indexes of a table lack
        self.indexed: dict[str, int] = {}

    def drop(self, names: Sequence[str]) -> None:
        """Drop the search indexes of tables. `build` builds them again."""
        for name in names:
            table = self._tables.open(name)
            for index in table.list_indices():
                table.drop_index(index.name)
        self._tables.update(trained=without_names(self._tables.manifest.trained, names))

    def behind(self) -> list[str]:
        """Return the tables whose unindexed rows make queries slower."""
        names = []
        for name in (d.DOCUMENTS, *self._tables.specs):
            if not self._tables.exists(name):
                continue
            opened = self._tables.open(name)
            searched, keys, vectors = self._searched(name), self._keys(name), self._vectors(name)
            many = self._many_rows(opened)
            if name in self._tables.manifest.unembedded:
                # fragments are not compacted here, and text indexes are rebuilt
                is_behind = _most_rows_outside(opened, [*keys, *searched]) > many
            else:
                few = max(self._upkeep.few_rows, opened.count_rows() // 1000)
                statistics: Any = opened.stats()
                parts = max((_parts(opened, column) for column in vectors), default=0)
                is_behind = (
                    _most_rows_outside(opened, keys) > many
                    or _most_rows_outside(opened, [*searched, *vectors]) > few
                    or int(statistics["fragment_stats"]["num_fragments"]) > self._upkeep.many_fragments + parts
                )
            if is_behind:
                names.append(name)
        return names

    def _searched(self, name: str) -> list[str]:
        """Return the columns of a table that have, or need, a text index of LanceDB."""
        if name == d.DOCUMENTS:
            return []
        present, table = self._tables.open(name).schema.names, self._tables.specs[name].table
        text = None if self.text_of_postings(name) else table.text
        return [column for column in (text, table.words) if column is not None and column in present]

    def _keys(self, name: str) -> tuple[str, ...]:
        return ("id", "_source", "_number") if name == d.DOCUMENTS else self._tables.specs[name].table.keys

    def _vectors(self, name: str) -> list[str]:
        """Return the columns of a table that have, or need, a vector index."""
        if name == d.DOCUMENTS or name in self._tables.manifest.unembedded:
            return []
        opened, table = self._tables.open(name), self._tables.specs[name].table
        if not any(column in opened.schema.names for column in table.vectors):
            return []
        return list(table.vectors) if opened.count_rows() >= table.vector_index_rows else []

    def build(self, names: Sequence[str] | None = None) -> None:
        """Build or update the search indexes of these tables, or of all: full text, keys, and vectors if there are enough."""
        from lancedb.index import BTree, IvfRq

        for name in (d.DOCUMENTS, *self._tables.specs) if names is None else names:
            if not self._tables.exists(name):
                continue
            opened = self._tables.open(name)
            vectors = self._vectors(name)
            if (text := self.text_of_postings(name)) and _has_index(opened, text):
                # an older mergewise built it, or the table was larger
                opened.drop_index(f"{text}_idx")
            # While rows wait for vectors, large fragments would be rewritten for every few new ones. So the table is not
            # compacted, and indexes that lack many rows are replaced.
            waits = name in self._tables.manifest.unembedded
            if not waits:
                for column in vectors:
                    if _parts(opened, column) >= self._upkeep.many_parts:
                        # rebuilt below; without the index, compaction can join all fragments
                        opened.drop_index(f"{column}_idx")
                # so that no damage gets a new digest
                self._tables.reader.compare(name, "data", "_deletions")
                opened.optimize(cleanup_older_than=timedelta(days=36500))
            self.index_texts(name, rebuild=waits)
            for column in self._keys(name):
                self.index(opened, column, BTree(), rebuild=waits)
            for column in vectors:
                # rebuild an index if the table has grown so much that its partitions are too large
                key, rows, trained = f"{name}.{column}", opened.count_rows(), self._tables.manifest.trained
                if not _has_index(opened, column) or rows >= self._upkeep.grown * trained.get(key, rows):
                    opened.create_index(column, config=IvfRq(distance_type="dot", num_bits=4), replace=True)
                elif key in trained:
                    continue
                self._tables.update(trained={**trained, key: rows})
            if vectors and not any(_rows_outside(opened, column) for column in vectors):
                self.indexed[name] = self._tables.manifest.next_id

    def index_texts(self, name: str, *, rebuild: bool = False) -> None:
        """Build missing full text indexes. With `rebuild`, also replace indexes that lack many rows."""
        from lancedb.index import FTS

        plain_words = FTS(
            base_tokenizer="whitespace",
            lower_case=False,
            stem=False,
            remove_stop_words=False,
            ascii_folding=False,
            with_position=False,
        )
        for column in self._searched(name):
            config = FTS(**vars(text_index())) if column == self._tables.specs[name].table.text else plain_words
            self.index(self._tables.open(name), column, config, rebuild=rebuild)

    def text_of_postings(self, name: str) -> str | None:
        """Return the column of a table that gets postings instead of a text index."""
        table = self._tables.specs[name].table if name in self._tables.specs else None
        is_posted = table and table.mapped and self._tables.open(name).count_rows() <= self._upkeep.most_posted
        return table.text if table and is_posted else None

    def _many_rows(self, table: LanceTable) -> int:
        return max(self._upkeep.many_rows, table.count_rows() // 16)

    def index(self, table: LanceTable, column: str, config: Any, *, rebuild: bool = False) -> None:
        """Build the index of a column if it is missing. With `rebuild`, also replace an index that lacks many rows."""
        is_due = not _has_index(table, column) or (rebuild and _rows_outside(table, column) > self._many_rows(table))
        if is_due and table.count_rows():
            table.create_index(column, config=config, replace=True)


def _rows_outside(table: LanceTable, column: str) -> int:
    """Return the number of rows that the search index of a column lacks."""
    stats = table.index_stats(f"{column}_idx")
    return int(table.count_rows() if stats is None else stats.num_unindexed_rows)


def _most_rows_outside(table: LanceTable, columns: Iterable[str]) -> int:
    return max((_rows_outside(table, column) for column in columns), default=0)


def _parts(table: LanceTable, column: str) -> int:
    """Return the number of parts of a column's search index. A search reads all parts."""
    stats = table.index_stats(f"{column}_idx")
    return 0 if stats is None else int(stats.num_indices or 1)


def _has_index(table: LanceTable, column: str) -> bool:
    return any(index.columns == [column] for index in table.list_indices())
