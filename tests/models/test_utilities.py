from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import HashEmbedder

from mergewise.errors import ModelError
from mergewise.models.record import utilities_of
from mergewise.models.scores import PairMemory, RememberingReranker
from mergewise.protocols import CountsCut, FloatArray


class Shares:
    spec = "shares"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        self.asked += texts
        return np.array([float(text) for text in texts], np.float32)


class Logits(Shares):
    spec = "logits"

    def logits(self, question: str, texts: Sequence[str]) -> FloatArray:
        self.asked += texts
        return np.array([float(text) for text in texts], np.float32)


def test_utilities_of_a_cross_encoder_are_its_logits_computed_once() -> None:
    reranker = Logits()
    predictor = utilities_of(reranker, HashEmbedder())
    assert predictor.spec == "logits"
    assert predictor.utilities("q", ["-3.5", "40", "-3.5"]) == [-3.5, 40.0, -3.5]
    assert predictor.utilities("q", ["40", "2"]) == [40.0, 2.0]
    assert reranker.asked == ["-3.5", "40", "2"]
    assert predictor.utilities("q", []) == []


def test_shares_are_converted_to_logits() -> None:
    predictor = utilities_of(RememberingReranker(Shares()), None)
    low, even, high, certain = predictor.utilities("q", ["0.1", "0.5", "0.9", "1"])
    assert (low, even, high) == pytest.approx((-np.log(9), 0, np.log(9)), abs=1e-5)
    assert high < certain < 20  # clipped, not infinite


def test_non_finite_scores_are_refused() -> None:
    with pytest.raises(ModelError, match="not finite"):
        utilities_of(Logits(), None).utilities("q", ["nan"])


def test_utilities_without_a_reranker() -> None:
    by_vectors, by_words = utilities_of(None, HashEmbedder()), utilities_of(None, None)
    texts = ["cats sleep all day", "a stone lies there"]
    for predictor in (by_vectors, by_words):
        near, far = predictor.utilities("cats sleep", texts)
        assert near > far and 0 <= far <= near <= 1.001
        assert predictor.utilities("cats sleep", []) == []
    assert isinstance(by_vectors, CountsCut) and by_vectors.count_cut("q", texts) == 0  # the embedder cannot count them
    assert "cosines of hash" in by_vectors.spec and by_words.utilities("the", texts) == [0.0, 0.0]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), max_size=12), st.integers(1, 4))
def test_a_cache_of_pairs_computes_each_once_in_batches(pairs: list[tuple[str, str]], batch: int) -> None:
    asked: list[list[tuple[str, str]]] = []

    def score(some: Sequence[tuple[str, str]]) -> list[float]:
        asked.append(list(some))
        return [ord(first) * ord(second) for first, second in some]

    memory = PairMemory(score, batch)
    for _ in range(2):
        assert memory.scores(pairs) == [ord(first) * ord(second) for first, second in pairs]
    assert [pair for some in asked for pair in some] == list(dict.fromkeys(pairs))
    assert all(0 < len(some) <= batch for some in asked)


def test_a_cache_of_pairs_drops_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mergewise.models.scores.REMEMBERED_PAIRS", 2)
    asked: list[str] = []

    def score(pairs: Sequence[tuple[str, str]]) -> list[float]:
        asked.extend(text for _, text in pairs)
        return [1.0] * len(pairs)

    memory = PairMemory(score)
    for text in "xyzyx":
        assert memory.scores([("q", text)]) == [1.0]
    assert "".join(asked) == "xyzx"
