"""weave with a reranker: the reranker's input and effect, and cosines that are close together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from mergewise.designs import VIEWS
from mergewise.designs.strategies import assemble
from mergewise.designs.weave.evidence import SPREAD, scale_to_fitted
from mergewise.designs.weave.parameters import Weave
from mergewise.designs.weave.strategy import gather
from mergewise.designs.weave.weights import scored_sentences
from mergewise.models.calibration import Calibrated, Calibration, calibrate
from mergewise.models.record import Models
from mergewise.models.scores import RememberingReranker
from mergewise.models.tokens import count_tokens
from mergewise.protocols import FloatArray, Reranker
from mergewise.retrieve.hybrid import HybridReader
from mergewise.types import Context, Document, Span
from tests.memory_store import MemoryStore
from tests.support import HashEmbedder, memory_store

QUESTION = "Which mill stands at the river Orla?"
MILLS = [
    Document(f"d{i:02}", f"# Mill {i}\n\nThe mill stands at the river {river}. It is number {i}. A fox lives there.")
    for i, river in enumerate(["Brenn", "Torsa", "Orla", "Velm"] * 5)
]
GOLD = "A fox lives there."


class Knowing:
    """A reranker that prefers the fox of mill 17, with noise and a scale of its own."""

    def __init__(self, gain: float, scale: float = 1.0) -> None:
        self.spec, self.gain, self.scale = f"gain {gain:g}", gain, scale
        self.asked: list[list[str]] = []

    def logits(self, question: str, texts: Sequence[str]) -> FloatArray:
        self.asked.append(list(texts))
        noise = np.random.default_rng(3).standard_normal(len(texts))
        wanted = np.array([text == f"Mill 17\n{GOLD}" for text in texts])
        return np.asarray(self.scale * (self.gain * wanted + noise), np.float32)

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        return np.asarray(1 / (1 + np.exp(-self.logits(question, texts))), np.float32)


@cache
def mills() -> MemoryStore:
    return memory_store(MILLS)


def weave(reranker: Reranker | None, spec: str = "weave", budget: int = 60) -> Context:
    models = Models(count_tokens, reranker=reranker, stored_tokens=True)
    reader = HybridReader(mills(), None, VIEWS, reranker=reranker)
    return assemble(spec, QUESTION, reader, budget, models)


def test_a_strong_reranker_counts_and_reports_its_log_odds() -> None:
    assert GOLD not in weave(None).text
    found = weave(judge := Knowing(9))
    assert GOLD in found.text and "Mill 17" in found.text
    best = next(one for one in found.evidence or () if one.text == GOLD)
    assert best.span.doc_id == "d17" and best.reranked is not None and best.reranked > 3
    assert [step.reason for step in found.trace if step.action == "rerank"] == ["60 sentences by gain 9"]
    assert [len(texts) for texts in judge.asked] == [60], "all in one call, and the search asks nothing"
    assert weave(Knowing(9, 1 / 20)).text == weave(Knowing(9, 40)).text == found.text, "in a scale of its own"


def test_a_useless_reranker_costs_nothing() -> None:
    plain = weave(None)
    assert all(one.reranked is None for one in plain.evidence or ())
    for judge in (Knowing(0), Knowing(0, 50), Knowing(-9)):
        # The question does not say which of the five mills there it means.
        assert weave(judge).text.count("river Orla") == plain.text.count("river Orla") > 1
    fitted = weave(Calibrated(Knowing(9), Calibration(0, 0)))
    assert [p.spans for p in fitted.passages] == [p.spans for p in plain.passages]


def test_it_is_asked_about_the_most_relevant_alone() -> None:
    weave(judge := Knowing(0), "weave(asked=7)")
    assert [len(texts) for texts in judge.asked] == [7]
    assert all("river Orla" in text for text in judge.asked[0][:5])
    weave(silent := Knowing(9), "weave(asked=0)")
    assert silent.asked == []


def test_a_calibration_is_fitted_on_the_candidates_of_questions() -> None:
    models = Models(count_tokens, reranker=RememberingReranker(Knowing(9)), stored_tokens=True)
    candidates = gather(QUESTION, HybridReader(mills(), None, VIEWS), Weave(), [], models=models)
    fox = next(s.span for s in candidates.pool.sentences if s.leaf.doc_id == "d17" and s.text == GOLD)
    scored = scored_sentences(candidates, [Span("d17", fox.start - 3, fox.end)])
    assert scored.needed.sum() == 1 and scored.logits[scored.needed] > 6 and len(scored.prior) == 60
    fitted = calibrate([scored])
    assert fitted.slope > 0.5
    found = weave(Calibrated(Knowing(9), fitted))
    assert GOLD in found.text


# -- other embedders


class Narrow(HashEmbedder):
    """The same directions in a narrow cone: each cosine is a fifth of the original plus four fifths."""

    spec = "narrow"
    dimension = HashEmbedder().dimension + 1

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        vectors = HashEmbedder().embed_documents(texts)
        aside = np.full((len(vectors), 1), np.sqrt(0.8), np.float32)
        return np.concatenate([vectors * np.float32(np.sqrt(0.2)), aside], axis=1)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return self.embed_documents(texts)


class Shipped(HashEmbedder):
    spec = "minilm"


def test_cosines_close_together_count_as_much() -> None:
    def relevance(embedder: HashEmbedder, named: HashEmbedder) -> FloatArray:
        reader = HybridReader(memory_store(MILLS, embedder), embedder, VIEWS)
        return gather(QUESTION, reader, Weave(), [], models=Models(count_tokens, named)).relevance

    wide, narrow = relevance(HashEmbedder(), HashEmbedder()), relevance(Narrow(), Narrow())
    assert np.log(wide) == pytest.approx(np.log(narrow), abs=0.1)
    fitted = relevance(Narrow(), Shipped())
    assert np.abs(np.log(fitted) - np.log(narrow)).max() > 1, "as they are, cosines so close tell little"


def test_the_scale_is_that_of_the_fitted_embedder() -> None:
    unit = np.eye(4, dtype=np.float32)
    assert scale_to_fitted(unit) == pytest.approx(SPREAD)
    assert scale_to_fitted(unit[:1]) == 1.0
    assert np.isfinite(scale_to_fitted(np.repeat(unit[:1], 3, axis=0)))
