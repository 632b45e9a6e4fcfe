"""A reranker's scores as evidence: log-odds that are added to what the search or `weave` holds likely without it.

Rerankers score in scales of their own, and some know little. Of each text a probability is known without the reranker. By it
the texts of one question show how well the reranker tells those that are needed from the others.

- `evidence` needs nothing else. Scores of needed texts are taken to be normal around a mean that lies `separation` standard
  deviations above that of the others. How far is not known, so that all of `SEPARATIONS` are weighed by how well they explain
  the scores of this question; 0, a reranker that knows nothing, is among them.
- `calibrate` fits a `Calibration` on questions with known evidence, and replaces that rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mergewise.protocols import FloatArray


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a reranker's logit says: `slope * logit + bias` are the log-odds that it adds."""

    slope: float
    bias: float

    def evidence(self, logits: FloatArray) -> FloatArray:
        """Shape (texts,)."""
        return np.asarray(self.slope * logits + self.bias, np.float32)


@dataclass(frozen=True, slots=True)
class ScoredTexts:
    """The texts of one question that a reranker was asked about; all three have the shape (texts,).

    `prior`: log-odds that a text is needed, known without the reranker; `needed`: whether it is.
    """

    prior: FloatArray
    logits: FloatArray
    needed: npt.NDArray[np.bool_]


def calibrate(questions: Sequence[ScoredTexts]) -> Calibration:
    """Logistic regression of `needed` on the logits, where `prior` counts as it is. A slope below 0 becomes 0.

    Raises UsageError where no text is needed, or all are.
    """
    raise NotImplementedError
