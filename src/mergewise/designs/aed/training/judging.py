"""Ranking quality of utilities against labelled candidates: KL (Eq. 9), rank correlation, and the gain of the first candidate.

The gain of a candidate is its advantage over no context, log(C_0 + 1) - log(C_u + 1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mergewise.designs.aed.training.distilling import divergence, gains
from mergewise.designs.aed.training.labels import LabelledQuestion
from mergewise.protocols import DoubleArray


def judge(questions: Sequence[LabelledQuestion], utilities: Sequence[Sequence[float]]) -> dict[str, float]:
    """Judge the ranking of each question's candidates by their `utilities`.

    Returns:
        The means of KL (`kl`), of Spearman's rho over the questions with candidates that differ (`rho`), and of the gains of the
        first and of the best candidate (`first`, `best`), or 0 without values.
    """
    known: dict[str, list[float]] = {name: [] for name in ("kl", "rho", "first", "best")}
    for question, values in zip(questions, utilities, strict=True):
        cppl = [one.cppl for one in question.candidates]
        gain, rho = gains(cppl, question.alone), spearman(values, -np.array(cppl))
        known["kl"].append(divergence(cppl, values))
        known["rho"] += [] if rho is None else [rho]
        known["first"].append(float(gain[int(np.argmax(values))]))
        known["best"].append(float(gain.max()))
    return {name: sum(values) / len(values) if values else 0.0 for name, values in known.items()}


def spearman(a: Sequence[float] | DoubleArray, b: Sequence[float] | DoubleArray) -> float | None:
    """Return Spearman's rank correlation, with mean ranks for ties, or None if a side is constant."""
    x, y = (ranks(np.asarray(values, np.float64)) for values in (a, b))
    if len(x) < 2 or not np.ptp(x) or not np.ptp(y):
        return None
    return float(np.corrcoef(x, y)[0, 1])


def ranks(values: DoubleArray) -> DoubleArray:
    """Return the ranks from 0. Equal values share their mean rank."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts + 1) / 2)[where]
