"""Patterns of files in folders, compared with a slow literal implementation."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.errors import UsageError
from mergewise.readers import FolderSearch, find_files
from mergewise.readers.patterns import FileChoice, PathPattern

TREE = (
    "README.md a.log drafts/one.md manual/de/intro.md manual/drafts/two.md "
    "manual/intro.md manual/intro.txt package.json v1.2/notes.md"
).split()


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    for name in TREE:
        path = tmp_path / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return tmp_path / "docs"


def found(docs: Path, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[str]:
    search = FolderSearch(FileChoice.of(include, exclude))
    return [path.relative_to(docs).as_posix() for path in find_files([docs], search)]


ALL = [name for name in TREE if name != "package.json"]


@pytest.mark.parametrize(
    ("exclude", "gone"),
    [
        ("*.md", [name for name in ALL if name.endswith(".md")]),
        ("drafts", ["drafts/one.md", "manual/drafts/two.md"]),
        ("drafts/", ["drafts/one.md", "manual/drafts/two.md"]),
        ("/drafts", ["drafts/one.md"]),
        ("./drafts/", ["drafts/one.md"]),
        ("manual/*.md", ["manual/intro.md"]),
        ("docs/manual/*.md", ["manual/intro.md"]),
        ("manual/**/*.md", ["manual/de/intro.md", "manual/drafts/two.md", "manual/intro.md"]),
        ("manual/**", [name for name in ALL if name.startswith("manual/")]),
        ("**/drafts/**", ["drafts/one.md", "manual/drafts/two.md"]),
        ("intro.md/", []),
        ("docs", []),
        ("docs/**", ALL),
        ("[Rm]*", ["README.md", *(name for name in ALL if name.startswith("manual/"))]),
        ("INTRO.md", []),
    ],
)
def test_exclude_patterns(docs: Path, monkeypatch: pytest.MonkeyPatch, exclude: str, gone: list[str]) -> None:
    monkeypatch.chdir(docs.parent)
    assert found(Path("docs"), exclude=[exclude]) == [name for name in ALL if name not in gone]


@pytest.mark.parametrize(
    ("include", "exclude", "read"),
    [
        (["*.txt"], [], ["manual/intro.txt"]),
        (["manual/"], ["*.txt", "de"], ["manual/drafts/two.md", "manual/intro.md"]),
        (["manual/**", "*.log"], ["drafts"], ["a.log", "manual/de/intro.md", "manual/intro.md", "manual/intro.txt"]),
        # folders are not searched for this suffix
        (["*.json"], [], ["package.json"]),
        (["pack*"], [], []),
        (["v1.2/"], [], ["v1.2/notes.md"]),
        (["*"], ["*"], []),
    ],
)
def test_include_patterns(docs: Path, include: list[str], exclude: list[str], read: list[str]) -> None:
    assert found(docs, include, exclude) == read


def test_named_files_ignore_patterns(docs: Path) -> None:
    search = FolderSearch(FileChoice.of(exclude=["*"]))
    assert list(find_files([docs / "a.log", docs], search)) == [docs / "a.log"]
    assert search.excluded == 6 and not search.left_out and search.folders == [docs]


def test_excluded_link_does_not_hide_its_target(docs: Path) -> None:
    (docs / "a-link.md").symlink_to(docs / "manual" / "intro.md")
    (docs / "a-folder").symlink_to(docs / "drafts")
    (docs / "a-picture.png").symlink_to(docs / "README.md")
    assert found(docs, exclude=["a-*"]) == ALL
    assert "README.md" in found(docs)


@pytest.mark.parametrize("wrong", ["", "/", "./", "a/../b", "..", "!a.md", "a\0b"])
def test_invalid_patterns_are_refused(wrong: str) -> None:
    with pytest.raises(UsageError):
        FileChoice.of(exclude=[wrong])
    with pytest.raises(UsageError):
        FileChoice.of(include="a.md")


def literally(pattern: Sequence[str], names: Sequence[str]) -> bool:
    """Tell whether the pattern matches the names or their beginning, by trying everything that `**` may match."""
    if not pattern:
        return True
    if pattern[0] == "**":
        return any(literally(pattern[1:], names[start:]) for start in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], pattern[0]) and literally(pattern[1:], names[1:])


segments = st.sampled_from(["a", "b", "*", "a*", "?", "[ab]", "**"])


@given(
    st.lists(segments, min_size=2, max_size=5), st.lists(st.sampled_from(["a", "b", "ab", "c"]), min_size=1, max_size=6)
)
def test_pattern_matches_like_literal_implementation(pattern: list[str], names: list[str]) -> None:
    wanted = [*pattern[:-1], "*"] if pattern[-1] == "**" else pattern
    for is_folder in (True, False):
        assert PathPattern.of("/".join(pattern)).matches(names, is_folder=is_folder) == literally(wanted, names)
        held = names if is_folder else names[:-1]
        assert PathPattern.of("/".join(pattern) + "/").matches(names, is_folder=is_folder) == literally(wanted, held)


def test_hostile_pattern_is_fast() -> None:
    """Trying everything that `**` may match would take 10^20 steps here."""
    pattern = PathPattern.of("**/" + "a*a*a*a*a*b/**/" * 40 + "c")
    began = process_time()
    assert not pattern.matches(["a" * 200] * 200, is_folder=False)
    assert process_time() - began < 10
