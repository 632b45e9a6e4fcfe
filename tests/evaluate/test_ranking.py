"""Rankings of documents: metrics against trec_eval and ranx, and rankings of contexts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mergewise.evaluate.ranking import RANKING_SCORES, ranked_documents, ranking_score
from mergewise.types import Context, Passage, Span

ROWS = json.loads(Path(__file__).with_name("rankings.json").read_text())


def context(*passages: tuple[str, float]) -> Context:
    """Return a context with a passage for each document and score, in this order."""
    texts = tuple(Passage(name, score, (Span(name, i, i + 1),)) for i, (name, score) in enumerate(passages))
    return Context("q", "s", 100, "", 0, texts)


def test_metrics_match_trec_eval_and_ranx() -> None:
    """The expected values come from `make_rankings.py`."""
    for row in ROWS:
        ranked = [name for name, _ in ranked_documents(context(*row["run"].items()))]
        for name, value in row["values"].items():
            assert ranking_score(name, ranked, row["gold"]) == pytest.approx(value, abs=1e-9), name
        for k in (1, 2, 5, 10, 20):
            assert ranking_score(f"all@{k}", ranked, row["gold"]) == float(row["gold"].keys() <= set(ranked[:k]))


def test_a_document_is_ranked_by_its_best_passage() -> None:
    found = ranked_documents(context(("a", 1.0), ("b", 0.5), ("a", 0.2), ("b", 3.0), ("c", 1.0)))
    assert found == [("b", 3.0), ("c", 1.0), ("a", 1.0)]


def test_a_passage_of_several_documents_counts_for_each() -> None:
    both = Passage("x", 2.0, (Span("a", 0, 1), Span("b", 0, 1)))
    assert ranked_documents(Context("q", "s", 1, "", 0, (both,))) == [("b", 2.0), ("a", 2.0)]


def test_metrics_worked_out_by_hand() -> None:
    ranked = ["x", "a", "y", "b"]
    assert [ranking_score(name, ranked, {"a": 1, "b": 1, "c": 1}) for name in ("recall@1", "recall@2", "all@5", "mrr")] == [
        0, 1 / 3, 0, 1 / 2,
    ]  # fmt: skip
    # 1 / log2(3) + 2 / log2(5), divided by 2 / log2(2) + 1 / log2(3)
    assert ranking_score("ndcg@10", ranked, {"a": 1, "b": 2}) == pytest.approx(
        (0.63093 + 0.86135) / (2 + 0.63093), abs=1e-5
    )
    assert all(ranking_score(name, [], {"a": 1}) == 0 for name in RANKING_SCORES)
    # without gold there are no scores
    assert all(ranking_score(name, ranked, gold) is None for name in RANKING_SCORES for gold in ({}, {"a": 0}))
    with pytest.raises(ValueError, match="unknown metric"):
        ranking_score("map", ranked, {"a": 1})
