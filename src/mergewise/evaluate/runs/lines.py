"""The rows of an unfinished run on disk: files of JSON lines, one for each worker process.

The rows of a question are written at once and flushed to disk. A killed process may leave a truncated line. Readers skip that
line, and a resumed writer ends it before it appends. So a kill costs only the questions in progress.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Set
from contextlib import suppress
from pathlib import Path

from mergewise.errors import UsageError
from mergewise.extend import regular_bytes
from mergewise.types import Json, JsonDict

_LONGEST = 1 << 33
"""Maximum of bytes of a file."""
ROW_KEYS = frozenset("set question asked method spec budget repeat scores error".split())


class RowLines:
    """A file of rows that is appended to. Raises UsageError if the file cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            data = regular_bytes(path, _LONGEST) if os.path.lexists(path) else b""
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}", "name another folder") from None
        self._is_truncated = not data.endswith(b"\n") and bool(data)

    def add(self, rows: Iterable[Json]) -> None:
        """Append rows and flush them to disk. Raises UsageError if the write fails."""
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        data = (b"\n" if self._is_truncated else b"") + text.encode("utf-8", "replace")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
            try:
                while data:
                    data = data[os.write(handle, data) :]
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise UsageError(
                f"cannot write {self._path}: {error.strerror}", "free some disk space, and run the same command again"
            ) from None
        self._is_truncated = False


def known_lines(folder: Path, pattern: str = "*.jsonl", needed: Set[str] = ROW_KEYS) -> Iterator[JsonDict]:
    """Yield the JSON objects with the `needed` keys from all files of the folder, in the order of their names."""
    for path in sorted(folder.glob(pattern)):
        try:
            data = regular_bytes(path, _LONGEST)
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(f"cannot read {path}: {reason}", "delete it, or name another folder") from None
        yield from (row for line in data.splitlines() if (row := _row(line, needed)) is not None)


def _row(line: bytes, needed: Set[str]) -> JsonDict | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and row.keys() >= needed and isinstance(row.get("scores", {}), dict) else None


class RowCount:
    """A counter of the lines of a folder's files. Each call reads only new data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._lines = 0

    def __call__(self) -> int:
        for path in self._folder.glob("*.jsonl"):
            with suppress(OSError), path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                self._lines += file.read().count(b"\n")
                self._read[path] = file.tell()
        return self._lines
