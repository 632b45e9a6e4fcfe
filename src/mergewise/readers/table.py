"""Tables: rows of data become units, tables of documents become plain grids.

A row of data is one unit, `Header: value; Header: value`. Rows before the header, such as a report's title, are paragraphs. Empty
cells are left out. A row too long for one unit is split, and each part begins with the row's first cell. Below an empty row,
another table may begin, if its first row can only be a header. In a grid, the text of a merged cell is in each of its rows.

The delimiter of a CSV file is the one that divides its rows most evenly.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice, pairwise, zip_longest

from mergewise.errors import ReadError
from mergewise.readers.builder import Builder, Parsed, one_line, whole_number
from mergewise.readers.decoding import decode
from mergewise.types import frozen

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
# Years and dates, which may be names of columns.
_SERIES = re.compile(r"(?:19|20)\d\d|\d{4}-\d\d(?:-\d\d)?|\d{1,2}[./]\d{1,2}(?:[./]\d{2,4})?")
_DELIMITERS = ",;\t|"
_SAMPLE_LINES = 60
# The limit of the csv module. It is a setting of the whole process, so it stays unchanged.
_MAX_FIELD = 131_072

Row = Sequence[str]


def write_rows(rows: Iterable[Row], builder: Builder) -> None:
    """Append the tables of a sheet of texts. Raises ReadError above `MAX_ROWS` rows or `MAX_CELLS` cells."""
    header: list[str] = []
    # rows to read with the next block
    held: list[list[str]] = []
    # the columns of numbers of the table above, or none below a title
    numeric: set[int] | None = None
    for is_full, block in groupby(_tidy_rows(rows), bool):
        if not is_full:
            continue
        sample = [*held, *islice(block, _SAMPLE)]
        held = []
        if all(len(row) == 1 for row in sample) and (len(sample) == 1 or len(header) > 1):
            for row in chain(sample, block):
                builder.paragraph(row[0])
            numeric = None
            continue
        if len(sample) == 1 and not header:
            held = sample
            continue
        first = _header_row(sample)
        # other columns of numbers, or more columns, are another table
        if first is not None and (first or len(sample[0]) > len(header) or _numeric(sample[1:]) != numeric):
            above = first
            header = sample[first]
            if first and len(set(header)) < len(header) and sum(map(bool, sample[first - 1])) > 1:
                above, header = first - 1, _grouped(sample[first - 1], header)
            for row in sample[:above]:
                builder.paragraph(" ".join(filter(None, row)))
            sample = sample[first + 1 :]
        numeric = _numeric(sample)
        for row in chain(sample, block):
            for text in _units(header, row):
                builder.unit(text)
            refuse_long(builder.length)
    for text in (text for row in held for text in _units([], row)):
        builder.unit(text)


def refuse_long(length: int) -> None:
    if length > MAX_CHARACTERS:
        raise ReadError(f"more than {MAX_CHARACTERS // 1_000_000} million characters of text: split it")


def _tidy_rows(rows: Iterable[Row]) -> Iterator[list[str]]:
    """Yield rows with tidy cells and without trailing empty cells."""
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
        yield line


def _header_row(sample: Sequence[Sequence[str]]) -> int | None:
    """Return the row of the column names, or None if the first full row is data."""
    filled = [sum(map(bool, row)) for row in sample]
    counts = Counter(count for count in filled if count > 1)
    if not counts:
        return None
    usual = max(counts, key=lambda count: (counts[count], count))
    first = next(i for i, count in enumerate(filled) if count > 1 and 2 * count > usual)
    # below a comment, or below the names of groups of columns
    is_group = filled[first] < max(filled[first + 1 : first + 2], default=0)
    places = (first + 1, first) if sample[first][0].startswith("#") else (first, first + 1) if is_group else (first,)
    return next((at for at in places if _has_names(sample, at)), None)


def _has_names(sample: Sequence[Sequence[str]], first: int) -> bool:
    """Return true if a row can be the names of the columns of the rows below it."""
    below = sample[first + 1 :]
    names = [name for name in sample[first] if name] if below else []
    # a form has labels in its first column
    if not names or not _are_names(names) or (names[0][-1:] == ":" == below[0][0][-1:]):
        return False
    if not any(name and value for name, value in zip(sample[first], below[0], strict=False)):
        return False
    # the row below could be the names, too
    likely = len(names) < sum(map(bool, below[0])) or any(value[:1].isdigit() for value in below[0])
    if likely and any(name[0].isdigit() for name in names) and _are_names(below[0]):
        return False
    # a repeated name is none of the values, and a long one, such as a question, is longer than they are
    repeats = len(set(names)) < len(names)
    for name, column in zip(sample[first], zip_longest(*below, fillvalue=""), strict=False):
        if (repeats and name and name in column) or _MAX_NAME < len(name) <= max(map(len, column)):
            return False
    return not repeats or len(set(names)) > 1


def _are_names(texts: Sequence[str]) -> bool:
    """Return true for texts without numbers, and for years, dates and whole numbers in steps."""
    numbers = [text for text in texts if _NUMBER.fullmatch(text)]
    if not numbers or (len(numbers) < len(texts) and all(map(_SERIES.fullmatch, numbers))):
        return True
    if len(numbers) < 3 or not all(map(str.isdecimal, numbers)):
        return False
    return len({int(after) - int(before) for before, after in pairwise(numbers)}) == 1


def _numeric(rows: Sequence[Sequence[str]]) -> set[int]:
    """Return the columns with numbers in most of their cells."""
    columns = enumerate(zip_longest(*rows, fillvalue=""))
    return {i for i, cells in columns if 2 * sum(map(bool, map(_NUMBER.fullmatch, cells))) > sum(map(bool, cells))}


def _grouped(groups: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the names of columns below the names of groups of columns. A group ends where the next one begins."""
    found, group = [], ""
    for own, name in zip_longest(groups, names, fillvalue=""):
        group = own or group
        found.append(name if not name or name == group else f"{group} {name}".strip())
    return found


