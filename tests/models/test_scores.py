"""Scores in [0, 1], and the record of models for one question."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import HashEmbedder

from mergewise.errors import ModelError
from mergewise.models.record import EmbedderUtilities, Models, RerankerUtilities, WordUtilities
from mergewise.models.scores import PairMemory, RememberingReranker, log_odds, logistic, scale_of, unit_interval
from mergewise.models.tokens import count_tokens
from mergewise.protocols import FloatArray


class Lengths:
    """A reranker by the length of texts, which records its calls."""

    spec = "lengths"

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        self.asked.append((question, list(texts)))
        return np.array([1 / (1 + len(text)) for text in texts], np.float32)


@pytest.mark.parametrize(
    ("scores", "scale"),
    [
        ([], "shares"),
        ([0.0, 1.0], "shares"),
        ([-0.0009, 1.0009], "shares"),
        ([0.5, 1.1], "logits"),
        ([-0.1, 0.5], "logits"),
    ],
)
def test_the_scale_is_guessed_from_fitting_and_unrelated_texts(scores: list[float], scale: str) -> None:
    assert scale_of(scores) == scale


@given(st.lists(st.floats(-30, 30), max_size=8))
def test_logits_become_shares_by_the_logistic_function(logits: list[float]) -> None:
    expected = [1 / (1 + exp(-logit)) for logit in logits]
    assert logistic(np.array(logits, np.float64)).tolist() == pytest.approx(expected)
    assert unit_interval(logits, "logits").tolist() == pytest.approx(expected, rel=1e-6)


def test_huge_logits_do_not_overflow() -> None:
    low, high = unit_interval([-1e300, 1e300], "logits").tolist()
    assert (low < 1e-20, high) == (True, 1.0)


def test_rounding_errors_of_shares_are_clipped_and_others_refused() -> None:
    assert unit_interval([-0.0005, 0.25, 1.0005], "shares").tolist() == [0.0, 0.25, 1.0]
    with pytest.raises(ModelError, match="outside"):
        unit_interval([0.5, 1.5], "shares")


@pytest.mark.parametrize("bad", [nan, inf, -inf])
def test_non_finite_scores_are_refused_on_both_scales(bad: float) -> None:
    for scale in ("shares", "logits"):
        with pytest.raises(ModelError, match="not finite"):
            unit_interval([0.5, bad], scale)


@given(st.lists(st.sampled_from("abc"), max_size=3), st.lists(st.sampled_from("xyz"), max_size=3))
def test_a_table_has_a_row_per_source_and_a_column_per_anchor(sources: list[str], anchors: list[str]) -> None:
    places = {pair: number for number, pair in enumerate((a, b) for a in "abc" for b in "xyz")}
    table = PairMemory(lambda pairs: [places[pair] for pair in pairs]).table(sources, anchors)
    assert table.shape == (len(sources), len(anchors))
    for i, source in enumerate(sources):
        for j, anchor in enumerate(anchors):
            assert table[i, j] == places[source, anchor]


def test_a_failure_is_not_cached() -> None:
    answers: list[list[float] | Exception] = [ModelError("down", ""), [0.5]]

    def score(pairs: Sequence[tuple[str, str]]) -> list[float]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    memory = PairMemory(score)
    with pytest.raises(ModelError):
        memory.scores([("q", "t")])
    assert memory.scores([("q", "t")]) == memory.scores([("q", "t")]) == [0.5]


def test_too_few_scores_are_an_error() -> None:
    with pytest.raises(ValueError):
        PairMemory(lambda pairs: [0.5]).scores([("q", "a"), ("q", "b")])


# -- the models of one question


def test_each_text_of_a_question_is_scored_once() -> None:
    reranker = Lengths()
    models = Models(count_tokens, reranker=reranker).for_question()
    assert isinstance(models.reranker, RememberingReranker)
    first = models.reranker.score("q", ["aa", "b", "aa"])
    assert first.tolist() == pytest.approx([1 / 3, 1 / 2, 1 / 3])
    assert models.reranker.score("q", ["b", "ccc"]).tolist() == pytest.approx([1 / 2, 1 / 4])
    assert models.reranker.score("other", ["b"]).tolist() == pytest.approx([1 / 2])
    assert reranker.asked == [("q", ["aa", "b"]), ("q", ["ccc"]), ("other", ["b"])]
    assert models.reranker.spec == "lengths"


def test_another_question_asks_again() -> None:
    reranker = Lengths()
    models = Models(count_tokens, reranker=reranker)
    for _ in range(2):
        own = models.for_question().reranker
        assert own is not None
        own.score("q", ["a"])
    assert len(reranker.asked) == 2


@pytest.mark.parametrize(
    ("models", "kind"),
    [
        (Models(count_tokens), WordUtilities),
        (Models(count_tokens, HashEmbedder()), EmbedderUtilities),
        (Models(count_tokens, HashEmbedder(), reranker=Lengths()), RerankerUtilities),
    ],
)
def test_utilities_use_the_best_available_model(models: Models, kind: type) -> None:
    assert isinstance(models.utilities, kind)
    assert isinstance(models.for_question().predictor, kind)


def test_a_given_predictor_is_kept() -> None:
    given_one = WordUtilities()
    models = Models(count_tokens, HashEmbedder(), reranker=Lengths(), predictor=given_one)
    assert models.utilities is given_one
    assert models.for_question().predictor is given_one


def test_other_models_are_passed_on_unchanged() -> None:
    embedder = HashEmbedder()
    models = Models(count_tokens, embedder, stored_tokens=True).for_question()
    assert (models.embedder, models.reranker, models.stored_tokens) == (embedder, None, True)


def test_log_odds_are_the_inverse_of_the_logistic_function() -> None:
    odds = [log_odds(probability) for probability in (0.0, 0.25, 0.5, 1.0)]
    assert logistic(np.array(odds)) == pytest.approx([1e-4, 0.25, 0.5, 1 - 1e-4])
