"""What the weights were not fitted with: a reranker's scores as evidence, and cosines of other embedders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mergewise.errors import UsageError
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
    reranker = None if models is None else models.reranker
    if reranker is None or not count or not len(candidates):
        return
    asked = np.argsort(-candidates.relevance, kind="stable")[:count].tolist()
    logits = logits_of(reranker, candidates.asked.text, [_with_headings(candidates, i) for i in asked])
    candidates.reranked = Reranked(asked, logits, calibration_of(reranker))
    candidates.judge(weights)
    trace.append(Step("rerank", f"{len(asked)} sentences by {reranker.spec}"))


class Reranked:
    """The candidates that a reranker was asked about, with its logits, and the log-odds that it `added` to each."""

    def __init__(self, asked: Sequence[int], logits: FloatArray, calibration: Calibration | None) -> None:
        self.asked = list(asked)
        self.logits = logits
        self.added: dict[int, float] = {}
        self._calibration = calibration

    def evidence(self, prior: FloatArray) -> FloatArray:
        """Log-odds to add to those of all candidates, shape (candidates,); 0 for what the reranker was not asked about."""
        added = np.zeros(len(prior), np.float32)
        added[self.asked] = evidence(prior[self.asked], self.logits, self._calibration)
        self.added = dict(zip(self.asked, added[self.asked].tolist(), strict=True))
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
    """What `calibrate` learns from a question whose candidates were reranked. A sentence is needed where half of it is `gold`."""
    reranked, spans = candidates.reranked, list(gold)
    if reranked is None:
        raise UsageError("nothing was reranked", "name a reranker, and let weave ask it")
    needed = [any(is_mostly(candidates.sentences[i].span, span) for span in spans) for i in reranked.asked]
    return ScoredTexts(candidates.log_odds()[reranked.asked], reranked.logits, np.array(needed, np.bool_))


def is_mostly(span: Span, gold: Span) -> bool:
    """Whether more than half of `span` lies in `gold`."""
    return span.doc_id == gold.doc_id and 2 * (min(span.end, gold.end) - max(span.start, gold.start)) > len(span)


def _with_headings(candidates: Candidates, candidate: int) -> str:
    sentence = candidates.sentences[candidate]
    path = heading_path(sentence.leaf.title, sentence.leaf.headings)
    return "\n".join(filter(None, (path, sentence.text)))
