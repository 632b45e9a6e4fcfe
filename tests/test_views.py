"""Views of an index: requested at creation, added later, kept up to date, and reported if missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import mergewise
from mergewise.designs import VIEWS
from mergewise.designs.macrag.slices import SliceSettings
from mergewise.errors import UsageError
from mergewise.types import Document
from tests.support import rows_of

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
    assert mergewise.open(tmp_path / "b").manifest.whole == ("leaf", "slice")


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
        change.table("slice").delete("doc = 2")
        change.table("chunk").delete("doc = 5")
        change.commit()
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
