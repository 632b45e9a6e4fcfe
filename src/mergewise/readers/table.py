"""Tables: rows of data become units, tables of documents become plain grids.

A row of data is one unit, `Header: value; Header: value`. Rows before the header, such as a report's title, are paragraphs. Empty
cells are left out. A row too long for one unit is split, and each part begins with the row's first cell. In a grid, the text of
a merged cell is in its top left field; its other fields are empty.

The delimiter of a CSV file is the one that divides its rows most evenly.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest

from mergewise.errors import ReadError
from mergewise.readers.builder import Builder, Parsed, one_line, whole_number
from mergewise.readers.decoding import decode

MAX_ROWS = 200_000
MAX_CELLS = 10_000_000
MAX_CHARACTERS = 100_000_000
# Characters of a unit. A longer unit has too many topics to be found by one of them.
MAX_UNIT = 1_200
# rows to search for the header
_SAMPLE = 50
# Columns of a grid. A colspan of a million is an attack or an accident.
_MAX_COLUMNS = 200
_MAX_NAME = 80
_NUMBER = re.compile(
    r"[-+(]?[$€£¥]?\s?\d[\d.,' ]*\s?[%€$£)]?|\d{4}-\d\d-\d\d.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}|true|false", re.I
)
_DELIMITERS = ",;\t|"
_SAMPLE_LINES = 60
# The limit of the csv module. It is a setting of the whole process, so it stays unchanged.
_MAX_FIELD = 131_072

Row = Sequence[str]


def write_rows(rows: Iterable[Row], builder: Builder) -> None:
    """Append a table of texts. Raises ReadError above `MAX_ROWS` rows or `MAX_CELLS` cells."""
    bounded = _tidy_rows(rows)
    sample = list(islice(bounded, _SAMPLE))
    first = _header_row(sample)
    for row in sample[: first or 0]:
        builder.paragraph(" ".join(filter(None, row)))
    header = [] if first is None else sample[first]
    for row in chain(sample[0 if first is None else first + 1 :], bounded):
        for text in _units(header, row):
            builder.unit(text)
        refuse_long(builder.length)


def refuse_long(length: int) -> None:
    if length > MAX_CHARACTERS:
        raise ReadError(f"more than {MAX_CHARACTERS // 1_000_000} million characters of text: split it")


def _tidy_rows(rows: Iterable[Row]) -> Iterator[list[str]]:
    """Yield non-empty rows with tidy cells and without trailing empty cells."""
    cells = kept = 0
    for row in rows:
        cells += len(row) + 1
        line = [one_line(cell) for cell in row]
        while line and not line[-1]:
            line.pop()
        kept += bool(line)
        if kept > MAX_ROWS:
            raise ReadError(f"a table of more than {MAX_ROWS} rows: split it")
        if cells > MAX_CELLS:
            raise ReadError(f"a table of more than {MAX_CELLS // 1_000_000} million cells: split it")
        if line:
            yield line


def _header_row(sample: Sequence[Sequence[str]]) -> int | None:
    """Return the row of the column names, or None if the first full row is data."""
    widths = Counter(len(row) for row in sample if len(row) > 1)
    if not widths or len(sample) < 2:
        return None
    usual = max(widths, key=lambda width: (widths[width], width))
    first = next(i for i, row in enumerate(sample) if len(row) > 1 and 2 * sum(map(bool, row)) > usual)
    if first + 1 >= len(sample):
        return None
    names = [name for name in sample[first] if name]
    numbers = [name for name in names if _NUMBER.fullmatch(name)]
    # years, as in `Country, 2020, 2021`
    are_years = len(numbers) < len(names) and all(re.fullmatch(r"(?:19|20)\d\d", number) for number in numbers)
    if (numbers and not are_years) or len(set(names)) < len(names) or any(len(name) > _MAX_NAME for name in names):
        return None
    return first


def _units(header: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    named = zip_longest(header[: len(row)], row, fillvalue="")
    fields = [f"{name.rstrip(':')}: {value}" if name else value for name, value in named if value]
    if not fields:
        return
    line = fields[0]
    for field in fields[1:]:
        if len(line) + len(field) + 2 > MAX_UNIT and line != fields[0]:
            yield line
            line = fields[0] if len(fields[0]) < MAX_UNIT // 4 else ""
        line = f"{line}; {field}" if line else field
    yield line


# --- CSV and TSV ---------------------------------------------------------------------------------------------------


def read_csv(data: bytes) -> Parsed:
    text = decode(data)
    declared, _, rest = text.partition("\n")
    # Excel writes the delimiter in the first line
    if declared.lower().startswith("sep=") and len(declared.strip()) == 5:
        return _parse(rest, declared[4])
    return _parse(text, _delimiter(text))


def read_tsv(data: bytes) -> Parsed:
    text = decode(data)
    return _parse(text, "\t" if "\t" in text else _delimiter(text))


def _parse(text: str, delimiter: str) -> Parsed:
    builder = Builder()
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=delimiter != "\t")
    try:
        write_rows(reader, builder)
    except csv.Error as error:
        reason = f"a field of more than {_MAX_FIELD} characters: unclosed quotation mark"
        raise ReadError(f"line {reader.line_num}: {reason if 'limit' in str(error) else error}") from error
    return builder.build()


def _delimiter(text: str) -> str:
    """Return the delimiter that gives most rows the same number of fields, and more than one. The default is a comma."""
    lines = text.split("\n", _SAMPLE_LINES)[:_SAMPLE_LINES]
    return max(_DELIMITERS, key=lambda delimiter: _evenness(lines, delimiter))


def _evenness(lines: list[str], delimiter: str) -> tuple[float, int]:
    try:
        widths = [len(row) for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True) if row]
    except csv.Error:
        return 0.0, 0
    counts = Counter(width for width in widths if width > 1)
    rows, width = max(((rows, width) for width, rows in counts.items()), default=(0, 0))
    return rows / max(1, len(widths)), width


# --- grids --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    columns: int = 1
    rows: int = 1

    @classmethod
    def of(cls, text: str, columns: str | None, rows: str | None) -> Cell:
        """Create a cell from its spans as the file spells them. Invalid spans count as 1."""
        return cls(text, _count(columns), _count(rows))


def _count(value: str | None) -> int:
    return max(1, min(whole_number(value or "", 1), _MAX_COLUMNS))


def fill_grid(rows: Sequence[Sequence[Cell]]) -> list[list[str]]:
    """Return the texts of `rows` as a grid. Covered fields of merged cells are empty strings."""
    grid: list[list[str]] = []
    # maps each column to the number of rows that a cell above still covers
    hanging: dict[int, int] = {}
    for row in rows:
        line: list[str] = []
        for cell in row:
            _cover(line, hanging)
            if len(line) > _MAX_COLUMNS:
                break
            for column in range(len(line), len(line) + cell.columns):
                hanging[column] = cell.rows - 1
            line += [cell.text, *[""] * (cell.columns - 1)]
        _cover(line, hanging)
        grid.append(line)
    return grid


def _cover(line: list[str], hanging: dict[int, int]) -> None:
    while len(line) <= _MAX_COLUMNS and hanging.get(len(line), 0) > 0:
        hanging[len(line)] -= 1
        line.append("")
