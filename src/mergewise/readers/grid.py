"""Tables with merged cells as plain grids: the text of a merged cell stands in its top left field, the others are empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MAX_COLUMNS = 200  # a colspan of a million is an attack or an accident


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    columns: int = 1
    rows: int = 1

    @classmethod
    def of(cls, text: str, columns: str | None, rows: str | None) -> Cell:
        """A cell with its spans as a file spells them, which need not be numbers."""
        return cls(text, _count(columns), _count(rows))


def _count(value: str | None) -> int:
    return max(1, min(int(value), _MAX_COLUMNS)) if value and value.isdecimal() else 1


def fill(rows: Sequence[Sequence[Cell]]) -> list[list[str]]:
    """The texts of `rows` as a grid, with empty strings in the other fields of merged cells."""
    grid: list[list[str]] = []
    hanging: dict[int, int] = {}  # by column, the rows that a cell from above still covers
    for row in rows:
        line: list[str] = []
        for cell in row:
            _cover(line, hanging)
            for column in range(len(line), len(line) + cell.columns):
                hanging[column] = cell.rows - 1
            line += [cell.text, *[""] * (cell.columns - 1)]
            if len(line) > _MAX_COLUMNS:
                break
        _cover(line, hanging)
        grid.append(line)
    return grid


def _cover(line: list[str], hanging: dict[int, int]) -> None:
    while hanging.get(len(line), 0) > 0:
        hanging[len(line)] -= 1
        line.append("")
