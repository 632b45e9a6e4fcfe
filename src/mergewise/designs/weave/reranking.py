"""What the weights were not fitted with: a reranker's scores as evidence, and cosines of other embedders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from mergewise.models.calibration import Calibration, ScoredTexts, calibration_of, evidence
from mergewise.models.record import Models
from mergewise.models.scores import logits_of
from mergewise.protocols import FloatArray
from mergewise.text.keys import heading_path
from mergewise.types import Span, Step

if TYPE_CHECKING:
    from mergewise.designs.weave.evidence import Candidates


def ask_reranker(
    candidates: Candidates, models: Models | None, count: int, trace: list[Step], weights: Mapping[str, float]
) -> None:
    """Ask about the `count` most relevant candidates, in one call, and judge all of them anew."""
    if models is None or models.reranker is None or not count or not len(candidates):
        return
    if candidates.reranked is None:
        candidates.reranked = Reranked(calibration_of(models.reranker))
    logits = candidates.reranked.logits
    best = np.argsort(-candidates.relevance, kind="stable")[:count].tolist()
    if asked := [i for i in best if i not in logits]:
        found = logits_of(models.reranker, candidates.asked.text, [_with_headings(candidates, i) for i in asked])
        logits.update(zip(asked, map(float, found), strict=True))
        trace.append(Step("rerank", f"{len(asked)} sentences by {models.reranker.spec}"))
    candidates.judge(weights)


class Reranked:
    """The logits of the candidates that a reranker was asked about, and the log-odds that they `added`."""

    def __init__(self, calibration: Calibration | None = None) -> None:
        self.logits: dict[int, float] = {}  # by candidate
        self.added: dict[int, float] = {}
        self._calibration = calibration

    def evidence(self, prior: FloatArray) -> FloatArray:
        """Log-odds to add to those of all candidates, shape (candidates,); 0 for what the reranker was not asked about."""
        asked, logits = list(self.logits), np.array(list(self.logits.values()), np.float32)
        added = np.zeros(len(prior), np.float32)
        added[asked] = evidence(prior[asked], logits, self._calibration)
        self.added = dict(zip(asked, added[asked].tolist(), strict=True))
        return added


SPREAD = 0.77
"""1 less the mean cosine of two candidates, by the embedder that the weights were fitted with: docs/evaluation.md."""


def scale_to_fitted(vectors: FloatArray) -> float:
    """What the cosines of these candidates are to be multiplied by, shape (candidates, dimension), so that they have this spread.

    The vectors of many embedders lie in a narrow cone: all cosines are high, and differ little.
    """
    count = len(vectors)
    if count < 2:
        return 1.0
    centre = vectors.mean(axis=0, dtype=np.float64)
    mean_cosine = (count * float(centre @ centre) - 1) / (count - 1)
    return SPREAD / max(1 - mean_cosine, 1e-3)


def scored_sentences(candidates: Candidates, gold: Iterable[Span]) -> ScoredTexts:
    """What `calibrate` learns from one question. A sentence is needed where more than half of it is `gold`."""
    logits = {} if candidates.reranked is None else candidates.reranked.logits
    asked, spans = list(logits), list(gold)
    needed = [any(_mostly(candidates.sentences[i].span, span) for span in spans) for i in asked]
    prior = candidates.log_odds()[asked]
    return ScoredTexts(prior, np.array(list(logits.values()), np.float32), np.array(needed, np.bool_))


def _mostly(span: Span, gold: Span) -> bool:
    return span.doc_id == gold.doc_id and 2 * (min(span.end, gold.end) - max(span.start, gold.start)) > len(span)


def _with_headings(candidates: Candidates, candidate: int) -> str:
    sentence = candidates.sentences[candidate]
    path = heading_path(sentence.leaf.title, sentence.leaf.headings)
    return "\n".join(filter(None, (path, sentence.text)))