def _units(header: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    named = zip_longest(header[: len(row)], row, fillvalue="")
    return joined_fields(f"{name.rstrip(':')}: {value}" if name else value for name, value in named if value)


def joined_fields(fields: Iterable[str]) -> Iterator[str]:
    """Join fields into lines of up to a unit's length. Further lines begin with the first field, too, if it is short."""
    first = line = ""
    for field in fields:
        first = first or field
        if len(line) + len(field) + 2 > MAX_UNIT and line != first:
            yield line
            line = first if len(first) < MAX_UNIT // 4 else ""
        line = f"{line}{' ' if line.endswith(':') else '; '}{field}" if line else field
    yield from filter(None, [line])


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


@frozen
class Cell:
    """A cell of a table. One with 0 rows continues the cell above it."""

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
    """Return the texts of `rows` as a grid. Each row of a merged cell has its text, in the first column."""
    grid: list[list[str]] = []
    # maps each column to the number of rows that a cell above still covers, and to the cell's text
    hanging: dict[int, tuple[int, str]] = {}
    for row in rows:
        line: list[str] = []
        for cell in row:
            _cover(line, hanging)
            if len(line) > _MAX_COLUMNS:
                break
            above = grid[-1][len(line) : len(line) + 1] if grid and not cell.rows else []
            texts = [*(above or [cell.text]), *[""] * (cell.columns - 1)]
            for text in texts:
                hanging[len(line)] = cell.rows - 1, text if len(text) <= _MAX_NAME else ""
                line.append(text)
        _cover(line, hanging)
        grid.append(line)
    return grid


def _cover(line: list[str], hanging: dict[int, tuple[int, str]]) -> None:
    while len(line) <= _MAX_COLUMNS and (held := hanging.get(len(line), (0, "")))[0] > 0:
        hanging[len(line)] = held[0] - 1, held[1]
        line.append(held[1])
