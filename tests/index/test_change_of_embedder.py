"""Another embedder for an index: the same vectors as in a new index, in one change, without reading documents again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.support import HashEmbedder

import mergewise as mw
from mergewise.errors import Cancelled, IndexBusy, UsageError
from mergewise.index import vectors
from mergewise.store.restoring import restore_manifest


class Wide(HashEmbedder):
    spec, dimension = "wide", 160


def documents(first: int, end: int) -> list[mw.Document]:
    return [mw.Document(f"d{i}", f"The owl {i} eats {i % 7} mice. Nobody saw {i}.") for i in range(first, end)]


def stored(index: mw.Index) -> dict[str, list[list[float]]]:
    rows = index.store.reader().document_rows(sorted(index.store.reader().ids()))
    return {one.document.id: np.asarray(one.tables["leaf"].columns["vector"]).tolist() for one in rows}


@pytest.fixture(params=[None, 3])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> mw.Index:
    index = mw.open(tmp_path / "index", embedder=HashEmbedder(), shards=request.param)
    index.add(documents(0, 30))
    index.remove(["d7"])
    index.add(documents(30, 40))
    return index


def test_vectors_are_those_of_a_new_index(index: mw.Index, tmp_path: Path) -> None:
    other = mw.open(tmp_path / "index", embedder=HashEmbedder())
    assert other.context("owl 12").text
    texts = [index.document(f"d{i}").text for i in (3, 39)]
    count = index.embed(embedder=Wide())
    assert (count.leaves, count.embedded) == (39, 39) and (index.manifest.embedder, index.manifest.dimension) == (
        "wide",
        160,
    )
    new = mw.open(tmp_path / "new", embedder=Wide())
    new.add([one for one in documents(0, 40) if one.id != "d7"])
    assert stored(index) == stored(new) and index.check() == []
    assert [index.document(f"d{i}").text for i in (3, 39)] == texts
    assert index.context("owl 12", strategy="dense(k=3)").text == new.context("owl 12", strategy="dense(k=3)").text
    with pytest.raises(UsageError, match="your own embedder 'wide'"):
        other.context("owl 12")
    assert not list((tmp_path / "index").glob(".vectors-*"))
    index.add(documents(40, 42))
    assert index.check() == [] and index.vectors().waiting == 0
    index.embed(embedder=Wide())


def test_after_a_kill_finished_vectors_are_not_made_again(
    index: mw.Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "SENT_LEAVES", 4)
    before = stored(index)
    calls = iter([False] * 3 + [True] * 99)
    first = Wide()
    with pytest.raises(Cancelled):
        index.embed(embedder=first, cancel=lambda: next(calls))
    assert stored(index) == before and index.manifest.embedder == "hash" and index.context("owl 12").text
    index.add(documents(40, 41))
    again = Wide()
    index.embed(embedder=again)
    assert first.asked and not set(first.asked) & set(again.asked)
    assert index.manifest.embedder == "wide" and index.check() == []


def test_rows_that_are_written_meanwhile_get_vectors(index: mw.Index, monkeypatch: pytest.MonkeyPatch) -> None:
    replace, times = type(index.store).replace_vectors, iter([documents(50, 52), []])

    def busy(store: object, *arguments: object) -> None:
        if more := next(times):
            index.add(more)
        replace(store, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(type(index.store), "replace_vectors", busy)
    index.embed(embedder=Wide())
    assert index.manifest.embedder == "wide" and index.check() == [] and len(stored(index)["d51"][0]) == 160


def test_a_row_without_a_vector_changes_nothing(index: mw.Index) -> None:
    before = stored(index), index.manifest
    with pytest.raises(IndexBusy):
        index.store.replace_vectors("wide", 160, {"leaf": vectors._kept_vectors(index.store.directory / "nothing")})
    assert (stored(index), index.manifest) == before and index.check() == []


def test_other_views_with_vectors_are_made_anew(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder=HashEmbedder(), views=["leaf", "fixed"])
    index.add(documents(0, 12))
    index.embed(embedder=Wide())
    assert index.check() == [] and not index.store.missing("fixed") and "fixed" in index.store.reader().views


def test_a_lost_manifest_is_restored_with_the_later_embedder(tmp_path: Path) -> None:
    with mw.open(tmp_path / "index", embedder="none") as index:
        index.add(documents(0, 12))
        assert index.embed(embedder="minilm").waiting == 0
        assert index.context("owl 3", strategy="dense(k=1)").text
    (tmp_path / "index/manifest.json").unlink()
    assert restore_manifest(tmp_path / "index", mw.VIEWS, 5)
    with mw.open(tmp_path / "index") as index:
        assert index.manifest.embedder == "minilm" and index.context("owl 3").text


def test_no_embedder_is_no_other_embedder(index: mw.Index) -> None:
    before = stored(index)
    with pytest.raises(UsageError, match="no embedder"):
        index.embed(embedder="none")
    assert stored(index) == before
