"""The features of completeness against a literal transcription, and the properties of its probability."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mergewise.designs.strategies import assemble
from mergewise.designs.weave.completeness import (
    COMPLETENESS_FEATURES,
    COMPLETENESS_WEIGHTS,
    FAINT,
    OWN_BIAS,
    OWN_SLOPE,
    features,
    probabilities,
    worthwhile,
)
from mergewise.designs.weave.evidence import WEIGHTS, Candidates
from mergewise.designs.weave.parameters import Weave
from mergewise.designs.weave.strategy import gather
from mergewise.designs.weave.submodular import Selection
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from tests.conftest import examples
from tests.designs.weave.support import FILMS, MANUAL, reader_of
from tests.support import HashEmbedder

QUESTIONS = (
    "Where was the director of Silent Rain born?",
    "Which film came out first, Silent Rain or Loud Snow?",
    "alarm 7",
    "zebra",
)
READERS = {embedded: reader_of(FILMS, MANUAL, embedder=HashEmbedder() if embedded else None) for embedded in (0, 1)}
MODELS = Models(count_tokens, stored_tokens=True)
GATHERED = {(q, e): gather(q, READERS[e], Weave(), []) for q in QUESTIONS for e in READERS}
GATHERED = {key: candidates for key, candidates in GATHERED.items() if len(candidates.pool)}


def literal(candidates: Candidates, chosen: list[int]) -> dict[str, float]:
    pool, signals = candidates.pool, candidates.signals
    sentences, relevance = pool.sentences, [float(r) for r in candidates.relevance]
    left = [i for i in range(len(sentences)) if i not in chosen]
    sections = {sentences[i].section for i in chosen}
    documents = {sentences[i].leaf.doc_id for i in chosen}
    beside = [i for i in left if sentences[i].section in sections]
    elsewhere = [i for i in left if sentences[i].leaf.doc_id in documents and i not in beside]
    tokens = sum(sentences[i].tokens for i in chosen)
    best = min(max([relevance[i] for i in left], default=0), 1 - FAINT)
    best = max(best, FAINT)
    held = set().union(*(pool.covered_terms[i] for i in chosen))
    known = set().union(*pool.covered_terms)
    named = [
        1 - max((relevance[i] for i in chosen if sentences[i].section == section), default=0)
        for section in signals.named
        if pool.members.get(section)
    ]
    links = [link.strength for section in sections for link in signals.links.get(section, [])]
    return {
        "tokens": math.log(tokens),
        "length": math.log(tokens / len(chosen)),
        "sections": math.log(FAINT + sum(relevance[i] for i in beside)),
        "documents": math.log(FAINT + sum(relevance[i] for i in elsewhere)),
        "best": math.log(best / (1 - best)),
        "lacking": pool.share(known - held),
        "terms": math.log(1 + len(pool.asked.terms)),
        "search": max(pool.scores.values(), default=0),
        "named": max(named, default=0),
        "linked": max(links, default=0),
        "comparison": float(pool.asked.kind == "comparison"),
    }


@settings(max_examples=examples(60))
@given(st.sampled_from(list(GATHERED)), st.data())
def test_the_features_are_their_definitions(key: tuple[str, int], data: st.DataObject) -> None:
    candidates = GATHERED[key]
    order = data.draw(st.lists(st.sampled_from(range(len(candidates.pool))), min_size=1, unique=True))
    sizes = sorted(data.draw(st.sets(st.integers(1, len(order)), min_size=1)))
    expected = [[literal(candidates, order[:size])[name] for name in COMPLETENESS_FEATURES] for size in sizes]
    assert features(candidates, order, sizes) == pytest.approx(np.array(expected), rel=1e-4, abs=1e-4)
    z = np.array(expected) @ [COMPLETENESS_WEIGHTS[name] for name in COMPLETENESS_FEATURES]
    p = probabilities(candidates, order, sizes)
    assert p == pytest.approx(1 / (1 + np.exp(-z - COMPLETENESS_WEIGHTS["bias"])), abs=1e-3)
    assert ((p >= 0) & (p <= 1)).all()


def test_each_kind_of_feature_occurs_in_these_questions() -> None:
    rows = np.concatenate([features(c, range(len(c.pool)), range(1, len(c.pool) + 1)) for c in GATHERED.values()])
    assert (np.ptp(rows, axis=0) > 0).all()


def test_the_questions_of_a_user_shift_the_log_odds() -> None:
    candidates = gather(QUESTIONS[0], READERS[1], Weave(), [], {**WEIGHTS, OWN_BIAS: -1.0, OWN_SLOPE: 0.5})
    (own,) = probabilities(candidates, [0, 1], [2])
    (shipped,) = probabilities(GATHERED[QUESTIONS[0], 1], [0, 1], [2])
    assert math.log(own / (1 - own)) == pytest.approx(0.5 * math.log(shipped / (1 - shipped)) - 1)


def test_auto_takes_the_steps_that_are_worth_their_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    rising = np.array([0.3, 0.6, 0.7, 0.71])
    monkeypatch.setattr("mergewise.designs.weave.completeness.probabilities", lambda *given: rising)
    steps = Selection((0, 1, 2, 3), (1, 1, 1, 1), 4, (1, 2, 3, 4), (100, 200, 300, 400))
    candidates = GATHERED[QUESTIONS[0], 1]
    assert [worthwhile(candidates, steps.order, steps, price) for price in (0, 5e-4, 2e-3, 0.1)] == [4, 3, 2, 1]


@settings(max_examples=examples(40))
@given(st.sampled_from(QUESTIONS), st.sampled_from([0, 1]), st.integers(1, 300), st.sampled_from([0, 0.05, 0.3, 1]))
def test_contexts_stay_within_the_budget_and_are_deterministic(
    question: str, embedded: int, budget: int, price: float
) -> None:
    full = assemble("weave", question, READERS[embedded], budget, MODELS)
    found, again = (assemble(f"weave(price={price})", question, READERS[embedded], budget, MODELS) for _ in range(2))
    assert found == again and found.complete == again.complete and found.tokens <= budget
    assert found.complete is not None and 0 <= found.complete <= 1
    spans = {span for passage in full.passages for span in passage.spans}
    assert price or replace(found, strategy="weave") == full
    assert sum(len(s) for p in found.passages for s in p.spans) <= sum(map(len, spans))
    assert found.passages or found.complete == 0


def test_only_weave_knows_if_its_context_is_complete() -> None:
    assert assemble("sentence", QUESTIONS[0], READERS[1], 100, MODELS).complete is None
    assert not assemble("topk", QUESTIONS[0], READERS[1], 100, MODELS).may_lack
