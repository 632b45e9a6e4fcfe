"""The file that says what one version of a LanceDB table consists of.

A version may name folders elsewhere, also on another machine, in which some of its files are: LanceDB then reads them there.
No table of an index does that, and the manifest of one that somebody else made is looked at before LanceDB opens it. The
file ends in the place of a length and a protobuf message (`lance.table.Manifest`), two numbers and a mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mergewise.errors import CorruptIndex
from mergewise.files import regular_bytes

# a version is named by how far it is from this one; older ones of LanceDB wrote its number
_LAST = 2**64 - 1
_LONGEST = 1 << 30
_FOOTER = 16
# in `lance.table.Manifest`
_BASE_PATHS = 18
# how values follow a field's number in protobuf
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def version_file(table: Path, version: int) -> Path:
    path = table / "_versions" / f"{_LAST - version:020d}.manifest"
    older = table / "_versions" / f"{version}.manifest"
    return older if older.exists() and not path.exists() else path


def demand_own_files(table: Path, version: int) -> None:
    """Raises CorruptIndex where this version has files elsewhere, and OSError or ValueError for a damaged file."""
    content = regular_bytes(version_file(table, version), _LONGEST)
    place = int.from_bytes(content[-_FOOTER:-8], "little")
    length = int.from_bytes(content[place : place + 4], "little")
    if _BASE_PATHS in _fields(content[place + 4 : place + 4 + length]):
        raise CorruptIndex(
            f"{table} has files outside of the index, which no index has", "do not trust this index: delete it"
        )


def _fields(message: bytes) -> Iterator[int]:
    """The numbers of the fields of a protobuf message."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            _, at = _varint(message, at)
        elif kind == _BYTES:
            size, at = _varint(message, at)
            at += size
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError("the version's manifest is no protobuf message")
        yield key >> 3


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends."""
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise ValueError("the version's manifest is cut off")
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
