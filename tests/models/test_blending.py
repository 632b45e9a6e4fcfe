"""The next token of several streams, against both formulas in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import examples

from mergewise.models.blending import choose, row_tables
from mergewise.protocols import Blend

WORDS = 5


def normalised(values: Sequence[float]) -> list[float]:
    return [value / sum(values) for value in values]


rows_of_shares = st.lists(
    st.lists(st.floats(0.01, 1), min_size=WORDS, max_size=WORDS).map(normalised), min_size=4, max_size=4
)


@st.composite
def blends(draw: st.DrawFn) -> tuple[list[list[int]], list[list[float]]]:
    """Draw one to three questions with one to four streams each."""
    rows = draw(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True), min_size=1, max_size=3))
    weights = [normalised(draw(st.lists(st.floats(0.05, 1), min_size=len(own), max_size=len(own)))) for own in rows]
    return rows, weights


def scores_of(
    shares: Sequence[Sequence[float]], rows: Sequence[int], weights: Sequence[float], mixture: bool
) -> list[float]:
    """Compute Eq. 14 or REPLUG's sum for each token."""
    if mixture:
        return [log(sum(w * shares[row][v] for row, w in zip(rows, weights, strict=True))) for v in range(WORDS)]
    return [sum(w * log(shares[row][v]) for row, w in zip(rows, weights, strict=True)) for v in range(WORDS)]


@settings(max_examples=examples(60))
@given(rows_of_shares, blends(), st.booleans())
def test_the_best_token_matches_the_formula(
    shares: list[list[float]], blend: tuple[list[list[int]], list[list[float]]], mixture: bool
) -> None:
    rows, weights = blend
    chosen = choose(np.log(np.array(shares)), Blend(rows, weights, mixture))
    for number, (own, own_weights) in enumerate(zip(rows, weights, strict=True)):
        scores = scores_of(shares, own, own_weights, mixture)
        token = chosen.tokens[number]
        assert scores[token] == pytest.approx(max(scores))
        assert chosen.log_probs[number] == pytest.approx([log(shares[row][token]) for row in own])
        agreement = sum(
            prod(shares[row][v] ** w for row, w in zip(own, own_weights, strict=True)) for v in range(WORDS)
        )
        assert chosen.agreement[number] == pytest.approx(min(1.0, agreement))


def test_an_impossible_token_of_a_stream_is_excluded_by_the_product_only() -> None:
    shares = np.array([[0.9, 0.1, 0.0], [0.0, 0.4, 0.6]])
    with np.errstate(divide="ignore"):
        log_probs = np.log(shares)
    product = choose(log_probs, Blend([[0, 1]], [[0.5, 0.5]]))
    mixture = choose(log_probs, Blend([[0, 1]], [[0.5, 0.5]], mixture=True))
    assert (product.tokens, mixture.tokens) == ([1], [0])
    assert mixture.log_probs[0][1] == -inf
    assert product.agreement == pytest.approx([(0.1 * 0.4) ** 0.5])


def test_streams_without_common_tokens_have_no_agreement() -> None:
    with np.errstate(divide="ignore"):
        log_probs = np.log(np.array([[1.0, 0.0], [0.0, 1.0]]))
    for mixture in (False, True):
        assert choose(log_probs, Blend([[0, 1]], [[0.5, 0.5]], mixture)).agreement == [0.0]


def test_a_stream_of_weight_0_has_no_effect() -> None:
    with np.errstate(divide="ignore"):
        log_probs = np.log(np.array([[0.9, 0.1], [0.0, 1.0]]))
    for mixture in (False, True):
        chosen = choose(log_probs, Blend([[0, 1]], [[1.0, 0.0]], mixture))
        assert chosen.tokens == [0]
        assert chosen.agreement == pytest.approx([1.0])


def test_missing_streams_get_weight_0() -> None:
    index, weights = row_tables(Blend([[2], [0, 1]], [[1.0], [0.25, 0.75]]))
    assert index.tolist() == [[2, 2], [0, 1]]
    assert weights.tolist() == [[1.0, 0.0], [0.25, 0.75]]
