"""The progress of indexing: in characters, never decreasing, and complete at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import HashEmbedder

import mergewise as mw
from mergewise.index.work import TEXTS_AT_ONCE, IndexingProgress
from mergewise.protocols import FloatArray, PartEmbedder


class PartsEmbedder(HashEmbedder):
    """An embedder whose vectors of parts begin with the part's offset."""

    def embed_parts(
        self, texts: Sequence[str], parts: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[FloatArray, list[FloatArray]]:
        rows = [np.array([[start, end] for start, end in own], np.float32).reshape(-1, 2) for own in parts]
        return self.embed_documents(texts), rows


def watched() -> tuple[IndexingProgress, list[tuple[int, int, str]]]:
    told: list[tuple[int, int, str]] = []
    return IndexingProgress(lambda done, total, name: told.append((done, total, name))), told


def test_two_files_worked_out_by_hand() -> None:
    progress, told = watched()
    progress.begin(150)
    progress.look_at("a.md")
    progress.count_read(100, 80)
    embedder = progress.watch(HashEmbedder(), 80, 2)
    assert embedder is not None
    embedder.embed_documents(["cats", "dogs"])
    embedder.embed_documents(["birds"])
    progress.count_written(80)
    progress.look_at("b.md")
    progress.finish()
    assert told == [
        (0, 150, ""),
        (0, 150, "a.md"),
        (0, 130, "a.md"),
        (40, 130, "a.md"),
        (80, 130, "a.md"),
        (80, 130, "a.md"),
        (80, 130, "b.md"),
        (130, 130, "b.md"),
    ]


def test_a_later_stage_names_no_document() -> None:
    progress, told = watched()
    progress.begin(10)
    progress.look_at("a.md")
    progress.begin_stage(10, 1)
    progress.tell()
    assert told[-1][2] == ""


def test_additional_work_is_added_without_a_message() -> None:
    progress, told = watched()
    progress.begin(10)
    progress.begin_more(5)
    assert told == [(0, 10, "")]
    progress.look_at("x")
    assert told[-1] == (0, 15, "x")


@given(st.lists(st.tuples(st.integers(0, 500), st.lists(st.floats(0, 1), max_size=4)), max_size=5))
def test_progress_never_decreases_and_never_exceeds_the_total(batches: list[tuple[int, list[float]]]) -> None:
    progress, told = watched()
    progress.begin(sum(characters for characters, _ in batches))
    for characters, shares in batches:
        tell = progress.shares_of(characters, 1)
        for share in shares:
            tell(share)
        progress.count_written(characters)
    progress.finish()
    done = [one for one, _, _ in told]
    assert done == sorted(done)
    assert all(one <= total for one, total, _ in told)
    assert done[-1] == sum(characters for characters, _ in batches)


@given(st.lists(st.text("ab ", min_size=1, max_size=5), max_size=7), st.integers(1, 3))
def test_a_watched_embedder_returns_unchanged_vectors(texts: list[str], at_once: int) -> None:
    import mergewise.index.work as work

    progress, told = watched()
    total = sum(map(len, texts))
    progress.begin(total)
    parts = [[(0, len(text)), (1, 1)] for text in texts]
    watched_one = progress.watch(PartsEmbedder(), total, 1)
    assert isinstance(watched_one, PartEmbedder)
    before, work.TEXTS_AT_ONCE = work.TEXTS_AT_ONCE, at_once
    try:
        rows, part_rows = watched_one.embed_parts(texts, parts)
    finally:
        work.TEXTS_AT_ONCE = before
    expected, expected_parts = PartsEmbedder().embed_parts(texts, parts)
    assert np.array_equal(rows, expected)
    assert len(part_rows) == len(texts)
    assert all(np.array_equal(one, other) for one, other in zip(part_rows, expected_parts, strict=True))
    assert len(told) == 1 + max(1, -(-len(texts) // at_once))
    assert total - told[-1][0] <= 1


def test_texts_are_embedded_in_parts_with_a_message_each() -> None:
    progress, told = watched()
    texts = ["cat"] * (TEXTS_AT_ONCE + 1)
    progress.begin(3 * len(texts))
    inner = HashEmbedder()
    embedder = progress.watch(inner, 3 * len(texts), 1)
    assert embedder is not None
    assert embedder.embed_documents(texts).shape == (len(texts), inner.dimension)
    assert [done for done, _, _ in told] == [0, 3 * TEXTS_AT_ONCE, 3 * len(texts)]
    assert (embedder.spec, embedder.dimension) == (inner.spec, inner.dimension)
    assert np.array_equal(embedder.embed_queries(["cat"]), inner.embed_queries(["cat"]))


def test_an_embedder_is_not_wrapped_without_a_listener() -> None:
    embedder = HashEmbedder()
    silent = IndexingProgress()
    silent.begin(3)
    assert silent.watch(embedder, 3, 1) is embedder
    silent.finish()
    assert watched()[0].watch(None, 3, 1) is None
    assert not isinstance(watched()[0].watch(embedder, 3, 1), PartEmbedder)


@pytest.mark.parametrize("resume", ["add", "embed"])
def test_a_resumed_run_continues_at_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resume: str) -> None:
    monkeypatch.setattr("mergewise.index.pipeline.SMALL", 0)
    monkeypatch.setattr("mergewise.index.vectors.FIRST_PART", 8)
    monkeypatch.setattr("mergewise.index.vectors.CHANGE_LEAVES", 8)
    documents = [mw.Document(f"d{i}", " ".join(f"Cat {i} eats fish {n}." for n in range(60))) for i in range(20)]
    index = mw.open(tmp_path / "index", embedder=HashEmbedder())
    shares: list[float] = []

    def tell(done: int, total: int, name: str) -> None:
        if total:
            shares.append(done / total)

    with pytest.raises(mw.Cancelled):
        index.add(documents, progress=tell, cancel=lambda: bool(shares) and shares[-1] > 0.5)
    before = shares[-1]
    shares.clear()
    index.add(documents, progress=tell) if resume == "add" else index.embed(progress=tell)
    assert before - 0.1 < shares[0] < before + 0.05
    assert shares == sorted(shares) and shares[-1] == 1


def test_unchanged_documents_count_as_done(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    index.add(mw.Document("a", "Cats eat. " * 60))
    told: list[tuple[int, int]] = []
    index.add(
        mw.Document("a", "Cats eat. " * 60),
        mw.Document("b", "Dogs eat. " * 40),
        progress=lambda *at: told.append(at[:2]),
    )
    assert told[-1] == (1000, 1000) and (600, 1000) in told and min(done for done, total in told if total) == 600
