"""Hostile file formats: reading time must not grow with the square of the size, and must stay within limits."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

import pytest

import mergewise as mw
from mergewise import readers
from mergewise.errors import ReadError
from mergewise.files import regular_bytes
from mergewise.readers import SUFFIXES, ReadFile, sandbox
from mergewise.readers.sandbox import Limits, SandboxedReader, reader_within
from tests.attack import shapes
from tests.attack.shapes import SHAPES
from tests.attack.support import LONG
from tests.readers.documents import with_changed_parts
from tests.readers.test_read_epub import CHAPTERS, book

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits are those of POSIX")

# Bytes of the smaller file, and the size ratio of the larger one. Quadratic time would grow 256 times. We allow 64 times, for
# busy machines, and always half a second.
SMALL, TIMES = (4_000, 16) if LONG else (3_000, 16)
GROWTH, ALWAYS = 64, 0.5
# Shapes that need larger files to show their growth.
LARGER = {"footnotes.docx": 20_000, "deep numbers.docx": 20_000, "table.pptx": 20_000, "bookmarks.pdf": 20_000}
# Small files that become large documents: many parts repeat the same long part. Characters and time are bounded.
AMPLIFIED = frozenset({"pages.pdf", "long string.xlsx", "one part.xlsx", "deep lists.html", "last column.xlsx"})
# Shapes on which a reader was once quadratic or took minutes for the smaller file.
FIXED_SHAPES = (
    "quotes To.eml",
    "escapes To.eml",
    "quotes Content-Type.eml",
    "semicolons Content-Type.eml",
    "quotes Content-Disposition.eml",
    "heading digits.md",
    "header pictures.md",
    "tilde fences.md",
    "code directives.md",
    "pipe rows.rst",
    "blank before link.rst",
    "blank in role.rst",
    "escaped quotes.js",
    "cells images.ipynb",
    "spans.html",
    "deep tables.xml",
    "long outer key.json",
    "chained styles.docx",
    "deep numbers.docx",
    "long labels.docx",
    "footnotes.docx",
    "circular footnotes.docx",
    "table.pptx",
    "one slide.pptx",
    "one chapter.epub",
    "contents.epub",
    "bookmarks.pdf",
)


@pytest.fixture(scope="module")
def timed_reader() -> Iterator[SandboxedReader]:
    reader = SandboxedReader(Limits(seconds=120), "tests.attack.timing:read_timed")
    yield reader
    reader.close()


def seconds(name: str, size: int, reader: SandboxedReader, folder: Path) -> float:
    path = folder / f"{size} {re.sub(r'[^A-Za-z.]', '_', name)}"
    path.write_bytes(SHAPES[name](size))
    return float(reader.read(path).document.text)


def test_every_format_has_shapes() -> None:
    assert set(FIXED_SHAPES) | AMPLIFIED <= set(SHAPES)
    shaped = {Path(name).suffix for name in SHAPES}
    assert {".md", ".rst", ".html", ".xml", ".docx", ".odt", ".epub", ".pdf", ".pptx", ".xlsx", ".csv"} <= shaped
    assert {".json", ".jsonl", ".ipynb", ".eml", ".mbox", ".py", ".js", ".txt", ".yaml"} <= shaped <= set(SUFFIXES)


@pytest.mark.parametrize("name", sorted(SHAPES.keys() - AMPLIFIED) if LONG else FIXED_SHAPES)
def test_time_is_not_quadratic_in_size(name: str, timed_reader: SandboxedReader, tmp_path: Path) -> None:
    size = LARGER.get(name, SMALL)
    small = seconds(name, size, timed_reader, tmp_path)
    large = seconds(name, size * TIMES, timed_reader, tmp_path)
    if large >= GROWTH * small + ALWAYS:
        # The first text of this length may have loaded tables.
        large = seconds(name, size * TIMES, timed_reader, tmp_path)
    assert large < GROWTH * small + ALWAYS, f"{small:.3f} s, then {large:.3f} s"


@pytest.mark.parametrize("name", sorted(AMPLIFIED))
def test_amplification_is_bounded(name: str, timed_reader: SandboxedReader, tmp_path: Path) -> None:
    assert seconds(name, 200_000 if LONG else 5_000, timed_reader, tmp_path) < 120


def test_large_files_of_all_formats_are_read_within_limits(tmp_path: Path) -> None:
    """A text that exceeds the memory limit of its reader fails alone, without harm to other files."""
    path = tmp_path / "large.json"
    path.write_bytes(b"[" + b"{}," * 8_000_000 + b"{}]")
    with reader_within(Limits(memory_mb=500)) as reader:
        with pytest.raises(ReadError, match="more than 500 MB"):
            reader(path)
        small = tmp_path / "small.json"
        small.write_text('[{"a": "Owls eat mice."}]')
        assert reader(small).document.text == "a: Owls eat mice."


def test_timed_out_files_lower_the_limit_of_later_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Such files must not add up to hours. The third is the last one with the full time limit."""
    reader = SandboxedReader(Limits(seconds=1.2), "tests.readers.hostile:read_hostile")
    path = tmp_path / "sleeps.txt"
    path.write_text("Owls eat mice.")
    reasons = []
    try:
        for _ in range(4):
            with pytest.raises(ReadError) as caught:
                reader.read(path)
            reasons.append(caught.value.message)
    finally:
        reader.close()
    assert reasons[:3] == ["reading took more than 1.2 s"] * 3
    assert reasons[3] == "reading took more than 0.05 s, after other files wasted the time: read it alone"
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "mergewise"]
    assert warning.startswith("unreadable files took 4 s: time limit of further files reduced to 0.05 s")


