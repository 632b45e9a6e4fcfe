"""Edge cases of `read`, and `find_files`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support import read

from mergewise import readers
from mergewise.errors import ReadError
from mergewise.readers import SUFFIXES, find_files

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00"
PDF = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
ENCRYPTED_OLE = OLE + "EncryptedPackage".encode("utf-16-le")


def reason(path: Path) -> str:
    with pytest.raises(ReadError) as caught:
        read(path)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_id_defaults_to_path_with_forward_slashes(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("text")
    assert read(path).id == path.as_posix()
    assert read(path, id="mine").id == "mine"


def test_title_defaults_to_file_name(tmp_path: Path) -> None:
    path = tmp_path / "minutes.txt"
    path.write_text("text")
    assert read(path).title == "minutes"


def test_suffixes_ignore_case(tmp_path: Path) -> None:
    path = tmp_path / "A.MD"
    path.write_text("# Title")
    assert [heading.title for heading in read(path).outline or ()] == ["Title"]


def test_missing_file_and_folder(tmp_path: Path) -> None:
    assert reason(tmp_path / "nowhere.md") == "no such file"
    assert reason(tmp_path) == "a folder, not a file"


def test_permission_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text("text")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert reason(path) == "permission denied"


def test_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    assert reason(tmp_path / "pipe.txt") == "not a regular file"


@pytest.mark.parametrize("suffix", sorted(SUFFIXES))
@pytest.mark.parametrize("content", [b"", b" \n\t\r\n"])
def test_empty(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    assert reason(path) == "empty"


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MAX_BYTES", 1_000_000)
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * 1_000_001)
    assert reason(path) == "larger than 1 MB"
    path.write_bytes(b"x" * 1_000_000)
    assert len(read(path).text) == 1_000_000


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.pdf", PNG, "not a PDF, looks like a PNG image"),
        ("a.pdf", b"just words", "not a PDF, looks like text"),
        ("a.docx", PDF, "not a DOCX, looks like a PDF"),
        ("a.docx", b"just words", "not a DOCX, looks like text"),
        ("a.docx", OLE, "an old Word file (.doc)"),
        ("a.docx", ENCRYPTED_OLE, "encrypted"),
        ("a.docx", b"PK\x03\x04 cut off", "damaged or truncated DOCX"),
        ("a.txt", PNG, "binary file: looks like a PNG image"),
        ("a.md", PDF, "binary file: looks like a PDF"),
        ("a.html", OLE, "binary file: looks like an old office file (.doc, .xls, .ppt) or an encrypted one"),
        ("a.rst", bytes(range(256)) * 4, "binary file, not text"),
        ("a.pdf", PDF, "damaged PDF"),
        ("a.xml", PNG, "not XML, looks like a PNG image"),
    ],
)
def test_reason_names_wrong_content(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert reason(tmp_path / name) == expected


def test_parser_exceptions_become_read_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text("text")
    for error in (KeyError("part"), MemoryError(), RuntimeError("first\nsecond")):

        def fail(_: bytes, error: Exception = error) -> readers.Parsed:
            raise error

        monkeypatch.setitem(SUFFIXES, ".txt", fail)
        assert reason(path).startswith("damaged or not supported: ")


def test_file_of_unknown_suffix_is_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all: tests")
    (tmp_path / "picture.png").write_bytes(PNG)
    assert [path.name for path in find_files([tmp_path / "Makefile", tmp_path / "picture.png"])] == [
        "Makefile",
        "picture.png",
    ]
    assert read(tmp_path / "Makefile").text == "all: tests"
    assert "PNG" in reason(tmp_path / "picture.png")


def test_folders_are_walked_in_order_without_hidden_and_unknown_files(tmp_path: Path) -> None:
    for name in ("b/z.md", "b/a.txt", "a.rst", "c.PDF", ".hidden.md", ".git/x.md", "b/picture.png", "b/.x/y.md"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    found = [path.relative_to(tmp_path).as_posix() for path in find_files([tmp_path])]
    assert found == ["a.rst", "b/a.txt", "b/z.md", "c.PDF"]


def test_symbolic_links_are_followed_once(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("x")
    (docs / "again").symlink_to(docs)
    (docs / "b.md").symlink_to(docs / "a.md")
    assert [path.name for path in find_files([docs, docs / "a.md", tmp_path])] == ["a.md"]


def test_broken_link_is_yielded(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("x")
    (tmp_path / "broken.md").symlink_to(tmp_path / "nowhere.md")
    (tmp_path / "broken.png").symlink_to(tmp_path / "nowhere.png")
    assert [path.name for path in find_files([tmp_path])] == ["a.md", "broken.md"]
    assert reason(tmp_path / "broken.md")


def test_missing_path_is_yielded(tmp_path: Path) -> None:
    assert list(find_files([tmp_path / "nowhere"])) == [tmp_path / "nowhere"]


def test_unreadable_folder_is_yielded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert list(find_files([tmp_path])) == [tmp_path]
