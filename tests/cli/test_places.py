"""Places of citations: paths that open from the working directory, missing files, and links on pages."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from tests import command

import mergewise
from mergewise.cli.places import DocumentNames, file_links
from mergewise.cli.show import document_at
from mergewise.errors import UsageError
from mergewise.store.lance_change import Change
from mergewise.types import Document

run = command.run_in

CATS = "# Cats\n\n## Sleep\n\nCats sleep sixteen hours a day.\n"


@pytest.fixture(scope="module")
def unchanged_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with an index that no test changes."""
    return indexed(tmp_path_factory.mktemp("unchanged_home") / "home")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return indexed(tmp_path / "home")


def indexed(folder: Path) -> Path:
    (folder / "docs" / "deep er").mkdir(parents=True)
    (folder / "docs" / "deep er" / "cats#1.md").write_text(CATS)
    (folder / "docs" / "bats.md").write_text("# Bats\n\nBats hang upside down.\n")
    (folder / "docs" / "bits.md").write_text("# Bits\n\nBits are small.\n")
    assert run(folder, "index", "docs", "--embedder", "none").returncode == 0
    return folder


def printed_place(out: str) -> tuple[str, int]:
    """Return the path and the line of the first place in an output."""
    found = re.search(r"(?m)(?:^|\(|\] )([^():\]\n]+\.md):(\d+)", out)
    assert found is not None, out
    return found[1], int(found[2])


@pytest.mark.parametrize(
    ("here", "words"),
    [
        (".", ("ask", "How long do cats sleep?")),
        ("docs/deep er", ("context", "How long do cats sleep?", "-b", "24")),
        ("..", ("ask", "How long do cats sleep?")),
        ("docs", ("show", "cats#1:5")),
        ("docs", ("show", "../docs/deep er/cats#1.md:5")),
    ],
)
def test_a_place_opens_from_the_working_directory(unchanged_home: Path, here: str, words: tuple[str, ...]) -> None:
    home = unchanged_home
    cwd = home / here
    done = run(cwd, *words, "-i", str(home / "mergewise.index"))
    assert done.returncode == 0, done.stderr
    path, line = printed_place(done.stdout)
    assert (cwd / path).read_text().splitlines()[line - 1] == "Cats sleep sixteen hours a day."
    assert not Path(path).is_absolute() or not (home / "docs/deep er/cats#1.md").is_relative_to(cwd.resolve())
    shown = run(cwd, "show", f"{path}:{line}", "-a", "0", "-i", str(home / "mergewise.index"))
    assert "> 5 │ Cats sleep sixteen hours a day." in shown.stdout, "`show` opens a printed place"
    shown = run(cwd, "read", f"{path}:{line}", "-i", str(home / "mergewise.index"))
    assert "\nCats sleep sixteen hours a day.\n" in shown.stdout, "`read`, too"


def test_a_missing_file_is_marked(home: Path) -> None:
    (home / "docs/deep er/cats#1.md").unlink()
    for words in (("context", "How long do cats sleep?"), ("show", "cats#1:5")):
        assert "docs/deep er/cats#1.md:5 (gone)" in run(home, *words).stdout
    assert "(gone)" not in run(home, "show", "bats:3").stdout


def test_a_document_without_a_file_is_named_by_its_id(tmp_path: Path) -> None:
    index = mergewise.open(tmp_path / "i", embedder="none")
    index.add(Document("docs/cats.md", CATS))
    names = DocumentNames(index.files)
    assert (names.name("docs/cats.md"), names.remark("docs/cats.md")) == ("docs/cats.md", "")
    assert index.files(["docs/cats.md", "none"]) == {} == index.files([])


def test_files_of_many_documents_are_looked_up_at_once(tmp_path: Path) -> None:
    asked: list[list[str]] = []

    def files(doc_ids: object) -> dict[str, Path]:
        asked.append(list(doc_ids))  # type: ignore[call-overload]
        return {"a": tmp_path / "a"}

    names = DocumentNames(files)
    names.look_up(["a", "b", "a"])
    assert (names.remark("a"), names.name("b")) == (" (gone)", "b") and asked == [["a", "b"]]


def test_a_page_links_to_the_files(home: Path) -> None:
    assert run(home, "ask", "How long do cats sleep?", "--html", "page.html").returncode == 0
    page = (home / "page.html").read_text()
    assert f'href="{(home / "docs/deep er/cats#1.md").resolve().as_uri()}"' in page
    assert "/deep%20er/cats%231.md" in page


def test_a_page_links_only_to_regular_files_of_the_index_folder(home: Path, tmp_path: Path) -> None:
    """The author of an index controls the paths of its files."""
    secret = tmp_path / "secret"
    secret.write_text("key")
    (home / "out.md").symlink_to(secret)
    os.mkfifo(home / "pipe.md")
    lies = {
        "absolute": str(secret), "above": "../secret", "link": "out.md", "pipe": "pipe.md", "folder": "docs",
        "none": "docs/none.md", "script": "javascript:alert(1)", "host": "//host/share/x", "device": "/dev/zero",
        "nul": "a\0b", "good": "docs/bats.md",
    }  # fmt: skip
    index = mergewise.open(home / "mergewise.index")
    index.add(*[Document(name, f"Text of {name}.\n") for name in lies])
    with index.store._writing() as change:  # type: ignore[union-attr]
        assert isinstance(change, Change)
        change.rows.set_columns(
            {name: {"_source": source, "_bytes": 1, "_modified": 1} for name, source in lies.items()}
        )
        change.tables.commit()
    links = {name: file_links(index)(name) for name in lies}
    assert links == {**dict.fromkeys(lies), "good": (home / "docs/bats.md").resolve().as_uri()}
    done = run(home, "context", "Which text is this?", "-s", "topk", "--html", "page.html")
    assert all(f"Text of {name}." in done.stdout for name in lies), done.stdout
    hrefs = re.findall(r'href="([^"]*)"', (home / "page.html").read_text())
    assert {href for href in hrefs if not href.startswith(("#", "data:,"))} == {links["good"]}


# -- names of documents


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("cats#1.md", "docs/deep er/cats#1.md"),
        ("cats#1", "docs/deep er/cats#1.md"),
        ("BATS", "docs/bats.md"),
        ("bats:3", "docs/bats.md:3"),
        ("its.m", "docs/bits.md"),
        ("docs/b?ts.md", "unknown document: docs/b?ts.md"),
        ("b:3", "ambiguous name: b (one of: docs/bats.md, docs/bits.md)"),
        ("docs", "ambiguous name: docs (one of: docs/bats.md, docs/bits.md, docs/deep er/cats#1.md)"),
        ("cats#1:5", "docs/deep er/cats#1.md:5"),
        ("batz.md", "did you mean docs/bats.md"),
        ("zzzzzz", "unknown document: zzzzzz (give its id, or a part of it)"),
    ],
)
def test_a_name_must_match_exactly_one_document(
    unchanged_home: Path, what: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(unchanged_home)
    index = mergewise.open("mergewise.index")
    if says.startswith("docs"):
        assert says == "".join(document_at(index, what))
    else:
        with pytest.raises(UsageError, match=re.escape(says)):
            document_at(index, what)


def test_a_path_from_here_has_priority_over_an_id(home: Path) -> None:
    (home / "bats.md").write_text("Other bats.\n")
    assert run(home, "index", "bats.md").returncode == 0
    index = str(home / "mergewise.index")
    assert "Bats hang upside down." in run(home / "docs", "show", "bats.md", "-i", index).stdout
    assert "Other bats." in run(home, "show", "bats.md", "-i", index).stdout