def test_good_file_is_read_after_many_bad_ones(tmp_path: Path) -> None:
    """The start time of a new process does not count for the file."""
    reader = SandboxedReader(Limits(seconds=60), "tests.readers.hostile:read_hostile")
    reader._lost = 1000
    (tmp_path / "kills.txt").write_text("Owls eat mice.")
    (tmp_path / "good.txt").write_text("Owls eat mice.")
    try:
        with pytest.raises(ReadError, match="SIGSEGV"):
            reader.read(tmp_path / "kills.txt")
        assert reader.read(tmp_path / "good.txt").document.text == "Owls eat mice."
    finally:
        reader.close()


# --- files that change while they are read ------------------------------------------------------------------------


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / f"docs/{name}.md").write_text(f"The file {name} is about owls.\n")
    return tmp_path / "docs"


Hook = Callable[[Path], object]


def hook_reader(patch: pytest.MonkeyPatch, before: Hook, after: Hook = lambda path: None) -> None:
    """Call `before` and `after` with the path around the reading of each file."""
    read_file = readers.read_file

    def read(path: Path, **options: Any) -> ReadFile:
        before(path)
        try:
            return read_file(path, **options)
        finally:
            after(path)

    patch.setattr(sandbox, "read_file", read)


@pytest.mark.parametrize("change", ["other words entirely", "The file b is about owls.\nAnd it grew.\n", "The"])
def test_file_that_changes_while_it_is_read(docs: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """The file changes after the comparison with the index and is restored later: the index must not record the new version."""
    path, was = docs / "b.md", (docs / "b.md").read_text()
    index = mw.open(docs.parent / "index", embedder="none")
    with monkeypatch.context() as patched:
        hook_reader(
            patched,
            before=lambda read: path.write_text(change) if read == path else None,
            after=lambda read: path.write_text(was) if read == path else None,
        )
        assert index.add(docs).added == 3
    stored = index.document("docs/b.md")
    assert stored.text == change
    report = index.sync(docs)
    assert (report.replaced, report.unchanged) == (1, 2)
    assert index.document("docs/b.md").text == was
    assert index.sync(docs).unchanged == 3 and index.check() == []


def test_files_deleted_or_emptied_during_sync(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = mw.open(docs.parent / "index", embedder="none")

    def change(path: Path) -> None:
        if path.name == "a.md":
            (docs / "b.md").unlink()
            (docs / "c.md").write_bytes(b"")

    with monkeypatch.context() as patched:
        hook_reader(patched, before=change)
        report = index.add(docs)
    assert report.added == 1
    assert {f.source: f.reason for f in report.failed} == {"docs/b.md": "no such file", "docs/c.md": "empty"}
    assert index.sync(docs).unchanged == 1 and index.check() == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_file_replaced_by_a_pipe(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that opened the pipe would wait forever for a writer."""
    path = docs / "b.md"

    def swap(asked: Path, most: int, **options: Any) -> bytes:
        if asked == path and path.is_file():
            path.unlink()
            os.mkfifo(path)
        return regular_bytes(asked, most, **options)

    monkeypatch.setattr(readers, "regular_bytes", swap)
    with pytest.raises(ReadError, match="not a regular file"):
        readers.file_bytes(path)


def test_folder_renamed_during_sync(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = mw.open(docs.parent / "index", embedder="none")
    away = docs.with_name("away")
    with monkeypatch.context() as patched:
        hook_reader(patched, before=lambda path: docs.rename(away) if path.name == "b.md" and docs.exists() else None)
        report = index.add(docs)
    # The origin of the first file was read before.
    assert report.added == 1
    assert {failure.reason for failure in report.failed} == {"no such file"}
    away.rename(docs)
    assert index.sync(docs).added == 2 and index.check() == []


# the same declaration, in forms that a search for its bytes does not find
DECLARED: dict[str, Callable[[str, str], bytes]] = {
    "plain": lambda entity, xml: (entity + xml).encode(),
    "utf-16": lambda entity, xml: f'<?xml version="1.0" encoding="UTF-16"?>{entity}{xml}'.encode("utf-16"),
    "utf-7": lambda entity, xml: (
        f'<?xml version="1.0" encoding="UTF-7"?>{entity.replace("<!", "+ADwAIQ-")}{xml}'.encode()
    ),
    "late": lambda entity, xml: f"<!--{'x' * 70_000}-->{entity}{xml}".encode(),
}
TEXTS = {
    "docx": shapes.docx(shapes.paragraph("HERE owls")),
    "odt": shapes.odt("<text:p>HERE owls</text:p>"),
    "xlsx": shapes.xlsx('<row r="1"><c r="A1" t="inlineStr"><is><t>HERE owls</t></is></c></row>'),
    "pptx": shapes.pptx(shapes.shape_of("<a:p><a:r><a:t>HERE owls</a:t></a:r></a:p>")),
    "epub": book({**CHAPTERS, "OEBPS/Text/one.xhtml": "<html><body><p>HERE owls</p></body></html>"}),
    "nxml": b"<article><body><p>HERE owls</p></body></article>",
}


@pytest.mark.parametrize("form", DECLARED)
@pytest.mark.parametrize("kind", TEXTS)
def test_an_entity_of_a_file_is_never_read(tmp_path: Path, kind: str, form: str) -> None:
    (tmp_path / "secret.txt").write_text("A canary.")
    entity = f'<!DOCTYPE r [<!ENTITY x SYSTEM "{(tmp_path / "secret.txt").as_uri()}">]>'

    def declare(_: str, content: bytes) -> bytes:
        xml = content.partition(b"?>")[2] if content.startswith(b"<?xml") else content
        return DECLARED[form](entity, xml.decode().replace("HERE", "&x;")) if b"HERE" in content else content

    content = TEXTS[kind]
    path = tmp_path / f"a.{kind}"
    path.write_bytes(declare("", content) if kind == "nxml" else with_changed_parts(content, declare))
    try:
        document = readers.read_file(path).document
    except ReadError:
        return
    assert "canary" not in f"{document.title}{document.text}{document.metadata}"


@pytest.mark.parametrize(
    "target", ["../../secret.xhtml", "{folder}/secret.xhtml", "file://{folder}/secret.xhtml", "link"]
)
def test_a_book_has_no_path_out_of_its_archive(tmp_path: Path, target: str) -> None:
    (tmp_path / "secret.xhtml").write_text("<html><body><p>A canary.</p></body></html>")
    href = target.format(folder=tmp_path)
    content = with_changed_parts(
        TEXTS["epub"],
        lambda name, data: data.replace(b"Text/one.xhtml", href.encode()) if name.endswith("opf") else data,
    )
    path = tmp_path / "book.epub"
    path.write_bytes(content)
    with ZipFile(path, "a") as archive:
        link = ZipInfo("OEBPS/link")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, str(tmp_path / "secret.xhtml"))
    assert "canary" not in readers.read_file(path).document.text
