"""Ranking quality of utilities against labelled candidates: KL (Eq. 9), rank correlation, and the gain of the first candidate.

The gain of a candidate is its advantage over no context, log(C_0 + 1) - log(C_u + 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from mergewise.designs.aed.training.distilling import divergence, gains
from mergewise.designs.aed.training.labels import LabelledQuestion

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class RankingQuality:
    """Measures per question: KL, Spearman's rho (None if all candidates are equal), gain of the first, gain of the best."""

    kl: tuple[float, ...]
    rho: tuple[float | None, ...]
    first: tuple[float, ...]
    best: tuple[float, ...]

    def means(self) -> dict[str, float]:
        """Return the mean of the known values by measure, or 0 without values."""
        known = {name: [value for value in values if value is not None] for name, values in asdict(self).items()}
        return {name: sum(values) / len(values) if values else 0.0 for name, values in known.items()}


def judge(questions: Sequence[LabelledQuestion], utilities: Sequence[Sequence[float]]) -> RankingQuality:
    """Judge the ranking of each question's candidates by their `utilities`."""
    kl, rho, first, best = [], [], [], []
    for question, values in zip(questions, utilities, strict=True):
        cppl = [one.cppl for one in question.candidates]
        gain = gains(cppl, question.alone)
        kl.append(divergence(cppl, values))
        rho.append(spearman(values, -np.array(cppl)))
        first.append(float(gain[int(np.argmax(values))]))
        best.append(float(gain.max()))
    return RankingQuality(tuple(kl), tuple(rho), tuple(first), tuple(best))


def spearman(
    a: Sequence[float] | npt.NDArray[np.float64], b: Sequence[float] | npt.NDArray[np.float64]
) -> float | None:
    """Return Spearman's rank correlation, with mean ranks for ties, or None if a side is constant."""
    x, y = (ranks(np.asarray(values, np.float64)) for values in (a, b))
    if len(x) < 2 or not np.ptp(x) or not np.ptp(y):
        return None
    return float(np.corrcoef(x, y)[0, 1])


def ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the ranks from 0. Equal values share their mean rank."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts + 1) / 2)[where]
