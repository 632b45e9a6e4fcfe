"""Pages of documents, and the snapshot: the state of an index that a list or a context comes from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mergewise as mw
from mergewise.store import lance_reader

IDS = ["b", "a/2", "a/10", "a", "a/1", "a'/x", "ä", "a/\U0001f600", "a/\uffff", "", "a\\x", "A"]
TEXTS = [*IDS, "a/", "a/1x", "\U0010ffff", "zz"]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> mw.Index:
    index = mw.open(tmp_path_factory.mktemp("i") / "index", embedder="none")
    index.add(mw.Document(doc_id, f"Cats eat fish number {n}.", metadata={"n": n}) for n, doc_id in enumerate(IDS))
    return index


@settings(max_examples=30, deadline=None)
@given(
    prefix=st.sampled_from(TEXTS) | st.text(max_size=2),
    after=st.none() | st.sampled_from(TEXTS) | st.text(max_size=2),
    limit=st.none() | st.integers(0, 13),
    at_once=st.sampled_from([3, 1000]),
)
def test_page_is_a_slice_of_the_sorted_list(
    index: mw.Index, prefix: str, after: str | None, limit: int | None, at_once: int
) -> None:
    wanted = sorted(doc_id for doc_id in IDS if doc_id.startswith(prefix) and (after is None or doc_id > after))[:limit]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lance_reader, "DOCUMENTS_AT_ONCE", at_once)
        page = index.documents(prefix, after=after, limit=limit)
    if prefix or after is not None or limit is not None:
        assert [info.id for info in page] == wanted
    assert all(IDS[info.metadata["n"]] == info.id for info in page)  # type: ignore[index]


@given(st.integers(1, 13))
@settings(max_examples=4, deadline=None)
def test_consecutive_pages_list_all_documents(index: mw.Index, limit: int) -> None:
    listed: list[str] = []
    after = None
    while page := index.documents(after=after, limit=limit):
        listed += [info.id for info in page]
        after = listed[-1]
    assert listed == sorted(IDS) and [info.id for info in index.documents()] == IDS


def test_paging_continues_after_a_removed_document(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    index.add(mw.Document(doc_id, "Cats eat fish.") for doc_id in "abcd")
    assert [info.id for info in index.documents(limit=2)] == ["a", "b"]
    index.remove(["b"])
    index.add(mw.Document("a", "Cats eat mice."))
    assert [info.id for info in index.documents(after="b", limit=2)] == ["c", "d"]
    for wrong in ({"limit": -1}, {"limit": "2"}, {"prefix": 5}, {"after": 5}):
        with pytest.raises(mw.UsageError):
            index.documents(**wrong)


def test_snapshot_identifies_a_state_of_an_index(tmp_path: Path) -> None:
    seen: list[str] = []

    def look(index: mw.Index) -> str:
        context, prepared = index.context("Who eats fish?", budget=40), index.prepare("Who eats fish?")
        assert index.snapshot == context.snapshot == prepared.context.snapshot == index.snapshot
        assert prepared.answer().context.snapshot == index.snapshot
        seen.append(index.snapshot)
        return index.snapshot

    document = mw.Document("a", "Cats eat fish.")
    for _ in range(2):
        index = mw.open(tmp_path / "index", embedder="none")
        look(index)
        index.add(document)
        look(index)
        assert mw.open(tmp_path / "index").snapshot == index.snapshot
        index.add(document)
        assert index.snapshot == seen[-1]
        index.describe(["a"], {"year": 3})
        look(index)
        index.add(mw.Document("b", "Dogs eat meat."))
        look(index)
        index.remove(["a"])
        look(index)
        # the next index is created in the same place by the same steps
        shutil.rmtree(tmp_path / "index")
    # the two empty states are equal
    assert len(set(seen)) == len(seen) - 1 and all(len(one) == 16 for one in seen)
