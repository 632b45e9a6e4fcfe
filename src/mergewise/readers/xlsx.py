"""XLSX: the visible sheets of a workbook, each a heading with its rows as units. Formulas give their last result."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import chain
from typing import Any

from mergewise.errors import ReadError
from mergewise.readers.archive import office_properties
from mergewise.readers.builder import Builder, Parsed
from mergewise.readers.table import MAX_CELLS, MAX_ROWS, write_rows

_PERCENT = re.compile(r"0(?:\.(0+))?%")
_DEFAULT_NAME = re.compile(r"(?:Sheet|Tabelle|Feuil|Hoja|Foglio|Planilha|Лист|シート)\s?\d*", re.IGNORECASE)
_MAX_SHEETS = 1_000
# rows of a sheet, empty rows included
_MAX_GRID = 3 * MAX_ROWS


@dataclass(slots=True)
class CellCount:
    """Number of read cells of a workbook, empty cells included: a row may be wide, a sheet listed twice."""

    cells: int = 0

    def add(self, row: Sequence[Any]) -> None:
        self.cells += len(row) + 1
        if self.cells > MAX_CELLS:
            raise ReadError(f"a workbook of more than {MAX_CELLS // 1_000_000} million cells: split it")


def read_xlsx(data: bytes) -> Parsed:
    from openpyxl import load_workbook

    title, metadata = office_properties(data, "XLSX", "xl/workbook.xml", "an Excel workbook")
    builder = Builder()
    # openpyxl warns about features that are lost only when it writes the file
    with (
        warnings.catch_warnings(action="ignore"),
        closing(load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)) as workbook,
    ):
        # two names may share one part, which is one sheet
        parts = {getattr(sheet, "_worksheet_path", sheet.title): sheet for sheet in reversed(workbook.worksheets)}
        sheets = [sheet for sheet in reversed(parts.values()) if sheet.sheet_state == "visible"]
        if len(sheets) > _MAX_SHEETS:
            raise ReadError(f"more than {_MAX_SHEETS} sheets: split it")
        count = CellCount()
        for sheet in sheets:
            # the size that a sheet declares may be wrong
            sheet.reset_dimensions()
            rows = _rows(sheet, count)
            first = next(rows, None)
            if first is not None:
                builder.heading(1, sheet.title if len(sheets) > 1 or not _DEFAULT_NAME.fullmatch(sheet.title) else "")
                write_rows(chain([first], rows), builder)
    return builder.build(title, metadata, headed=False)


def _rows(sheet: Any, count: CellCount) -> Iterator[list[str]]:
    for number, row in enumerate(sheet.iter_rows(), start=1):
        if number > _MAX_GRID:
            raise ReadError(f"a sheet of more than {_MAX_GRID} rows: split it")
        count.add(row)
        texts = [_text(cell) for cell in row]
        if any(texts):
            yield texts


def _text(cell: Any) -> str:
    value = cell.value
    if value is None or (isinstance(value, str) and cell.data_type == "e"):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat(" ", "minutes") if value.time() != time() else value.date().isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, int | float):
        if match := _PERCENT.fullmatch(cell.number_format or ""):
            return f"{100 * value:.{len(match[1] or '')}f}%"
        return f"{value:.15g}" if isinstance(value, float) else str(value)
    return str(value)
