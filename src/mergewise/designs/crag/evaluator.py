"""The retrieval evaluator of CRAG (Yan et al. 2024, section 4.3). It scores how relevant a text is to a question, from -1 to 1.

The paper fine-tunes T5-large. We use the configured reranker or trained utility predictor, and map its score s in [0, 1] to
2 s - 1. Without one, s is the probability that a passage holds evidence. A logistic regression predicts it from the cosine and
the share of the question's terms in the passage. It is fitted on the first halves of four question sets (Platt scaling;
`benchmarks/crag.py fit`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mergewise.models.record import Models
from mergewise.models.scores import logistic
from mergewise.models.utilities import EmbedderUtilities, WordUtilities

WORDS = 4
"""Minimum length of a text in words. A shorter text scores -1."""

COSINE, COVERAGE, BIAS = 4.81, 3.11, -5.92
COVERAGE_ALONE, BIAS_ALONE = 3.77, -3.86


def evaluator_name(models: Models) -> str:
    if models.reranker is not None:
        return models.reranker.spec
    return "the question's terms" if models.embedder is None else f"cosines of {models.embedder.spec} and terms"


def evaluations(question: str, texts: Sequence[str], models: Models) -> list[float]:
    """Score each text, in [-1, 1]."""
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
