"""The store of a question set's rows, in a run folder or in memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.compute as pc

from mergewise.errors import UsageError
from mergewise.evaluate.runs.digests import digest
from mergewise.evaluate.runs.lines import RowLines
from mergewise.evaluate.runs.run_folder import LINES, ROWS_FILE, existing_table, line_tables, rows_of
from mergewise.evaluate.runs.run_row import RowKey, RunRow
from mergewise.evaluate.runs.run_schema import ROWS
from mergewise.extend import find_untrusted_entry


@dataclass(slots=True)
class RowStore:
    """The rows of one set by key. A failed row is known, but not in the store: it is computed again."""

    known: dict[RowKey, RunRow] = field(default_factory=dict)
    lines: RowLines | None = None

    def __contains__(self, key: RowKey) -> bool:
        return key in self.known and not self.known[key].error

    def add(self, rows: Sequence[RunRow]) -> None:
        """Add computed rows, and write them to disk if the store has a file."""
        if self.lines is not None and rows:
            self.lines.add([row.as_dict() for row in rows])
        self.known.update((row.key, row) for row in rows)


def open_store(folder: Path, set_name: str, part: str = "") -> RowStore:
    """Open the store of a set in a run folder. New rows are written to a separate file for each `part`.

    Raises:
        UsageError: if a folder holds an invalid row, or an entry that is not a regular file.
    """
    store = RowStore()
    for row in _set_rows(folder, set_name):
        if row.key not in store:
            store.known[row.key] = row
    store.lines = RowLines(folder / LINES / f"{_file_stem(set_name)}{part}.jsonl")
    return store


def _set_rows(folder: Path, set_name: str) -> Iterator[RunRow]:
    if not folder.is_dir():
        return
    try:
        strange = find_untrusted_entry(folder)
    except OSError as error:
        raise UsageError(f"cannot read {folder}: {error.strerror}", "name another folder") from None
    if strange is not None:
        raise UsageError(f"invalid file in a run folder: {strange} (expected a regular file)", "name another folder")
    try:
        table = existing_table(folder / ROWS_FILE, ROWS)
        yield from rows_of(table.filter(pc.equal(table["set"], set_name)))
        for table in line_tables(folder, f"{_file_stem(set_name)}*.jsonl"):
            yield from rows_of(table)
    except (TypeError, LookupError, ValueError) as error:
        raise UsageError(f"invalid row in {folder}: {error}", "delete the folder, or name another one") from None


def _file_stem(set_name: str) -> str:
    """Return a readable file name that is unique for each set."""
    return f"{re.sub(r'[^A-Za-z0-9_=-]+', '-', set_name)[:80]}.{digest(set_name)}"
