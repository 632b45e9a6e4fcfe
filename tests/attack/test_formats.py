"""Files in nasty shapes: the time that reading takes grows with their size, not with its square, and ends within limits."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import mergewise as mw
from mergewise import readers
from mergewise.errors import ReadError
from mergewise.files import regular_bytes
from mergewise.readers import SUFFIXES, ReadFile, sandbox
from mergewise.readers.sandbox import Limits, SandboxedReader, reader_within
from tests.attack.shapes import SHAPES
from tests.attack.support import LONG

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits are those of POSIX")

# Bytes of the smaller file, and how many times as large the larger one is. Where the time grows with the square it grows 256
# times; it may grow 64 times, since machines are busy, and half a second is always allowed.
SMALL, TIMES = (4_000, 16) if LONG else (3_000, 16)
GROWTH, ALWAYS = 64, 0.5
# Shapes that a small file has too few of.
LARGER = {"footnotes.docx": 20_000, "deep numbers.docx": 20_000, "table.pptx": 20_000, "bookmarks.pdf": 20_000}
# A small file becomes a large document: each of many parts shows the same long one. Characters and time are bounded.
AMPLIFIED = frozenset({"pages.pdf", "long string.xlsx", "one part.xlsx", "deep lists.html", "last column.xlsx"})
# Shapes with which a reader did not hold this, or took minutes for the smaller file.
MENDED = (
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
def timed() -> Iterator[SandboxedReader]:
    reader = SandboxedReader(Limits(seconds=120), "tests.attack.timing:read_timed")
    yield reader
    reader.close()


def seconds(name: str, size: int, reader: SandboxedReader, folder: Path) -> float:
    path = folder / f"{size} {re.sub(r'[^A-Za-z.]', '_', name)}"
    path.write_bytes(SHAPES[name](size))
    return float(reader.read(path).document.text)


def test_every_format_has_shapes() -> None:
    assert set(MENDED) | AMPLIFIED <= set(SHAPES)
    shaped = {Path(name).suffix for name in SHAPES}
    assert {".md", ".rst", ".html", ".xml", ".docx", ".odt", ".epub", ".pdf", ".pptx", ".xlsx", ".csv"} <= shaped
    assert {".json", ".jsonl", ".ipynb", ".eml", ".mbox", ".py", ".js", ".txt", ".yaml"} <= shaped <= set(SUFFIXES)


@pytest.mark.parametrize("name", sorted(SHAPES.keys() - AMPLIFIED) if LONG else MENDED)
def test_the_time_grows_with_the_size(name: str, timed: SandboxedReader, tmp_path: Path) -> None:
    size = LARGER.get(name, SMALL)
    small = seconds(name, size, timed, tmp_path)
    large = seconds(name, size * TIMES, timed, tmp_path)
    if large >= GROWTH * small + ALWAYS:
        # the first text that is so long may have loaded tables
        large = seconds(name, size * TIMES, timed, tmp_path)
    assert large < GROWTH * small + ALWAYS, f"{small:.3f} s, then {large:.3f} s"


@pytest.mark.parametrize("name", sorted(AMPLIFIED))
def test_what_a_file_amplifies_is_bounded(name: str, timed: SandboxedReader, tmp_path: Path) -> None:
    assert seconds(name, 200_000 if LONG else 5_000, timed, tmp_path) < 120


def test_large_files_of_all_formats_are_read_within_limits(tmp_path: Path) -> None:
    """A text that its reader needs more memory for than it may have: it fails alone, where nobody else is harmed."""
    path = tmp_path / "large.json"
    path.write_bytes(b"[" + b"{}," * 8_000_000 + b"{}]")
    with reader_within(Limits(memory_mb=500)) as reader:
        with pytest.raises(ReadError, match="more than 500 MB"):
            reader(path)
        small = tmp_path / "small.json"
        small.write_text('[{"a": "Owls eat mice."}]')
        assert reader(small).document.text == "a: Owls eat mice."


def test_files_that_run_out_of_time_lower_that_of_those_after_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder of such files is not waited for by the hour. The third is the last that has all the time."""
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


def test_a_good_file_is_read_after_many_bad_ones(tmp_path: Path) -> None:
    """The time of a new process to start is not counted as that of the file."""
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
    """Call these with the path, before and after each file is read."""
    read_file = readers.read_file

    def read(path: Path, *, id: str | None = None, name: str | None = None) -> ReadFile:
        before(path)
        try:
            return read_file(path, id=id, name=name)
        finally:
            after(path)

    patch.setattr(sandbox, "read_file", read)


@pytest.mark.parametrize("change", ["other words entirely", "The file b is about owls.\nAnd it grew.\n", "The"])
def test_a_file_that_changes_while_it_is_read(docs: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """It changes after it was compared with the index, and is put back afterwards: the index must not think that it has it."""
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


def test_a_file_that_goes_and_one_that_becomes_empty(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_pipe_that_takes_the_place_of_a_file(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody writes into it: a reader that opened it would wait for ever."""
    path = docs / "b.md"

    def swap(asked: Path, most: int, *, follow: bool) -> bytes:
        if asked == path and path.is_file():
            path.unlink()
            os.mkfifo(path)
        return regular_bytes(asked, most, follow=follow)

    monkeypatch.setattr(readers, "regular_bytes", swap)
    with pytest.raises(ReadError, match="not a regular file"):
        readers.file_bytes(path)


def test_a_folder_that_is_renamed_under_way(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = mw.open(docs.parent / "index", embedder="none")
    away = docs.with_name("away")
    with monkeypatch.context() as patched:
        hook_reader(patched, before=lambda path: docs.rename(away) if path.name == "b.md" and docs.exists() else None)
        report = index.add(docs)
    # the origin of the first one was asked for before
    assert report.added == 1
    assert {failure.reason for failure in report.failed} == {"no such file"}
    away.rename(docs)
    assert index.sync(docs).added == 2 and index.check() == []
