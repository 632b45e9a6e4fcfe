"""Fusion against literal transcriptions of its formulas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.retrieve.hybrid import convex, reciprocal_rank

rankings = st.dictionaries(st.integers(0, 20), st.floats(0.001, 100), max_size=15).map(
    lambda scores: sorted(scores.items(), key=lambda pair: -pair[1])
)


@given(st.lists(rankings, min_size=1, max_size=3), st.floats(1, 100))
def test_reciprocal_rank_equals_its_formula(lists: list[list[tuple[int, float]]], constant: float) -> None:
    fused = reciprocal_rank(lists, constant)
    for row in {row for ranking in lists for row, _ in ranking}:
        expected = 0.0
        for ranking in lists:
            ids = [row_id for row_id, _ in ranking]
            if row in ids:
                expected += 1 / (constant + ids.index(row) + 1)
        assert fused[row] == pytest.approx(expected * (constant + 1) / len(lists))
        assert 0 < fused[row] <= 1 + 1e-9


@given(rankings, rankings, st.floats(0, 1))
def test_convex_equals_its_formula(
    text: list[tuple[int, float]], vector: list[tuple[int, float]], weight: float
) -> None:
    fused = convex(text, vector, weight)
    bm25, cosine = dict(text), dict(vector)
    assert fused.keys() == bm25.keys() | cosine.keys()
    for row, score in fused.items():
        t = bm25[row] / max(bm25.values()) if row in bm25 else 0.0
        low, high = (min(cosine.values()), max(cosine.values())) if cosine else (0.0, 0.0)
        v = 0.0 if row not in cosine else 1.0 if high == low else (cosine[row] - low) / (high - low)
        assert score == pytest.approx(weight * v + (1 - weight) * t)
        assert -1e-9 <= score <= 1 + 1e-9
