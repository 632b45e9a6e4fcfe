"""Large values of rows, read from the data files of a LanceDB table without a query and without a copy.

Lance's file format (https://lance.org/format/file) keeps values of more than some hundred bytes one after the other, if no row
lacks one: those of equal size alone, others with their length before them and a list of offsets. Other values are not read here.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from mergewise.store.digests import CheckedBlocks
from mergewise.store.lance_versions import UNREADABLE, column_files, fields, numbers, version_bytes, version_name
from mergewise.store.manifest import Manifest
from mergewise.store.numbers import IntArray
from mergewise.store.places.place import Place
from mergewise.store.tables import Table

# the end of a data file: the position of the columns' places, and its mark
_FOOTER = struct.Struct("<8xQ16xHH4s")
_MARK, _PAGES = (2, b"LANC"), 2
# bytes of the length before a value
_LENGTH = 4
# the header of a single value of bytes: two buffers and their sizes, and the first buffer
_ONE = struct.Struct("<5I")
# the layout of a page, and the numbers of its fields that only pages with nulls or repeated values have
_FULL_ZIP, _NULLS = 3, {1, 2}
# the description of plain bytes with lengths of 32 bits, and the first byte of that of vectors
_PLAIN_BYTES, _VECTORS = bytes.fromhex("12060a040a020820"), b"\x5a"


class _ColumnFile(NamedTuple):
    """The file of a fragment, and the first byte of each row's value and the byte after it."""

    content: memoryview
    checked: CheckedBlocks | None
    starts: IntArray
    ends: IntArray


@dataclass(frozen=True)
class StoredColumn:
    """The values of a column in one version of a table. `digests` are those of the manifest."""

    folder: Path
    version: int
    column: str
    digests: Mapping[str, str]
    is_vector: bool

    def take(self, addresses: IntArray) -> pa.Array | None:
        """Return the values of rows by address, or None if they cannot be read here. Raise CorruptIndex if they are damaged."""
        if not self.holds(addresses):
            return None
        values = [memoryview(b"")] * len(addresses)
        parts = addresses >> 32
        for part in set(parts.tolist()):
            content, checked, starts, ends = self._files[part]
            own = np.flatnonzero(parts == part)
            rows = addresses[own] & 0xFFFFFFFF
            if checked is not None:
                checked.compare(starts[rows], ends[rows])
            for at, start, end in zip(own.tolist(), starts[rows].tolist(), ends[rows].tolist(), strict=True):
                values[at] = content[start:end]
        joined, ends = pa.py_buffer(b"".join(values)), np.cumsum([0, *map(len, values)], dtype=np.int32)
        if self.is_vector:
            halves = pa.Array.from_buffers(pa.float16(), joined.size // 2, [None, joined])
            return pa.FixedSizeListArray.from_arrays(halves, len(halves) // len(values))
        return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(ends), joined])

    def holds(self, addresses: IntArray) -> bool:
        """Return whether the values of all rows can be read here."""
        return self._files.keys() >= set((addresses >> 32).tolist())

    @cached_property
    def _files(self) -> dict[int, _ColumnFile]:
        """The fragments whose values can be read here."""
        files: dict[int, _ColumnFile] = {}
        named: dict[int, tuple[str, int]] = {}
        with suppress(*UNREADABLE):
            named = column_files(version_bytes(self.folder / version_name(self.version)), self.column)
        for part, (file, column) in named.items():
            with suppress(*UNREADABLE, struct.error), (self.folder / file).open("rb") as opened:
                content = memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
                name = f"{self.folder.name}/{file}"
                checked = CheckedBlocks(content, self.digests[name], name) if name in self.digests else None
                files[part] = _ColumnFile(content, checked, *_bounds(content, column, checked))
        return files


def _bounds(content: memoryview, column: int, checked: CheckedBlocks | None) -> tuple[IntArray, IntArray]:
    """Return the bounds of the values of a column. Raise an `UNREADABLE` error for values in another form."""

    def part(start: int, size: int) -> memoryview:
        if checked is not None:
            checked.compare(np.array([start]), np.array([start + size]))
        return content[start : start + size]

    columns, major, _, mark = _FOOTER.unpack(part(len(content) - _FOOTER.size, _FOOTER.size))
    if (major, mark) != _MARK:
        raise ValueError("another format")
    bounds: list[tuple[IntArray, IntArray]] = []
    for number, message in fields(bytes(part(*struct.unpack("<QQ", part(columns + 16 * column, 16))))):
        if number != _PAGES:
            continue
        page = dict(fields(message))
        layout, rows = page[4], page[3]
        for inner in (2, 1, 2):
            layout = dict(fields(layout))[inner]
        layout = dict(fields(layout))
        form = dict(fields(layout.get(_FULL_ZIP, b"")))
        (start, *others), (size, *sizes) = numbers(page[1]), numbers(page[2])
        if form.get(7) == _PLAIN_BYTES:
            offsets = np.frombuffer(part(others[0], sizes[0]), f"<u{sizes[0] // (rows + 1)}").astype(np.int64)
            before = _LENGTH
        elif form.get(7, b"").startswith(_VECTORS) and not size % rows:
            offsets, before = np.arange(rows + 1) * (size // rows), 0
        elif rows == 1 and part(start, _ONE.size) == _ONE.pack(2, 8, size - _ONE.size, 0, size - _ONE.size):
            offsets, before = np.array([0, size]), _ONE.size
        else:
            raise ValueError("another form")
        if offsets[-1] != size or form.keys() & _NULLS:
            raise ValueError("values are missing")
        bounds.append((start + offsets[:-1] + before, start + offsets[1:]))
    starts, ends = (np.concatenate(own) for own in zip(*bounds, strict=True))
    return starts, ends


def stored_columns(place: Place, manifest: Manifest, table: Table) -> dict[str, StoredColumn]:
    """Return the vectors of a table that can be read from its own files: in a folder, or in the local copies of a bucket."""
    version = manifest.tables.get(table.name)
    if version is None or not manifest.dimension:
        return {}
    folder = place.tables / f"{table.name}.lance"
    return {
        name: StoredColumn(folder, version, name, manifest.digests, name in table.vectors) for name in table.computed
    }
