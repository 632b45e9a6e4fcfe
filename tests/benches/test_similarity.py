"""Cosine against NLL: measures on matrices worked out by hand, and the scorer's input texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from benchmarks.similarity import chance, compared, rank_correlation, ranks, texts_of

import mergewise
from mergewise.protocols import FloatArray
from mergewise.types import Document


def test_ranks_share_the_mean_of_equal_values() -> None:
    assert ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [2.5, 0.0, 2.5, 1.0]
    assert ranks(np.array([5.0, 5.0, 5.0])).tolist() == [1.0, 1.0, 1.0]


def test_rank_correlation() -> None:
    rising = np.array([1.0, 2.0, 3.0, 4.0])
    assert rank_correlation(rising, np.exp(rising)) == pytest.approx(1.0)
    assert rank_correlation(rising, -rising) == pytest.approx(-1.0)
    # d = (0, -1, 1, 0): 1 - 6 * 2 / (4 * 15)
    assert rank_correlation(rising, np.array([1.0, 3.0, 2.0, 4.0])) == pytest.approx(0.8)
    assert rank_correlation(rising, np.ones(4)) is None


def test_the_measures_by_hand() -> None:
    """Four chunks. By cosine 0 and 1 are closest, and 2 and 3. By NLL 0 and 1 are closest, while 2 and 3 go to 0."""
    cosines = np.array([[1.0, 0.9, 0.1, 0.2], [0.9, 1.0, 0.3, 0.1], [0.1, 0.3, 1.0, 0.8], [0.2, 0.1, 0.8, 1.0]])
    nll = np.array([[0.0, 1.0, 3.0, 2.0], [1.0, 0.0, 2.0, 3.0], [5.0, 6.0, 0.0, 7.0], [5.0, 7.0, 6.0, 0.0]])
    found = compared(cosines, nll)
    assert found["same anchor"] == 0.5
    assert found["upper, L"] == 1.0
    assert found["upper, cos"] == 0.0
    # rows of cosines and of -L: (.9 .1 .2)/(-1 -3 -2), (.9 .3 .1)/(-1 -2 -3), (.1 .3 .8)/(-5 -6 -7), (.2 .1 .8)/(-5 -7 -6)
    assert found["rho, source"] == pytest.approx((1 + 1 - 1 + 0.5) / 4)
    means, every = [2, 2, 6, 6], [1, 3, 2, 1, 2, 3, 5, 6, 7, 5, 7, 6]
    assert found["by source"] == pytest.approx(np.var(means) / np.var(every))
    near = np.array([0.9, 0.1, 0.2, 0.9, 0.3, 0.1, 0.1, 0.3, 0.8, 0.2, 0.1, 0.8])
    assert found["rho"] == rank_correlation(near, -np.array(every, float))


def test_diagonal_is_ignored() -> None:
    rng = np.random.default_rng(0)
    cosines, nll = rng.random((6, 6)), rng.random((6, 6))
    other, also = cosines.copy(), nll.copy()
    np.fill_diagonal(other, 9.0)
    np.fill_diagonal(also, -9.0)
    assert compared(cosines, nll) == compared(other, also)


def test_a_constant_scorer_has_no_correlation() -> None:
    found = compared(np.random.default_rng(0).random((4, 4)), np.ones((4, 4)))
    assert (found["rho"], found["rho, source"], found["by source"]) == (None, None, None)


@pytest.mark.slow
def test_chance_matches_random_anchors() -> None:
    rng = np.random.default_rng(1)
    drawn = [compared(rng.random((6, 6)), rng.random((6, 6))) for _ in range(4000)]
    for name, share in chance(6).items():
        assert np.mean([row[name] for row in drawn]) == pytest.approx(share, abs=0.02)


class Recording:
    """A scorer that records its arguments."""

    spec = "recording"

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def nll(self, sources: Sequence[str], anchors: Sequence[str]) -> FloatArray:
        self.asked |= {*sources, *anchors}
        return np.ones((len(sources), len(anchors)), np.float32)


def test_texts_match_those_scored_by_merging(tmp_path: Path) -> None:
    lines = [
        f"The river {name} rose in the year 19{i}0 and the mill stood still."
        for i, name in enumerate("Aar Birs Cam Dee".split())
    ]
    documents = [Document(f"d{i}", f"# Rivers\n\n{line}\n") for i, line in enumerate(lines)]
    scorer = Recording()
    with mergewise.open(tmp_path / "index", embedder="none", scorer=scorer) as index:
        index.add(documents)
        question = "When did the river Cam rise?"
        texts = texts_of(index, question, 3)
        index.context(question, strategy="mergerag-asym(guard=no)", budget=20)
        assert len(texts) == 3 and "Cam" in texts[0]
        assert set(texts_of(index, question, 10)) <= scorer.asked
