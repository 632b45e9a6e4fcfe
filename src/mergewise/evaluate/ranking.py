"""Metrics of ranked documents, as in public retrieval benchmarks, trec_eval and ir_measures.

`MEASURES` holds each measure by the name that ir_measures gives it. A name may have a cut-off: `nDCG@20`, `P@5`, `AP`. The stored
scores have older names for three of them: recall@k is R@k, ndcg@k is nDCG@k, and mrr is RR. Gains are not exponential.

A document is ranked by the score of its best passage, because the passages of a context are in document order. Ties are broken
by the greater id, as in trec_eval.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import log2
from typing import NamedTuple

from mergewise.errors import UsageError
from mergewise.types import Context

RECALLED = (1, 2, 5, 10, 20)
RANKING_SCORES = (*(f"recall@{k}" for k in RECALLED), *(f"all@{k}" for k in RECALLED), "ndcg@10", "mrr")


def ranked_documents(context: Context) -> list[tuple[str, float]]:
    """Return the documents of a context with the scores of their best passages, best first."""
    scores: dict[str, float] = {}
    for passage in context.passages:
        for span in passage.spans:
            scores[span.doc_id] = max(passage.score, scores.get(span.doc_id, passage.score))
    return sorted(scores.items(), key=lambda one: (one[1], one[0]), reverse=True)


class RankingMeasure(NamedTuple):
    """A measure of a ranking.

    `score` takes the gains of the ranked documents up to the cut-off, the gains of all gold documents, greatest first, and the
    cut-off, or 0 without one. `cut` is True if the cut-off is required, and False if there is none.
    """

    about: str
    score: Callable[[Sequence[int], Sequence[int], int], float]
    cut: bool | None = None


def _precision(gains: Sequence[int], gold: Sequence[int], depth: int) -> float:
    return sum(gain > 0 for gain in gains) / depth


def _recall(gains: Sequence[int], gold: Sequence[int], depth: int) -> float:
    return sum(gain > 0 for gain in gains) / len(gold)


def _average_precision(gains: Sequence[int], gold: Sequence[int], depth: int) -> float:
    hits = [rank for rank, gain in enumerate(gains, 1) if gain > 0]
    return sum(number / rank for number, rank in enumerate(hits, 1)) / len(gold)


def _reciprocal_rank(gains: Sequence[int], gold: Sequence[int], depth: int) -> float:
    return next((1 / rank for rank, gain in enumerate(gains, 1) if gain > 0), 0.0)


def _discounted_gain(gains: Sequence[int], gold: Sequence[int], depth: int) -> float:
    return _sum_of_gains(gains) / _sum_of_gains(gold[:depth] if depth else gold)


MEASURES: Mapping[str, RankingMeasure] = {
    "P": RankingMeasure("share of gold documents among the first k", _precision, True),
    "R": RankingMeasure("share of the gold documents that are among the first k", _recall, True),
    "AP": RankingMeasure("mean of the precisions at the ranks of the gold documents", _average_precision),
    "RR": RankingMeasure("1 / rank of the first gold document", _reciprocal_rank),
    "nDCG": RankingMeasure(
        "gains discounted by rank, relative to the best ranking (Järvelin, Kekäläinen 2002)", _discounted_gain
    ),
    "Success": RankingMeasure(
        "share of questions with a gold document among the first k", lambda gains, gold, depth: float(any(gains)), True
    ),
    "Rprec": RankingMeasure(
        "precision at the number of gold documents",
        lambda gains, gold, depth: _recall(gains[: len(gold)], gold, depth),
        False,
    ),
    "all": RankingMeasure(
        "share of questions with all gold documents among the first k",
        lambda gains, gold, depth: float(_recall(gains, gold, depth) == 1),
        True,
    ),
}
_OLDER = {"recall": "R", "ndcg": "nDCG", "mrr": "RR"}
_NAME = re.compile(r"([A-Za-z]+)(?:@([1-9]\d{0,5}))?")


def is_measure(name: str) -> bool:
    """Check that this is the name of a measure, with the cut-off that it needs."""
    return _measure_of(name) is not None


def measure_of(name: str) -> tuple[RankingMeasure, int]:
    """Return a measure and its cut-off, or 0 without one. Raises UsageError for an unknown name."""
    if (known := _measure_of(name)) is None:
        usual = ", ".join(f"{known}@K" if one.cut else known for known, one in MEASURES.items())
        raise UsageError(f"unknown metric of rankings: {name!r}", f"one of: {usual}; AP, RR and nDCG also with @K")
    return known


@lru_cache
def _measure_of(name: str) -> tuple[RankingMeasure, int] | None:
    parts = _NAME.fullmatch(name)
    if parts is None or (known := MEASURES.get(_OLDER.get(parts[1], parts[1]))) is None:
        return None
    return None if known.cut not in (None, bool(parts[2])) else (known, int(parts[2] or 0))


def ranking_score(name: str, ranked: Sequence[str], gains: Mapping[str, int]) -> float | None:
    """Compute a measure of a ranking.

    Args:
        name: the measure, such as "nDCG@5".
        ranked: document ids, best first.
        gains: the relevance of each gold document.

    Returns:
        The score, or None if no document has a gain above 0.

    Raises:
        UsageError: for an unknown name.
    """
    known, cut = measure_of(name)
    gold = sorted((gain for gain in gains.values() if gain > 0), reverse=True)
    first = [max(gains.get(document, 0), 0) for document in (ranked[:cut] if cut else ranked)]
    return known.score(first, gold, cut) if gold else None


def _sum_of_gains(gains: Sequence[int]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))
