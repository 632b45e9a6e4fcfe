"""ZIP archives that hold a document: opened with care, their parts read up to a limit."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mergewise.errors import ReadError
from mergewise.readers.sniff import mismatch
from mergewise.readers.xml import parse_xml

MAX_UNPACKED = 200_000_000
MAX_PART = 50_000_000
_SUSPICIOUS_SIZE, _SUSPICIOUS_RATIO = 50_000_000, 200
_MAX_ENTRIES = 20_000
_PROLOGUE = 65_536
_DOCTYPE = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_OLD = {"DOCX": "an old Word file (.doc)", "XLSX": "an old Excel file (.xls)", "PPTX": "an old PowerPoint file (.ppt)"}


@contextmanager
def opened(data: bytes, kind: str) -> Iterator[zipfile.ZipFile]:
    """The archive of a file of this kind, such as "DOCX". Raises ReadError for what is none, encrypted, or a zip bomb."""
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise ReadError("encrypted", "save it without a password")
        raise ReadError(_OLD.get(kind, mismatch(f"a {kind}", data)), f"save it as .{kind.lower()}")
    if not data.startswith(b"PK"):
        raise ReadError(mismatch(f"{'an' if kind[0] in 'EOX' else 'a'} {kind}", data))
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except zipfile.BadZipFile as error:
        raise ReadError(f"damaged or truncated {kind}") from error
    with archive:
        _refuse_bomb(archive, len(data))
        try:
            yield archive
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise ReadError(f"damaged or truncated {kind}") from error


def _refuse_bomb(archive: zipfile.ZipFile, packed: int) -> None:
    entries = archive.infolist()
    unpacked = sum(entry.file_size for entry in entries)
    suspicious = unpacked > _SUSPICIOUS_SIZE and unpacked > _SUSPICIOUS_RATIO * packed
    if unpacked > MAX_UNPACKED or suspicious:
        raise ReadError(f"unpacks to {unpacked // 1_000_000} MB (a zip bomb?)")
    if len(entries) > _MAX_ENTRIES:
        raise ReadError(f"an archive of {len(entries)} files (a zip bomb?)")
    if any(entry.flag_bits & 1 for entry in entries):
        raise ReadError("encrypted", "save it without a password")


def refuse_entities(archive: zipfile.ZipFile) -> None:
    """For parsers that are not ours: no part may declare entities, which no office program does."""
    for entry in archive.infolist():
        if entry.filename.endswith((".xml", ".rels")):
            with archive.open(entry) as file:
                if _DOCTYPE.search(file.read(_PROLOGUE)):
                    raise ReadError(f"{entry.filename} declares XML entities")


def member(archive: zipfile.ZipFile, name: str) -> bytes | None:
    """The bytes of a part, None if it is missing."""
    try:
        with archive.open(name) as file:
            data = file.read(MAX_PART + 1)
    except KeyError:
        return None
    if len(data) > MAX_PART:
        raise ReadError(f"{name} unpacks to more than {MAX_PART // 1_000_000} MB")
    return data


def part(archive: zipfile.ZipFile, name: str) -> Any:
    """The root element of an XML part, None if it is missing."""
    data = member(archive, name)
    return None if data is None else parse_xml(data)


def spare_part(archive: zipfile.ZipFile, name: str) -> Any:
    """The root element of a part that the text does not need, None if it is missing or damaged."""
    try:
        return part(archive, name)
    except ReadError:
        return None
