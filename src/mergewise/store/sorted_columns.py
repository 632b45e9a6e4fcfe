"""Columns of a whole table in memory, updated from one state of an index to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mergewise.store.numbers import DocumentNumbers
from mergewise.store.tables import NUMBER


@dataclass(frozen=True, slots=True)
class SortedColumns:
    """Numeric columns by name, sorted by the first column, then by the second. The document column is always included."""

    columns: Mapping[str, npt.NDArray[Any]]

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


def all_columns(columns: Sequence[str]) -> list[str]:
    """Return the columns and the document column, which tells which rows to drop."""
    return list(dict.fromkeys([*columns, NUMBER]))
