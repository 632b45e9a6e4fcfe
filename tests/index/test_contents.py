"""Statistics of an index."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mergewise.index.contents import NO_SUFFIX, contents_of
from mergewise.store import manifest
from mergewise.store.places import place_of
from mergewise.types import DocumentInfo, Duplicate, Origin


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A folder with a manifest of ten bytes, written at noon on a day in 2024, and a subfolder of five bytes."""
    file = tmp_path / manifest.NAME
    file.write_bytes(b"0123456789")
    os.utime(file, (1_720_000_000, 1_720_000_000))
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "part").write_bytes(b"01234")
    return tmp_path


def info(source: str | None, characters: int = 0, size: int = 0, modified: int = 0) -> DocumentInfo:
    origin = None if source is None else Origin(source, size, modified)
    return DocumentInfo(source or "own", "", {}, characters, 1, origin)


def test_figures_worked_out_by_hand(directory: Path) -> None:
    documents = [
        info("a.md", 10, 11, 1_600_000_000),
        info("b/C.MD", 20, 22, 1_500_000_000),
        info("d.pdf", 30, 3_000, 1_700_000_000),
        info("README", 40, 44, 1_650_000_000),
        info(None, 50),
    ]
    twin = Duplicate("b/C.MD", "a.md")
    contents = contents_of(documents, [twin], place_of(directory).size())
    assert contents.formats == {".md": 2, ".pdf": 1, NO_SUFFIX: 1}
    assert next(iter(contents.formats)) == ".md"
    assert (contents.without_file, contents.characters, contents.bytes) == (1, 150, 3_077)
    assert contents.index_bytes == 15
    assert (contents.oldest, contents.newest) == ("2017-07-14T02:40:00+00:00", "2023-11-14T22:13:20+00:00")
    assert contents.changed == "2024-07-03T09:46:40+00:00"
    assert contents.duplicates == (Duplicate("b/C.MD", "a.md"),)


def test_an_index_without_documents_has_no_dates_of_files(directory: Path) -> None:
    contents = contents_of([], [], place_of(directory).size())
    assert (contents.formats, contents.oldest, contents.newest) == ({}, None, None)
    assert (contents.without_file, contents.characters, contents.bytes) == (0, 0, 0)
    assert contents.changed is not None


@pytest.mark.parametrize("far", [10**12, 10**18, 10**30])
def test_an_invalid_date_is_none(directory: Path, far: int) -> None:
    contents = contents_of([info("a.md", modified=far), info("b.md", modified=5)], [], place_of(directory).size())
    assert (contents.oldest, contents.newest) == ("1970-01-01T00:00:05+00:00", None)


def test_a_link_counts_for_itself(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    large = tmp_path_factory.mktemp("elsewhere") / "large"
    large.write_bytes(b"0" * 100_000)
    (directory / "nothing").symlink_to(directory / "nowhere")
    (directory / "large").symlink_to(large)
    assert contents_of([], [], place_of(directory).size()).index_bytes < 1_000
