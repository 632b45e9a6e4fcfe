"""XLSX: the visible sheets of a workbook, each a heading with its rows as units.

Formulas give their last result, or their text if none is stored. Each row of a merged cell has its text. Percentages and leading
zeros appear as Excel shows them.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import partial
from itertools import chain, repeat
from typing import Any
from zipfile import ZipFile

from mergewise.errors import ReadError
from mergewise.readers.archive import office_properties
from mergewise.readers.builder import Builder, Parsed
from mergewise.readers.table import MAX_CELLS, write_rows

_DEFAULT_NAME = re.compile(r"(?:Sheet|Tabelle|Feuil|Hoja|Foglio|Planilha|Лист|シート)\s?\d*", re.IGNORECASE)
_MERGED = re.compile(rb'mergeCell\b[^>]*\bref="([A-Z]{1,3}\d{1,7}:[A-Z]{1,3}\d{1,7})"')
# a formula without a result
_BARE = re.compile(rb"<(?:\w+:)?f\b[^>]*(?:/>|>[^<]*</(?:\w+:)?f>)\s*(?:<(?:\w+:)?v\s*/>|<v></v>)?\s*</(?:\w+:)?c>")
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
# colours, widths and quoted texts of a number format
_DECORATION = re.compile(r"\[[^\]]*\]|_.|\*.|\"[^\"]*\"|\\")
_MAX_SHEETS = 1_000
# rows of a sheet of Excel
_MAX_GRID = 1_048_576


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
    load = partial(load_workbook, read_only=True, keep_links=False)
    # openpyxl warns about features that are lost only when it writes the file
    with (
        warnings.catch_warnings(action="ignore"),
        ZipFile(io.BytesIO(data)) as archive,
        closing(load(io.BytesIO(data), data_only=True)) as workbook,
    ):
        # two names may share one part, which is one sheet
        parts = {getattr(sheet, "_worksheet_path", sheet.title): sheet for sheet in reversed(workbook.worksheets)}
        sheets = [(path, sheet) for path, sheet in reversed(parts.items()) if sheet.sheet_state == "visible"]
        if len(sheets) > _MAX_SHEETS:
            raise ReadError(f"more than {_MAX_SHEETS} sheets: split it")
        count = CellCount()
        for path, sheet in sheets:
            # the size that a sheet declares may be wrong
            sheet.reset_dimensions()
            source = archive.read(path)
            formulas: Any = repeat(())
            if _BARE.search(source):
                other = load(io.BytesIO(data))[sheet.title]
                other.reset_dimensions()
                formulas = other.iter_rows()
            rows = _rows(sheet, formulas, _merged(source), count)
            first = next(filter(any, rows), None)
            if first is not None:
                builder.heading(1, sheet.title if len(sheets) > 1 or not _DEFAULT_NAME.fullmatch(sheet.title) else "")
                write_rows(chain([first], rows), builder)
    return builder.build(title, metadata, headed=False)


def _merged(source: bytes) -> dict[int, dict[int, int]]:
    """Map the first row of each merged cell to its first column, from 0, and its last row."""
    from openpyxl.utils import range_boundaries

    merged: dict[int, dict[int, int]] = {}
    for match in _MERGED.finditer(source):
        column, first, _, last = range_boundaries(match[1].decode())
        merged.setdefault(first, {})[column - 1] = last
    return merged


def _rows(
    sheet: Any, formulas: Iterator[Any], merged: dict[int, dict[int, int]], count: CellCount
) -> Iterator[list[str]]:
    # maps the columns of merged cells to their last row and their text
    hanging: dict[int, tuple[int, str]] = {}
    for number, (row, sources) in enumerate(zip(sheet.iter_rows(), formulas, strict=False), start=1):
        if number > _MAX_GRID:
            raise ReadError(f"a sheet of more than {_MAX_GRID} rows: split it")
        count.add(row)
        texts = [_text(cell) for cell in row]
        for at, cell in enumerate(sources):
            if cell.data_type == "f" and not texts[at]:
                texts[at] = str(getattr(cell.value, "text", cell.value))
        if any(texts):
            texts += [""] * (max(hanging, default=0) + 1 - len(texts))
            for column, (last, text) in hanging.items():
                if number <= last:
                    texts[column] = texts[column] or text
        hanging |= {
            column: (last, texts[column]) for column, last in merged.get(number, {}).items() if column < len(texts)
        }
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
    if isinstance(value, int | float):
        return _number(value, cell.number_format or "")
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), str(value))


def _number(value: float, number_format: str) -> str:
    """Return a number with the percent sign and the leading zeros of its format. Other formats do not matter."""
    if number_format != "General":
        form = _DECORATION.sub("", number_format).partition(";")[0]
        if form.strip("()").endswith("%"):
            return f"{100 * value:.{len(form.partition('.')[2].strip('%) '))}f}%"
        zeros = form.count("0")
        if zeros > 1 and not form.strip("0-/ ()") and value == int(value) and 0 <= value < 10**zeros:
            digits = iter(f"{int(value):0{zeros}}")
            return "".join(next(digits) if sign == "0" else sign for sign in form)
    return f"{value:.15g}" if isinstance(value, float) else str(value)
