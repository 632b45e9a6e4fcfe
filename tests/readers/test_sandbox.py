"""Reading in a sandbox: the documents are the same, and a file that crashes, loops or fills the memory fails alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docx import Document as Docx
from tests.support import read

import mergewise
from mergewise.errors import ReadError, UsageError
from mergewise.readers import SUFFIXES, read_file
from mergewise.readers.sandbox import Limits, SandboxedReader, reader_within, sandboxed_suffixes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs the signals and limits of POSIX")


@pytest.fixture
def hostile() -> Iterator[SandboxedReader]:
    reader = SandboxedReader(Limits(seconds=5, memory_mb=2000), "tests.readers.hostile:read_hostile")
    yield reader
    reader.close()


def file(folder: Path, name: str) -> Path:
    path = folder / f"{name}.txt"
    path.write_text("Cats eat fish.")
    return path


def write_docx(path: Path, text: str = "Cats eat fish.") -> Path:
    made = Docx()
    made.core_properties.title = "Cats"
    made.add_heading("Food", 1)
    made.add_paragraph(text)
    made.add_table(2, 2)
    made.save(str(path))
    return path


def test_one_process_reads_file_after_file(hostile: SandboxedReader, tmp_path: Path) -> None:
    ids = {hostile.read(file(tmp_path, f"good{i}")).document.id for i in range(5)}
    assert len(ids) == 1 and ids != {str(os.getpid())}


def test_the_process_gets_no_keys(hostile: SandboxedReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = {"HOME", "LC_ALL", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "PYTHONHASHSEED", "TMPDIR"}
    secret = {
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "MERGEWISE_CANARY",
        "HTTPS_PROXY",
        "LOCAL_KEY",
        "PYTHON_KEYRING_KEY",
    }
    for name in needed | secret:
        monkeypatch.setenv(name, "1")
    names = set(hostile.read(file(tmp_path, "environment")).document.text.split())
    assert names >= needed | {"PATH", "PYTHONPATH"} and not names & secret


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("kills", "killed by SIGSEGV"),
        ("leaves", r"ended the reading process \(exit 7\)"),
        ("breaks", "ended the reading process"),
        ("swallows", "more than 2000 MB"),
    ],
)
def test_crash_fails_only_its_file(hostile: SandboxedReader, tmp_path: Path, name: str, reason: str) -> None:
    before = hostile.read(file(tmp_path, "good")).document.id
    with pytest.raises(ReadError, match=reason):
        hostile.read(file(tmp_path, name))
    after = hostile.read(file(tmp_path, "good")).document
    assert after.text == "Cats eat fish." and (after.id == before) is (name == "swallows")


@pytest.mark.parametrize("name", ["loops", "sleeps"])
def test_slow_reader_is_killed(tmp_path: Path, name: str) -> None:
    hostile = SandboxedReader(Limits(seconds=1.5), "tests.readers.hostile:read_hostile")
    try:
        with pytest.raises(ReadError, match=r"took more than 1\.5 s"):
            hostile.read(file(tmp_path, name))
        assert hostile.read(file(tmp_path, "good")).document.text == "Cats eat fish."
    finally:
        hostile.close()


def test_printed_output_of_a_parser_is_ignored(hostile: SandboxedReader, tmp_path: Path) -> None:
    assert hostile.read(file(tmp_path, "prints")).document.text == "Cats eat fish."
    assert hostile.read(file(tmp_path, "good")).document.text == "Cats eat fish."


def test_sandbox_reads_the_same_documents(tmp_path: Path) -> None:
    path = write_docx(tmp_path / "a.docx")
    (tmp_path / "b.docx").write_bytes(b"PK\x03\x04 no archive")
    with reader_within(Limits()) as reader:
        here, there = read_file(path, id="x"), reader(path, id="x")
        assert there == here and type(there.document.metadata) is type(here.document.metadata)
        with pytest.raises(ReadError) as error:
            reader(tmp_path / "b.docx")
        with pytest.raises(ReadError) as same:
            read(tmp_path / "b.docx")
        assert error.value.message == same.value.message
        assert reader(file(tmp_path, "plain")).document.text == "Cats eat fish."


def test_units_keep_their_kinds_in_the_sandbox(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("Name,Price\nDuck,3\nGoose,4\n")
    with reader_within(Limits()) as reader:
        assert isinstance(reader, SandboxedReader)
        document = reader.read(path).document
    assert document.units == read(path).units and [kind for _, _, *kind in document.units] == [["row"], ["row"]]


def test_nothing_of_the_working_directory_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    (tmp_path / "mergewise.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    with reader_within(Limits()) as reader:
        assert "Cats eat fish." in reader(write_docx(tmp_path / "a.docx")).document.text


def test_index_continues_after_a_parser_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SandboxedReader.__init__, "__defaults__", ("tests.readers.hostile:read_hostile",))
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in ("a", "kills", "z"):
        write_docx(folder / f"{name}.docx", f"The file {name} is about cats.")
    (folder / "plain.txt").write_text("Dogs bark.")
    index = mergewise.open(tmp_path / "index", embedder="none")
    report = index.add(folder, limits=Limits(seconds=30))
    assert report.added == 3
    (failure,) = report.failed
    assert failure.source.endswith("kills.docx") and "SIGSEGV" in failure.reason
    assert index.check() == []


def test_limits_are_checked_and_formats_have_readers() -> None:
    assert set(SUFFIXES) >= sandboxed_suffixes()
    for wrong in ({"seconds": 0}, {"seconds": float("inf")}, {"memory_mb": 1}, {"memory_mb": None}):
        with pytest.raises(UsageError):
            Limits(**wrong)
