"""Views of an index: requested at creation, added later, kept up to date, and reported if missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mergewise
from mergewise.designs import VIEWS
from mergewise.designs.macrag.slices import SliceSettings
from mergewise.designs.mrag.chunks import PICSettings
from mergewise.designs.mrag.markers import MarkerSettings
from mergewise.errors import ModelError, StoreError, UsageError
from mergewise.models.scripted import ScriptedChat, Turn
from mergewise.types import Document
from tests.support import rows_of, whole_views

DOCUMENTS = [
    Document(f"d{i}", f"The city {i} lies on a river. " * 30 + f"Its tower {i} fell.", f"City {i}") for i in range(9)
]
SMALL = SliceSettings(chunk=160, overlap=40)


def texts(index: mergewise.Index) -> list[list[str]]:
    rows = index.store.reader().document_rows([d.id for d in DOCUMENTS])
    return [[x.text for x in row["slice"]] for row in rows if row["slice"]]


def test_view_added_later_equals_view_built_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VIEWS, "slice", replace(VIEWS["slice"], batch=2))
    first = mergewise.open(tmp_path / "a", embedder="none", settings={"slice": SMALL})
    first.add(DOCUMENTS)
    later = mergewise.open(tmp_path / "b", embedder="none")
    later.add(DOCUMENTS)
    with pytest.raises(UsageError, match="--views leaf,slice"):
        later.context("Which tower fell?", strategy="macrag")
    seen: list[int] = []
    tell = lambda done, total, name: seen.append(done)  # noqa: E731
    later = mergewise.open(tmp_path / "b", settings={"slice": SMALL}, progress=tell)
    sizes = [len(document.text) for document in DOCUMENTS]
    assert sorted(set(seen)) == [0, *(sum(sizes[: 2 * batch]) for batch in range(1, 6))] and seen == sorted(seen)
    assert later.check() == [] == first.check()
    assert texts(later) == texts(first) and len(texts(first)) == 9
    question = "Which tower fell in city 4?"
    assert later.context(question, strategy="macrag").text == first.context(question, strategy="macrag").text
    assert whole_views(mergewise.open(tmp_path / "b").manifest) == ("leaf", "slice")


def test_adding_and_removing_documents_keeps_the_view_complete(tmp_path: Path) -> None:
    index = mergewise.open(tmp_path / "i", embedder="none", views=("leaf", "slice"))
    index.add(DOCUMENTS)
    plain = mergewise.open(tmp_path / "i")  # keeps the view although it did not request it
    plain.add(Document("d3", "The city has a bridge now.", "City 3"), Document("new", "A new bridge.", "New"))
    plain.remove(["d1"])
    assert index.check() == []
    found = index.store.reader().document_rows(["d3", "new"])
    assert [row["slice"][0].text for row in found] == ["The city has a bridge now.", "A new bridge."]
    hits = index.context("bridge", strategy="macrag", budget=100)
    assert {span.doc_id for p in hits.passages for span in p.spans} == {"d3", "new"}


def test_index_opened_before_keeps_the_view(tmp_path: Path) -> None:
    old = mergewise.open(tmp_path / "i", embedder="none")
    new = mergewise.open(tmp_path / "i", views=("leaf", "slice"))
    old.add(DOCUMENTS[0])
    assert new.check() == [] and new.store.reader().row_counts()["slice"] > 0


def test_older_rows_get_the_view_later(tmp_path: Path) -> None:
    old = mergewise.open(tmp_path / "i", embedder="none")
    rows = rows_of(DOCUMENTS[:1])
    mergewise.open(tmp_path / "i", views=("leaf", "slice"))
    old.store.write(rows)
    assert old.check() == [] and len(old) == 1 and old.store.missing("slice") == ["d0"]
    old.add(DOCUMENTS[1])
    assert old.check() == [] and old.store.missing("slice") == []


def test_lost_slice_is_found_and_repaired(tmp_path: Path) -> None:
    index = mergewise.open(tmp_path / "i", embedder="none", settings={"slice": SMALL})
    index.add(DOCUMENTS)
    with index.store._writing() as change:  # type: ignore[union-attr]
        change.tables.open("slice").delete("doc = 2")
        change.tables.open("chunk").delete("doc = 5")
        change.tables.commit()
    assert {problem.doc_id for problem in index.check()} == {"d2", "d5"}
    assert index.check(repair=True) == []


def test_views_of_chunks_and_summaries(tmp_path: Path) -> None:
    settings = SliceSettings(chunk=160, overlap=40, vectors=("slice", "chunk", "summary"))
    index = mergewise.open(tmp_path / "i", settings={"slice": settings})
    index.add(DOCUMENTS)
    assert index.check() == []
    context = index.context("Which tower fell in city 4?", strategy="macrag(views=all)", budget=150)
    assert context.passages[0].spans[0].doc_id == "d4"
    plain = mergewise.open(tmp_path / "j", embedder="none", settings={"slice": SMALL})
    with pytest.raises(UsageError, match="no vectors of its chunk view"):
        plain.context("tower", strategy="macrag(views=all)")


# -- views that cannot be built


@pytest.fixture(params=[None, 2])
def plain(request: pytest.FixtureRequest, tmp_path: Path) -> mergewise.Index:
    """An index without an embedder and without a chat model, in one piece and in shards."""
    index = mergewise.open(tmp_path / "i", embedder="none", shards=request.param)
    index.add(DOCUMENTS)
    return index


BY_MODEL = MarkerSettings(made="model")
IMPOSSIBLE = [("pic", PICSettings(), "embedder"), ("marker", BY_MODEL, "missing chat model")]


@pytest.mark.parametrize(("view", "settings", "problem"), IMPOSSIBLE)
def test_a_view_that_cannot_be_built_changes_nothing(
    plain: mergewise.Index, tmp_path: Path, view: str, settings: Any, problem: str
) -> None:
    before = plain.snapshot
    # the view before it could be built
    with pytest.raises(UsageError, match=problem):
        plain.add_views({"outline": None, view: VIEWS[view].dump(settings)})
    with pytest.raises(UsageError, match=problem):
        mergewise.open(tmp_path / "i", settings={view: settings})
    with pytest.raises(UsageError, match=problem):
        mergewise.open(tmp_path / "new", embedder="none", settings={view: settings})
    assert plain.snapshot == before and not (tmp_path / "new").exists()
    assert plain.add(Document("new", "A new bridge.")).added == 1 and plain.check(repair=True) == []


@pytest.mark.parametrize("wrong", [{"made": "nonsense"}, {"colour": "red"}, {"segment": 0}])
def test_invalid_settings_change_nothing(plain: mergewise.Index, wrong: dict[str, Any]) -> None:
    before = plain.snapshot
    with pytest.raises(UsageError, match=next(iter(wrong))):
        plain.add_views({"marker": wrong})
    with pytest.raises(UsageError, match="unknown view"):
        plain.add_views({"nonsense": None})
    for form in (["slice"], {"slice": 5}):
        with pytest.raises(UsageError, match="invalid views"):
            plain.add_views(form)  # type: ignore[arg-type]
    assert plain.snapshot == before


@pytest.mark.parametrize("change", ["add", "repair", "sync"])
@pytest.mark.parametrize(("view", "settings", "problem"), IMPOSSIBLE)
def test_an_unfinished_view_that_cannot_be_built_is_dropped(
    plain: mergewise.Index, tmp_path: Path, change: str, view: str, settings: Any, problem: str
) -> None:
    """The view was begun by an older mergewise, or by a process with a chat model that was killed."""
    plain.store.begin_view(view, VIEWS[view].dump(settings))
    plain.store.begin_view("slice", VIEWS["slice"].dump(SMALL))
    if change == "repair":
        assert plain.check(repair=True) == []
    else:
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs/new.md").write_text("A new bridge.")
        assert (plain.add if change == "add" else plain.sync)(tmp_path / "docs").added == 1
    assert plain.manifest.views.keys() == {"leaf", "slice"} and plain.check() == []


def failing(after: int) -> ScriptedChat:
    """A chat model that fails after some answers."""
    return ScriptedChat(["The tower fell."] * after + [Turn(status=401)])


def test_a_view_stays_only_if_some_of_its_rows_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VIEWS, "slice", replace(VIEWS["slice"], batch=2))
    settings = {"slice": replace(SMALL, summary="abstractive")}
    mergewise.open(tmp_path / "i", embedder="none").add(DOCUMENTS)
    for after, views in ((2, {"leaf"}), (8, {"leaf", "slice"})):
        with pytest.raises(ModelError):
            mergewise.open(tmp_path / "i", chat=failing(after), settings=settings)
        assert mergewise.open(tmp_path / "i").manifest.views.keys() == views
    whole = mergewise.open(tmp_path / "i", chat=failing(1000), settings=settings)
    assert whole_views(whole.manifest) == ("leaf", "slice") and whole.check() == []


def test_only_a_repair_drops_a_view_with_some_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process with a chat model may be building it."""
    monkeypatch.setitem(VIEWS, "slice", replace(VIEWS["slice"], batch=2))
    plain = mergewise.open(tmp_path / "i", embedder="none")
    plain.add(DOCUMENTS)
    with pytest.raises(ModelError):
        mergewise.open(tmp_path / "i", chat=failing(8), settings={"slice": replace(SMALL, summary="abstractive")})
    with pytest.raises(UsageError, match="missing chat model"):
        plain.add(Document("new", "A new bridge."))
    assert plain.manifest.views.keys() == {"leaf", "slice"}
    assert plain.check(repair=True) == [] and plain.manifest.views.keys() == {"leaf"}
    assert plain.add(Document("new", "A new bridge.")).added == 1


