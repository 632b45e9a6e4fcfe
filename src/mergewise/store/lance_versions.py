"""The files of a LanceDB table's versions, read from their manifests.

See https://lance.org/format/table, messages Manifest, DataFragment and IndexSection. A version's file ends with the position of
a length-prefixed protobuf message, two numbers and a magic mark. A version may name other folders, even on another machine, for
some of its files, and LanceDB then reads them there. Our tables never do that. So a manifest from elsewhere is checked before
LanceDB opens it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from mergewise.errors import CorruptIndex
from mergewise.files import regular_bytes

# a version's name is its distance from this number
_LAST = 2**64 - 1
_LONGEST = 1 << 30
_FOOTER = 16
_MARK = b"LANC"
# field numbers of a manifest
_COLUMNS, _FRAGMENTS, _INDEXES, _TRANSACTION, _BASE_PATHS = 1, 2, 6, 12, 18
# field number of an index
_INDEX_FILES = 10
# protobuf wire types: a number, bytes after their length, or a fixed number of bytes
_VARINT, _BYTES, _FIXED = 0, 2, {1: 8, 5: 4}
# a path below a table's folder, without a part that begins with a dot
_PLAIN_FILE = re.compile(r"\w[\w.-]*(/\w[\w.-]*)+", re.ASCII)
_DELETION_SUFFIXES = {0: "arrow", 1: "bin"}

UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError)
"""Errors that reading an invalid manifest of Lance may raise."""


def version_name(version: int) -> str:
    """Return the path of a version's manifest below the table's folder."""
    return f"_versions/{_LAST - version:020d}.manifest"


def version_of(path: Path) -> int | None:
    """Return the version of a manifest's file, or None for any other file."""
    if path.suffix != ".manifest" or not path.stem.isdecimal():
        return None
    return _LAST - int(path.stem)


def check_own_content(content: bytes, table: object) -> None:
    """Check the content of a version's manifest.

    Raise CorruptIndex if the version has files outside the table, or an `UNREADABLE` error if the manifest is damaged.
    """
    if any(number == _BASE_PATHS for number, _ in fields(_manifest(content))):
        raise CorruptIndex(f"{table} has files outside of the index", "do not trust this index: delete it")


def version_bytes(path: Path) -> bytes:
    """Read the manifest of a version."""
    return regular_bytes(path, _LONGEST)


def files_of_version(content: bytes) -> Iterator[str]:
    """Yield the files and search index folders of a version, relative to the table's folder.

    `content` is the version's manifest. An invalid manifest raises an `UNREADABLE` error.
    """
    for number, value in fields(_manifest(content)):
        if number == _FRAGMENTS:
            yield from (file for file, _ in _files_of_fragment(value))
        elif number == _INDEXES:
            yield from (_folder_of(index) for _, index in fields(_message(content, value)))
        elif number == _TRANSACTION:
            yield f"_transactions/{value.decode()}"


def sizes_of_version(content: bytes) -> dict[str, int | None] | None:
    """Map all files of a version, relative to the table's folder, to their sizes in bytes or None if unknown.

    Returns None if the version does not list the files of its search indexes, as older versions do not. An invalid manifest,
    or a name outside the folder, raises an `UNREADABLE` error.
    """
    sizes: dict[str, int | None] = {}
    for number, value in fields(_manifest(content)):
        if number == _FRAGMENTS:
            sizes |= _files_of_fragment(value)
        elif number == _INDEXES:
            for _, index in fields(_message(content, value)):
                files = [dict(fields(file)) for key, file in fields(index) if key == _INDEX_FILES]
                if not files:
                    return None
                sizes |= {f"{_folder_of(index)}/{one[1].decode()}": one.get(2) for one in files}
    if not all(_PLAIN_FILE.fullmatch(file) for file in sizes):
        raise ValueError("invalid file name: outside of the table")
    return sizes


def _files_of_fragment(fragment: bytes) -> Iterator[tuple[str, int | None]]:
    """Yield the files of a fragment with their sizes."""
    for number, value in fields(fragment):
        if number == 2:
            data = dict(fields(value))
            yield f"data/{data[1].decode()}", data.get(6)
        elif number == 3:
            deletions = dict(fields(value))
            name = f"{dict(fields(fragment)).get(1, 0)}-{deletions.get(2, 0)}-{deletions.get(3, 0)}"
            yield f"_deletions/{name}.{_DELETION_SUFFIXES[deletions.get(1, 0)]}", None


def column_files(content: bytes, name: str) -> dict[int, tuple[str, int]]:
    """Map each fragment to the file with a column, relative to the table's folder, and the column's number in the file.

    `content` is the version's manifest. An invalid manifest, or one without the column, raises an `UNREADABLE` error.
    """
    message = list(fields(_manifest(content)))
    columns = (dict(fields(column)) for key, column in message if key == _COLUMNS)
    (number,) = [column.get(3, 0) for column in columns if column[2] == name.encode()]
    files: dict[int, tuple[str, int]] = {}
    for fragment in (list(fields(one)) for key, one in message if key == _FRAGMENTS):
        named = (dict(fields(file)) for key, file in fragment if key == 2)
        (file,) = [one for one in named if number in numbers(one[2])]
        at = numbers(file[2]).index(number)
        files[dict(fragment).get(1, 0)] = f"data/{file[1].decode()}", numbers(file[3])[at]
    return files


def _folder_of(index: bytes) -> str:
    return f"_indices/{UUID(bytes=dict(fields(dict(fields(index))[1]))[1])}"


# -- protobuf


def _manifest(content: bytes) -> bytes:
    if content[-len(_MARK) :] != _MARK:
        raise ValueError("invalid manifest of Lance")
    return _message(content, int.from_bytes(content[-_FOOTER:-8], "little"))


def _message(content: bytes, at: int) -> bytes:
    """Return the length-prefixed message at an offset."""
    length = int.from_bytes(content[at : at + 4], "little")
    if not 0 <= at < at + 4 + length <= len(content):
        raise ValueError("invalid manifest: a message ends outside of the file")
    return content[at + 4 : at + 4 + length]


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message: numbers as int, everything else as bytes."""
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
            raise ValueError("invalid manifest: not a protobuf message")
        if at + length > len(message):
            raise ValueError("invalid manifest: a field ends outside of the message")
        yield key >> 3, message[at : at + length]
        at += length


def numbers(packed: bytes) -> list[int]:
    """Return the numbers of a packed field."""
    found, at = [], 0
    while at < len(packed):
        number, at = _varint(packed, at)
        found.append(number)
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset after it."""
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise ValueError("invalid manifest: truncated")
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
