"""The retrieval evaluator of CRAG (Yan et al. 2024, section 4.3): how far a text helps with a question, from -1 to 1.

The paper fine-tunes T5-large. Here it is the reranker or the trained utility predictor that is named, whose shares s become
2 s - 1. Without one, the share is that of passages with such a cosine, and such a share of the question's terms, that hold
evidence: a logistic regression on the first halves of four question sets (Platt scaling; `benchmarks/crag.py fit`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mergewise.models.record import Models
from mergewise.models.scores import logistic
from mergewise.models.utilities import EmbedderUtilities, WordUtilities

WORDS = 4
"""A text of fewer words has the score -1."""

COSINE, COVERAGE, BIAS = 4.81, 3.11, -5.92
COVERAGE_ALONE, BIAS_ALONE = 3.77, -3.86


def evaluator_name(models: Models) -> str:
    if models.reranker is not None:
        return models.reranker.spec
    return "the question's terms" if models.embedder is None else f"cosines of {models.embedder.spec} and terms"


def evaluations(question: str, texts: Sequence[str], models: Models) -> list[float]:
    """One score a text, in [-1, 1]."""
    if not texts:
        return []
    if models.reranker is not None:
        shares = np.asarray(models.reranker.score(question, texts), np.float64)
    else:
        coverage = np.asarray(WordUtilities().utilities(question, texts))
        if models.embedder is None:
            shares = logistic(COVERAGE_ALONE * coverage + BIAS_ALONE)
        else:
            cosines = np.asarray(EmbedderUtilities(models.embedder).utilities(question, texts))
            shares = logistic(COSINE * cosines + COVERAGE * coverage + BIAS)
    scores = (2 * shares - 1).tolist()
    return [-1.0 if len(text.split()) < WORDS else score for text, score in zip(texts, scores, strict=True)]
