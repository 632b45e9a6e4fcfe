"""Evidence that the weights were not fitted with: a reranker's scores, and cosines of other embedders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mergewise.models.calibration import Calibration, evidence
from mergewise.protocols import FloatArray


@dataclass(frozen=True, slots=True)
class Reranked:
    """The candidates scored by a reranker, with its logits."""

    asked: list[int]
    logits: FloatArray
    calibration: Calibration | None

    def evidence(self, prior: FloatArray) -> FloatArray:
        """Return the log-odds to add to the `prior` log-odds of the candidates `asked`."""
        return np.asarray(evidence(prior, self.logits, self.calibration), np.float32)


SPREAD = 0.77
"""1 minus the mean cosine of two candidates, by the embedder that the weights were fitted with, measured on the question sets."""


def scale_to_fitted(vectors: FloatArray) -> float:
    """Return the factor that gives the cosines of these vectors, shape (candidates, dimension), the spread `SPREAD`.

    The vectors of many embedders lie in a narrow cone: all cosines are high and differ little.
    """
    count = len(vectors)
    if count < 2:
        return 1.0
    centre = vectors.mean(axis=0, dtype=np.float64)
    mean_cosine = (count * float(centre @ centre) - 1) / (count - 1)
    return SPREAD / max(1 - mean_cosine, 1e-3)
