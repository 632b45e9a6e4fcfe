"""What the versions of a LanceDB table consist of, as far as their manifests name files.

See https://lance.org/format/table, messages Manifest, DataFragment and IndexSection. The file of a version ends in the place of a
length and a protobuf message, two numbers and a mark. A version may name folders elsewhere, also on another machine, in which
some of its files are: LanceDB then reads them there. No table of an index does that, and the manifest of one that somebody else
made is looked at before LanceDB opens it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

from mergewise.errors import CorruptIndex
from mergewise.files import regular_bytes

# a version is named by how far it is from this one
_LAST = 2**64 - 1
_LONGEST = 1 << 30
_FOOTER = 16
_MARK = b"LANC"
# fields of a manifest
_FRAGMENTS, _INDEXES, _TRANSACTION, _BASE_PATHS = 2, 6, 12, 18
# of an index
_INDEX_FILES = 10
# how values follow a field's number in protobuf: a number, so many bytes behind their length, or a fixed count of bytes
_VARINT, _BYTES, _FIXED = 0, 2, {1: 8, 5: 4}
# below a table's folder: no part begins with a dot
_PLAIN_FILE = re.compile(r"\w[\w.-]*(/\w[\w.-]*)+", re.ASCII)
_DELETION_SUFFIXES = {0: "arrow", 1: "bin"}

UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError)
"""What reading a file may raise that is no manifest of Lance."""

Stamp: TypeAlias = tuple[int, int, int, int]
"""Device, number, bytes and time of a file, which together no other file has that takes its name."""


def version_name(version: int) -> str:
    """The file of a version below the table's folder."""
    return f"_versions/{_LAST - version:020d}.manifest"


def version_file(table: Path, version: int) -> Path:
    return table / version_name(version)


def stamp_of(path: Path) -> Stamp:
    """Which file stands there. Raises OSError where none does."""
    status = path.lstat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def version_of(path: Path) -> int | None:
    """The version whose manifest stands in this file; None for any other file."""
    if path.suffix != ".manifest" or not path.stem.isdecimal():
        return None
    return _LAST - int(path.stem)


def check_own_files(table: Path, version: int) -> None:
    """Raises CorruptIndex where this version has files elsewhere, and what is `UNREADABLE` for a damaged file."""
    check_own_content(version_bytes(version_file(table, version)), table)


def check_own_content(content: bytes, table: object) -> None:
    """The same of the content of a version's file."""
    if any(number == _BASE_PATHS for number, _ in _fields(_manifest(content))):
        raise CorruptIndex(
            f"{table} has files outside of the index, which no index has", "do not trust this index: delete it"
        )


def version_bytes(path: Path) -> bytes:
    """The file of a version."""
    return regular_bytes(path, _LONGEST)


def files_of_version(content: bytes) -> Iterator[str]:
    """The files and the folders of search indexes that a version consists of, by its file, below the table's folder.

    Raises what is `UNREADABLE`.
    """
    for number, value in _fields(_manifest(content)):
        if number == _FRAGMENTS:
            yield from _files_of_fragment(value)
        elif number == _INDEXES:
            for _, index in _fields(_message(content, value)):
                yield f"_indices/{UUID(bytes=_first(_first(index, 1), 1))}"
        elif number == _TRANSACTION:
            yield f"_transactions/{value.decode()}"


def sizes_of_version(content: bytes) -> dict[str, int | None] | None:
    """All files that a version is read from, below the table's folder, with their bytes where it says so.

    None where it does not name the files of its search indexes, as older ones do not. Raises what is `UNREADABLE`, also for a
    name that leads elsewhere.
    """
    sizes: dict[str, int | None] = {}
    for number, value in _fields(_manifest(content)):
        if number == _FRAGMENTS:
            data = (dict(_fields(file)) for key, file in _fields(value) if key == 2)
            sizes |= dict.fromkeys(_files_of_fragment(value)) | {f"data/{one[1].decode()}": one.get(6) for one in data}
        elif number == _INDEXES:
            for _, index in _fields(_message(content, value)):
                files = [dict(_fields(file)) for key, file in _fields(index) if key == _INDEX_FILES]
                if not files:
                    return None
                folder = f"_indices/{UUID(bytes=_first(_first(index, 1), 1))}"
                sizes |= {f"{folder}/{one[1].decode()}": one.get(2) for one in files}
    if not all(_PLAIN_FILE.fullmatch(file) for file in sizes):
        raise ValueError("a file that leads outside of the table")
    return sizes


def _files_of_fragment(fragment: bytes) -> Iterator[str]:
    for number, value in _fields(fragment):
        if number == 2:
            yield f"data/{_first(value, 1).decode()}"
        elif number == 3:
            deletions = dict(_fields(value))
            name = f"{dict(_fields(fragment)).get(1, 0)}-{deletions.get(2, 0)}-{deletions.get(3, 0)}"
            yield f"_deletions/{name}.{_DELETION_SUFFIXES[deletions.get(1, 0)]}"


# -- protobuf


def _manifest(content: bytes) -> bytes:
    if content[-len(_MARK) :] != _MARK:
        raise ValueError("no manifest of Lance")
    return _message(content, int.from_bytes(content[-_FOOTER:-8], "little"))


def _message(content: bytes, at: int) -> bytes:
    """The message at this place, behind its length."""
    length = int.from_bytes(content[at : at + 4], "little")
    if not 0 <= at < at + 4 + length <= len(content):
        raise ValueError("a message that ends outside")
    return content[at + 4 : at + 4 + length]


def _first(message: bytes, number: int) -> Any:
    return next((value for key, value in _fields(message) if key == number), None)


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: numbers as int, all else as bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise ValueError("the version's manifest is no protobuf message")
        if at + length > len(message):
            raise ValueError("a field that ends outside")
        yield key >> 3, message[at : at + length]
        at += length


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