# -- views that are removed


def test_a_view_is_removed_and_can_come_back_with_other_settings(plain: mergewise.Index, tmp_path: Path) -> None:
    other = mergewise.open(tmp_path / "i", settings={"slice": SMALL}, views=("leaf", "outline"))
    state, question = plain.state(), "Which tower fell in city 4?"
    found = plain.context(question, strategy="macrag").text
    other.remove_views(["slice"])
    assert plain.manifest.views.keys() == {"leaf", "outline"} == other.manifest.views.keys()
    assert plain.check() == [] and "chunk" not in plain.store.reader().row_counts()
    with pytest.raises(UsageError, match="--views leaf,slice"):
        plain.context(question, strategy="macrag")
    # a reader of the state before still has the rows
    assert state.store.row_counts()["slice"] > 0
    plain.add(Document("new", "A new bridge."))
    plain.store.place.clean(plain.manifest, all_of_it=True)
    assert not list((tmp_path / "i").rglob("slice.lance"))
    large = mergewise.open(tmp_path / "i", settings={"slice": SliceSettings(chunk=300)})
    assert large.check() == [] and large.context(question, strategy="macrag").text and found
    assert large.manifest.views["slice"].settings["chunk"] == 300


@pytest.mark.parametrize(
    ("names", "problem"),
    [(["leaf"], "the view 'leaf' cannot be removed"), (["slice"], "no such view"), ("pic", "a text")],
)
def test_views_that_cannot_be_removed(plain: mergewise.Index, names: Any, problem: str) -> None:
    before = plain.snapshot
    with pytest.raises(UsageError, match=problem):
        plain.remove_views(names)
    assert plain.snapshot == before


