"""Rows by id without a query: a copy of a table's rows as Arrow files, mapped into memory and sorted by id.

A row never changes once it has an id, so a file of rows stays right for ever: rows of documents that are gone are not asked
for, or are recognised by their document's number. The writer adds a file for what came since the last one; files of
similar size are joined. Rows that no file holds yet, or whose file is gone, are read from the table: the files only save time.

Searches answer with row addresses, which cost nothing to give. A file of addresses, sorted, says which ids they are. It
holds until the table is compacted, and is written anew then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import time
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mergewise.protocols import FloatArray
from mergewise.store.tables import NUMBER

log = logging.getLogger("mergewise")

FOLDER = "mapped"
MOST_BYTES = 1_000_000_000  # of a file: Arrow counts the bytes of a column in 32 bits
SIMILAR = 4  # a file is joined to the one before it unless that one is so many times as large

IntArray: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segment:
    """A file with `rows` rows whose ids are below `end`, and not below the `end` of the one before."""

    file: str
    rows: int
    end: int


@dataclass(frozen=True, slots=True)
class Mapped:
    """What the manifest keeps of one table's files."""

    segments: tuple[Segment, ...] = ()
    addresses: str | None = None

    @property
    def end(self) -> int:
        return self.segments[-1].end if self.segments else 0

    def as_dict(self) -> dict[str, Any]:
        return {"segments": [[s.file, s.rows, s.end] for s in self.segments], "addresses": self.addresses}

    @classmethod
    def of(cls, raw: Mapping[str, Any] | None) -> Mapped:
        if raw is None:
            return cls()
        return cls(tuple(Segment(*segment) for segment in raw["segments"]), raw["addresses"])

    @property
    def files(self) -> list[str]:
        return [*(s.file for s in self.segments), *([self.addresses] if self.addresses else [])]


class MappedRows:
    """The rows of one table in one state, as far as files hold them."""

    def __init__(self, directory: Path, mapping: Mapped) -> None:
        self._folder = directory / FOLDER
        self._mapping = mapping

    @cached_property
    def _segments(self) -> list[tuple[IntArray, pa.Table]]:
        """Ids and rows of each file. One that is gone is left out."""
        tables = (_open(self._folder / segment.file) for segment in self._mapping.segments)
        return [(table["id"].chunk(0).to_numpy(), table) for table in tables if table is not None and len(table)]

    @cached_property
    def addresses(self) -> tuple[IntArray, IntArray]:
        table = None if self._mapping.addresses is None else _open(self._folder / self._mapping.addresses)
        if table is None or not len(table):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return table["address"].chunk(0).to_numpy(), table["id"].chunk(0).to_numpy()

    def ids_at(self, addresses: IntArray) -> IntArray:
        """The ids of rows by address; -1 where no file knows."""
        known, ids = self.addresses
        return _looked_up(known, addresses, ids)

    def take(self, ids: IntArray, columns: Sequence[str]) -> Iterator[tuple[IntArray, pa.Table]]:
        """Rows by id, some from each file: where in `ids` they were asked for, and the columns that the file has."""
        for known, table in self._segments:
            at = _looked_up(known, ids, np.arange(len(known)))
            asked = np.flatnonzero(at >= 0)
            if len(asked):
                held = [column for column in columns if column in table.column_names]
                yield asked, table.select(held).take(pa.array(at[asked]))

    def vectors(self, ids: IntArray, column: str) -> Iterator[tuple[IntArray, FloatArray]]:
        """A column of vectors by id, some from each file: where in `ids` they were asked for, and the vectors."""
        for known, table in self._segments:
            if column in table.column_names:
                at = _looked_up(known, ids, np.arange(len(known)))
                asked = np.flatnonzero(at >= 0)
                if len(asked):
                    flat = table[column].chunk(0).flatten().to_numpy(zero_copy_only=True)
                    yield asked, flat.reshape(len(known), -1)[at[asked]].astype(np.float32)


def _looked_up(known: IntArray, wanted: IntArray, values: IntArray) -> IntArray:
    """The value at each wanted key of a sorted array; -1 where it is missing."""
    if not len(known):
        return np.full(len(wanted), -1, np.int64)
    at = np.searchsorted(known, wanted).clip(max=len(known) - 1)
    return np.where(known[at] == wanted, values[at], -1)


def _open(path: Path) -> pa.Table | None:
    try:
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        log.info("%s cannot be read (%s): its rows come from the table", path, error)
        return None


# -- writing


class MappingWriter:
    """Writes the files of one table. Nothing that a manifest names is ever written over."""

    def __init__(self, directory: Path, table: str, mapping: Mapped) -> None:
        self._folder = directory / FOLDER
        self._folder.mkdir(exist_ok=True)
        self._table = table
        self._mapping = mapping

    def with_rows(self, parts: Iterator[pa.Table], living: IntArray) -> Mapped:
        """The files, and new ones for these rows, which are sorted by id and come after all that the files hold.

        `living` are the numbers of the documents that stand, sorted: joined files hold rows of no other.
        """
        segments = list(self._mapping.segments)
        for part in parts:
            if len(part):
                segments.append(self._write(part))
            while len(segments) > 1 and segments[-1].rows * SIMILAR >= segments[-2].rows:
                joined = self._joined(segments[-2:], living)
                if joined is None:
                    break
                segments[-2:] = [joined]
        return Mapped(tuple(segments), self._mapping.addresses)

    def _joined(self, segments: Sequence[Segment], living: IntArray) -> Segment | None:
        """None where the joined file would be too large, or one cannot be read."""
        tables = [table for s in segments if (table := _open(self._folder / s.file)) is not None]
        if len(tables) < len(segments) or sum(table.nbytes for table in tables) > MOST_BYTES:
            return None
        whole = pa.concat_tables(tables)
        stands = _looked_up(living, whole[NUMBER].to_numpy(), living) >= 0
        return self._write(whole.filter(pa.array(stands)), segments[-1].end)

    def _write(self, rows: pa.Table, end: int | None = None) -> Segment:
        if end is None:
            end = int(rows["id"][-1].as_py()) + 1
        first = int(rows["id"][0].as_py()) if len(rows) else end
        return Segment(self._save(f"{self._table}-{first}-{end}", rows), len(rows), end)

    def with_addresses(self, addresses: IntArray, ids: IntArray) -> Mapped:
        order = np.argsort(addresses, kind="stable")
        table = pa.table({"address": addresses[order], "id": ids[order]})
        return Mapped(self._mapping.segments, self._save(f"{self._table}-addresses", table))

    def _save(self, name: str, table: pa.Table) -> str:
        """Under a name that was never used: a reader may still hold the file of an older state."""
        file = f"{name}-{time():.6f}.arrow"
        with pa.OSFile(str(self._folder / file), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table.combine_chunks())
        return file


def drop_unnamed(directory: Path, named: set[str], older_than: float) -> None:
    """Delete the files that no state names, once they are so many seconds old."""
    for path in (directory / FOLDER).glob("*.arrow"):
        try:
            if path.name not in named and time() - path.stat().st_mtime > older_than:
                path.unlink()
        except OSError:
            log.debug("%s cannot be removed now", path)
