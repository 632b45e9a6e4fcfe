"""How well utilities rank candidates whose CPPL is known: KL (Eq. 9), rank correlation, the use of what they put first.

The use of a candidate is what it adds to no context, log(C_0 + 1) - log(C_u + 1). A difference between two predictors comes with
an interval of 95 %, by drawing the questions again.
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

DRAWS = 2000


@dataclass(frozen=True, slots=True)
class RankingQuality:
    """A value a question: the KL, Spearman's rho (None where all candidates are alike), the use of the first and of the best."""

    kl: tuple[float, ...]
    rho: tuple[float | None, ...]
    first: tuple[float, ...]
    best: tuple[float, ...]

    def means(self) -> dict[str, float]:
        """Of those that are known, by measure; 0 where none is."""
        known = {name: [value for value in values if value is not None] for name, values in asdict(self).items()}
        return {name: sum(values) / len(values) if values else 0.0 for name, values in known.items()}


def judge(questions: Sequence[LabelledQuestion], utilities: Sequence[Sequence[float]]) -> RankingQuality:
    """`utilities` are those of the candidates of each question."""
    kl, rho, first, best = [], [], [], []
    for question, values in zip(questions, utilities, strict=True):
        cppl = [one.cppl for one in question.candidates]
        use = gains(cppl, question.alone)
        kl.append(divergence(cppl, values))
        rho.append(spearman(values, -np.array(cppl)))
        first.append(float(use[int(np.argmax(values))]))
        best.append(float(use.max()))
    return RankingQuality(tuple(kl), tuple(rho), tuple(first), tuple(best))


def spearman(
    a: Sequence[float] | npt.NDArray[np.float64], b: Sequence[float] | npt.NDArray[np.float64]
) -> float | None:
    """Spearman's rank correlation, with the mean rank for equal values; None where one side is all the same."""
    x, y = (ranks(np.asarray(values, np.float64)) for values in (a, b))
    if len(x) < 2 or not np.ptp(x) or not np.ptp(y):
        return None
    return float(np.corrcoef(x, y)[0, 1])


def ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Ranks from 0; equal values share the mean of theirs."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    shared: npt.NDArray[np.float64] = (ends - (counts + 1) / 2)[where]
    return shared


def interval(differences: Sequence[float | None], seed: int = 0) -> tuple[float, float, float]:
    """The mean of paired differences, and between what it lies in 95 % of the draws of as many questions."""
    known = np.array([value for value in differences if value is not None])
    if not len(known):
        return 0.0, 0.0, 0.0
    drawn = np.random.default_rng(seed).choice(known, (DRAWS, len(known))).mean(1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return float(known.mean()), float(low), float(high)
