"""One ranking out of two: reciprocal ranks, or a convex combination of normalised scores."""

from __future__ import annotations

from collections.abc import Sequence

from mergewise.protocols import Ranking


def reciprocal_rank(rankings: Sequence[Ranking], constant: float = 60.0) -> dict[int, float]:
    """Sum of 1 / (constant + rank) over the rankings, ranks from 1 (Cormack et al. 2009); scaled, so that first in all is 1."""
    best = len(rankings) / (constant + 1)
    fused: dict[int, float] = {}
    for ranking in rankings:
        for rank, (row, _) in enumerate(ranking, 1):
            fused[row] = fused.get(row, 0.0) + 1 / (constant + rank) / best
    return fused


def convex(text: Ranking, vector: Ranking, weight: float) -> dict[int, float]:
    """weight * vector score + (1 - weight) * text score, each normalised to [0, 1] (Bruch et al. 2023, section 4).

    BM25 scores are divided by the largest of them, since the smallest possible one is 0. Cosines are spread so that the
    smallest becomes 0 and the largest 1, since their range differs from embedder to embedder. A row that one of the searches
    did not return has the score 0 in it.
    """
    text_scores, vector_scores = over_largest(text), spread(vector)
    rows = text_scores.keys() | vector_scores.keys()
    return {row: weight * vector_scores.get(row, 0.0) + (1 - weight) * text_scores.get(row, 0.0) for row in rows}


def over_largest(ranking: Ranking) -> dict[int, float]:
    largest = max((score for _, score in ranking), default=0.0)
    return {row: score / largest if largest > 0 else 0.0 for row, score in ranking}


def spread(ranking: Ranking) -> dict[int, float]:
    scores = [score for _, score in ranking]
    if not scores:
        return {}
    low, high = min(scores), max(scores)
    return {row: (score - low) / (high - low) if high > low else 1.0 for row, score in ranking}
