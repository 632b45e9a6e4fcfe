"""Metrics of ranked documents, as in public retrieval benchmarks and trec_eval.

    recall@k     the share of the gold documents among the first k
    all@k        1 if all gold documents are among the first k
    ndcg@10      the sum of gain / log2(rank + 1) over the first 10, relative to the best ranking (Järvelin, Kekäläinen 2002)
    mrr          1 / the rank of the first gold document

A document is ranked by the score of its best passage, because the passages of a context are in document order. Ties are broken
by the greater id, as in trec_eval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2

from mergewise.types import Context

RECALLED = (1, 2, 5, 10, 20)
GAINED = 10
RANKING_SCORES = (*(f"recall@{k}" for k in RECALLED), *(f"all@{k}" for k in RECALLED), f"ndcg@{GAINED}", "mrr")


def ranked_documents(context: Context) -> list[tuple[str, float]]:
    """Return the documents of a context with the scores of their best passages, best first."""
    scores: dict[str, float] = {}
    for passage in context.passages:
        for span in passage.spans:
            scores[span.doc_id] = max(passage.score, scores.get(span.doc_id, passage.score))
    return sorted(scores.items(), key=lambda one: (one[1], one[0]), reverse=True)


def ranking_score(name: str, ranked: Sequence[str], gains: Mapping[str, int]) -> float | None:
    """Compute a metric of a ranking.

    Args:
        name: the metric, such as "recall@5".
        ranked: document ids, best first.
        gains: the relevance of each gold document.

    Returns:
        The metric, or None if no document has a gain above 0.
    """
    gold = {document for document, gain in gains.items() if gain > 0}
    if not gold:
        return None
    kind, _, depth = name.partition("@")
    first = ranked[: int(depth)] if depth else ranked
    found = len(gold & set(first))
    match kind:
        case "recall":
            return found / len(gold)
        case "all":
            return float(found == len(gold))
        case "ndcg":
            best = sorted((gains[document] for document in gold), reverse=True)
            return _gain([gains.get(document, 0) for document in first]) / _gain(best[: int(depth)])
        case "mrr":
            return next((1 / rank for rank, document in enumerate(ranked, 1) if document in gold), 0.0)
    raise ValueError(f"unknown metric of rankings: {name!r}")


def _gain(gains: Sequence[int]) -> float:
    return sum(max(gain, 0) / log2(rank + 1) for rank, gain in enumerate(gains, 1))
