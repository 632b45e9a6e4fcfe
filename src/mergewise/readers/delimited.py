"""CSV and TSV: each row a unit with the names of its columns. The delimiter is found by what divides the rows most evenly."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator

from mergewise.errors import ReadError
from mergewise.readers.builder import Builder, Parsed
from mergewise.readers.decoding import decode
from mergewise.readers.table import write_rows

_DELIMITERS = ",;\t|"
_SAMPLE_LINES = 60
# The limit of the csv module, a setting of the whole process, stays as it is.
_MAX_FIELD = 131_072


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
    write_rows(_rows(text, delimiter), builder)
    return builder.build()


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=delimiter != "\t")
    try:
        yield from reader
    except csv.Error as error:
        reason = f"a field of more than {_MAX_FIELD} characters: a quotation mark is not closed"
        raise ReadError(f"line {reader.line_num}: {reason if 'limit' in str(error) else error}") from error


def _delimiter(text: str) -> str:
    """The delimiter that gives most rows the same number of fields, and more than one; a comma where none does."""
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
