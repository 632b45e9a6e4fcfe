"""Rankings of documents: metrics against trec_eval and ranx, and rankings of contexts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import log
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.errors import UsageError
from mergewise.evaluate.ranking import MEASURES, RANKING_SCORES, is_measure, ranked_documents, ranking_score
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


@pytest.mark.parametrize("name", ["map", "P", "R", "all", "Success", "Rprec@3", "P@0", "nDCG@x", "ndcg@", "@5", ""])
def test_unknown_names_and_cut_offs_are_rejected(name: str) -> None:
    with pytest.raises(UsageError, match="unknown metric"):
        ranking_score(name, ["a"], {"a": 1})
    assert not is_measure(name)


def literal(name: str, cut: int, ranked: Sequence[str], gains: Mapping[str, int]) -> float:
    """Carry out the definitions one rank at a time."""
    gold = {name for name, gain in gains.items() if gain > 0}
    depth = cut or 1000
    at = {rank: ranked[rank - 1] for rank in range(1, min(depth, len(ranked)) + 1)}

    def precision_at(rank: int) -> float:
        return sum(1 for r in range(1, rank + 1) if at.get(r) in gold) / rank

    def dcg(documents: Mapping[int, str]) -> float:
        return sum(max(0, gains.get(name, 0)) * log(2) / log(rank + 1) for rank, name in documents.items())

    ideal = sorted(gold, key=lambda name: -gains[name])[:depth]
    hits = [rank for rank in at if at[rank] in gold]
    return {
        "P": lambda: precision_at(cut),
        "R": lambda: len(hits) / len(gold),
        "AP": lambda: sum(precision_at(rank) for rank in hits) / len(gold),
        "RR": lambda: 1 / min(hits) if hits else 0.0,
        "nDCG": lambda: dcg(at) / dcg(dict(enumerate(ideal, 1))),
        "Success": lambda: float(len(hits) > 0),
        "Rprec": lambda: precision_at(len(gold)),
        "all": lambda: float(len(hits) == len(gold)),
    }[name]()


@given(
    st.lists(st.sampled_from("abcdefgh"), unique=True),
    st.dictionaries(st.sampled_from("abcdefghij"), st.integers(-1, 3), min_size=1),
    st.integers(1, 12),
)
def test_each_measure_follows_its_definition(ranked: list[str], gains: dict[str, int], cut: int) -> None:
    for kind, measure in MEASURES.items():
        for depth in {True: (cut,), False: (0,), None: (0, cut)}[measure.cut]:
            found = ranking_score(f"{kind}@{depth}" if depth else kind, ranked, gains)
            if max(gains.values()) <= 0:
                assert found is None
            else:
                assert found == pytest.approx(literal(kind, depth, ranked, gains)), (kind, depth)
