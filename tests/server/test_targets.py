"""The targets of `mergewise serve`: a server's data, an index, or folders of documents."""

from __future__ import annotations

from pathlib import Path

import pytest

import mergewise as mw
from mergewise.errors import UsageError
from mergewise.server.configuration import COLLECTION_NAME
from mergewise.server.targets import collection_name, served_place


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "My Manual"
    (here / "docs").mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return here


def test_a_folder_of_documents_makes_the_default_index(here: Path, tmp_path: Path) -> None:
    place = served_place(None, [Path("docs")])
    assert place.data.is_relative_to(tmp_path / "state")
    ((name, own),) = place.collections.items()
    assert (name, own.title, own.path, own.folders) == ("docs", "docs", here / "mergewise.index", (here / "docs",))


@pytest.mark.parametrize("shards", [None, 2])
def test_an_existing_index_is_served_with_its_state_elsewhere(here: Path, tmp_path: Path, shards: int | None) -> None:
    with mw.open("mergewise.index", embedder="none", shards=shards) as index:
        index.add(mw.Document("d", "A text."))
    place = served_place(None)
    assert list(place.collections) == ["my-manual"] and place == served_place(Path("mergewise.index"))
    assert place.data.is_relative_to(tmp_path / "state") and place.data.name.startswith("my-manual-")
    Path("mergewise.index").rename("birds.index")
    other = served_place(Path("birds.index"))
    assert list(other.collections) == ["birds"] and other.data != place.data


def test_other_directories_are_server_data(here: Path) -> None:
    assert served_place(Path("data")).data == Path("data") and not served_place(Path("data")).collections
    ((name, own),) = served_place(Path("data"), [Path("docs")]).collections.items()
    assert (name, own.path, own.folders) == ("docs", None, (here / "docs",))


def test_a_path_with_the_suffix_of_an_index_is_an_index(here: Path) -> None:
    (own,) = served_place(Path("birds.index"), [Path("docs")]).collections.values()
    assert own.path == here / "birds.index" and own.folders == (here / "docs",) and not own.follow_links
    for named in (None, Path("data")):
        (own,) = served_place(named, [Path("docs")], follow_links=True).collections.values()
        assert own.follow_links
    with pytest.raises(UsageError, match=r"index not found: birds\.index"):
        served_place(Path("birds.index"))


def test_invalid_targets_have_a_hint(here: Path) -> None:
    (here / "file").write_text("x")
    for named, docs in ((None, []), (Path("file"), []), (Path("data"), [Path("none")])):
        with pytest.raises(UsageError) as caught:
            served_place(named, docs)
        assert caught.value.hint


@pytest.mark.parametrize("text", ["My Docs (2024)", "Über uns", "文書", "", "-", "a" * 200, "A.B_C"])
def test_names_of_collections(text: str) -> None:
    assert COLLECTION_NAME.fullmatch(collection_name(text))
    assert collection_name("My Docs (2024)") == "my-docs-2024" and collection_name("文書") == "documents"