def test_a_view_that_another_process_removes_is_not_finished(
    plain: mergewise.Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VIEWS, "slice", replace(VIEWS["slice"], batch=2))
    other = mergewise.open(tmp_path / "i")

    def remove(done: int, total: int, name: str) -> None:
        if done and "slice" in other.manifest.views:
            other.remove_views(["slice"])

    with pytest.raises(StoreError, match="another process removed the view 'slice'"):
        plain.add_views({"slice": None}, remove)
    assert plain.manifest.views.keys() == {"leaf"} and plain.check() == []


def test_a_view_with_other_settings_gets_no_rows_of_the_old_ones(
    plain: mergewise.Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VIEWS, "slice", replace(VIEWS["slice"], batch=2))
    other = mergewise.open(tmp_path / "i")

    def make_anew(done: int, total: int, name: str) -> None:
        if done and other.manifest.views["slice"].settings["chunk"] == 300:
            other.remove_views(["slice"])
            other.store.begin_view("slice", VIEWS["slice"].dump() | {"chunk": 160})

    with pytest.raises(StoreError, match="another process removed the view 'slice'"):
        plain.add_views({"slice": {"chunk": 300}}, make_anew)
    plain.add_views({"slice": {"chunk": 160}})
    fresh = mergewise.open(
        tmp_path / "fresh", embedder="none", views=("leaf", "slice"), settings={"slice": SliceSettings(chunk=160)}
    )
    fresh.add(DOCUMENTS)
    assert plain.check() == [] and plain.manifest.views["slice"].settings["chunk"] == 160
    assert plain.store.reader().row_counts() == fresh.store.reader().row_counts()


def test_a_removed_view_does_not_stop_the_others(
    plain: mergewise.Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.add_views({"outline": None, "slice": None})
    plain.add(Document("new", "A new bridge."), embed="later")
    other, finish = mergewise.open(tmp_path / "i", embedder="none"), plain.store.finish_vectors

    def finish_while_another_removes() -> bool:
        other.remove_views(["slice"])
        return finish()

    monkeypatch.setattr(plain.store, "finish_vectors", finish_while_another_removes)
    assert plain.add(Document("newer", "A newer bridge.")).added == 1
    assert whole_views(plain.manifest) == ("leaf", "outline") == (*plain.manifest.views,) and plain.check() == []
