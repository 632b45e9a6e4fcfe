"""Hostile archives: overlapping entries, names that lead elsewhere, false sizes."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from copy import copy
from pathlib import Path

import docx
import openpyxl
import pytest
from tests.readers.documents import bytes_of, with_changed_parts
from tests.readers.test_read_epub import CHAPTERS, book
from tests.support import read

from mergewise.errors import ReadError

TEXT = "Owls eat mice."
OUTSIDE = (
    "../../evil.txt",
    "/evil.txt",
    "..\\evil.txt",
    "C:\\evil.txt",
    "word/../../evil.txt",
    "\u202eevil.txt",
    "a" * 300,
)


def _word() -> bytes:
    document = docx.Document()
    document.add_paragraph(TEXT)
    return bytes_of(document)


def _workbook() -> bytes:
    workbook = openpyxl.Workbook()
    workbook.active.append([TEXT])
    return bytes_of(workbook)


def _book(second: str = "Text/two%20b.xhtml") -> bytes:
    """Make a book whose second chapter has another path in the package."""
    made = book({name: text.replace("Gänse.", TEXT) for name, text in CHAPTERS.items()}, "")
    return with_changed_parts(made, lambda _, data: data.replace(b"Text/two%20b.xhtml", second.encode()))


MAKERS: dict[str, Callable[[], bytes]] = {"a.docx": _word, "a.xlsx": _workbook, "a.epub": _book}


def with_entries(data: bytes, change: Callable[[zipfile.ZipFile], object]) -> bytes:
    file = io.BytesIO(data)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as target:
        change(target)
        # an addition makes zipfile write the list of entries again
        target.writestr("last", b"x")
    return file.getvalue()


@pytest.mark.parametrize("name", MAKERS)
def test_hostile_entry_names_write_no_files(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "inner" / "folder"
    folder.mkdir(parents=True)

    def add(target: zipfile.ZipFile) -> None:
        for other in OUTSIDE:
            target.writestr(other, b"x")

    (folder / name).write_bytes(with_entries(MAKERS[name](), add))
    assert TEXT in read(folder / name).text
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [name]


def test_chapter_outside_the_book_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "secret.xhtml").write_text("<html><body><p>Secret.</p></body></html>")
    for place in ("../../secret.xhtml", f"{tmp_path}/secret.xhtml", f"file://{tmp_path}/secret.xhtml"):
        (tmp_path / "a.epub").write_bytes(_book(second=place))
        text = read(tmp_path / "a.epub").text
        assert TEXT in text and "Secret" not in text


@pytest.mark.parametrize("name", MAKERS)
def test_overlapping_entries_are_refused(tmp_path: Path, name: str) -> None:
    """Each entry starts within the previous one and ends with it, as in archives that unpack to a multiple of their size."""

    def share(target: zipfile.ZipFile) -> None:
        for number in range(50):
            twin = copy(target.infolist()[0])
            twin.filename = twin.orig_filename = f"twin{number}"
            target.filelist.append(twin)

    (tmp_path / name).write_bytes(with_entries(MAKERS[name](), share))
    with pytest.raises(ReadError, match="overlapping files"):
        read(tmp_path / name)


@pytest.mark.parametrize("name", MAKERS)
def test_part_larger_than_its_declared_size_is_damage(tmp_path: Path, name: str) -> None:
    """The declared size of an entry limits unpacking, whatever its bytes hold."""
    data = bytearray(MAKERS[name]())
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        places = {info.filename for info in archive.infolist() if info.file_size > 100}
    at = data.find(b"PK\x01\x02")
    while at >= 0:
        length = struct.unpack_from("<H", data, at + 28)[0]
        if data[at + 46 : at + 46 + length].decode() in places:
            struct.pack_into("<I", data, at + 24, 50)
        at = data.find(b"PK\x01\x02", at + 46)
    (tmp_path / name).write_bytes(bytes(data))
    with pytest.raises(ReadError):
        read(tmp_path / name)
