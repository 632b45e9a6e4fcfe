"""A reranker's scores as evidence: log-odds that are added to what a search, or `weave`, holds likely without it.

Rerankers score in scales of their own, and some know little. Without a reranker each text of a question has a probability to be
needed, and by it the scores show how well the reranker tells needed texts from others:

- `separated_evidence` wants nothing else. To a reranker some texts look needed: needed ones, but for a share that it misses, and
  of the others a share of false alarms. The latter is larger for texts that are likely without it, since what misleads one judge
  misleads the next: so a likeness that both see counts once. Scores of texts that look needed are taken to be normal, and to lie
  `d` standard deviations above those of the others. Neither `d` nor the share is known: each of `SEPARATIONS` with each of
  `FALSE_ALARMS` counts as much as it explains the scores of this question. Below 0 a reranker has it the wrong way round. It is
  then no evidence, as at 0.
- a `Calibration` replaces that rule. `calibrate` fits one on questions whose evidence is known, and the spec of a `Calibrated`
  reranker names it.

No evidence goes below `LEAST` or above `MOST`, since no reranker is that sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from mergewise.errors import UsageError
from mergewise.models.scores import RememberingReranker, logistic, logit, logits_of
from mergewise.protocols import CountsCut, FloatArray, Reranker

Values = npt.NDArray[np.float64]

# Separations with their prior odds; shares of false alarms; the power of such a share that is the share of misses; and what the
# log-odds of a false alarm rise by with those that a text is needed: docs/evaluation.md.
SEPARATIONS = np.array([-6.0, -3.0, -1.5, 0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0])
ODDS = np.array([0.05, 0.05, 0.1, 0.5, 0.2, 0.15, 0.1, 0.08, 0.06, 0.04])
FALSE_ALARMS = np.array([0.0003, 0.003, 0.03, 0.1, 0.3])
MISSES, ALIKE = 2 / 3, 0.5
LEAST, MOST = -4.0, 6.0
FEWEST = 5  # texts by which a separation can be told
ROUNDS = 10  # of expectation and maximisation
_SHARE = 1e-4  # no text is surer than that to be needed, or not to be
_RIDGE = 1e-3


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a reranker's logits say: `slope * logit + bias` are log-odds. Raises UsageError for a slope below 0."""

    slope: float
    bias: float

    def __post_init__(self) -> None:
        if not (isfinite(self.slope) and isfinite(self.bias) and self.slope >= 0):
            raise UsageError(f"{self} is no calibration", "the slope is 0 or more, and both are numbers")

    def evidence(self, logits: FloatArray) -> FloatArray:
        """Log-odds to add, shape (texts,)."""
        return np.asarray(np.clip(self.slope * logits + self.bias, LEAST, MOST), np.float32)


@dataclass(frozen=True, slots=True)
class ScoredTexts:
    """The texts of one question that a reranker was asked about; all three have the shape (texts,).

    `prior`: log-odds that a text is needed, known without the reranker. `needed`: whether it is.
    """

    prior: FloatArray
    logits: FloatArray
    needed: npt.NDArray[np.bool_]


class Calibrated:
    """A `Reranker` whose scores are another's, with a calibration of them: `calibrated:SLOPE,BIAS:` before the other's spec."""

    def __init__(self, reranker: Reranker, calibration: Calibration) -> None:
        self.spec = f"calibrated:{calibration.slope:.4g},{calibration.bias:.4g}:{reranker.spec}"
        self.reranker = reranker
        self.calibration = calibration

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        return self.reranker.score(question, texts)

    def logits(self, question: str, texts: Sequence[str]) -> FloatArray:
        return logits_of(self.reranker, question, texts)

    def count_cut(self, question: str, texts: Sequence[str]) -> int:
        return self.reranker.count_cut(question, texts) if isinstance(self.reranker, CountsCut) else 0

    async def aclose(self) -> None:
        aclose = getattr(self.reranker, "aclose", None)
        if aclose is not None:
            await aclose()


def load_calibrated(spec: str) -> Reranker:
    """The reranker of `SLOPE,BIAS:RERANKER`. Raises UsageError for what is none."""
    from mergewise.models import load_reranker

    numbers, _, inner = spec.partition(":")
    slope, _, bias = numbers.partition(",")
    try:
        calibration = Calibration(float(slope), float(bias))
    except ValueError:
        raise UsageError(f"{numbers!r} is no calibration", "write calibrated:SLOPE,BIAS:RERANKER") from None
    reranker = load_reranker(inner)
    if reranker is None:
        raise UsageError("there is no reranker to calibrate", "write calibrated:SLOPE,BIAS:RERANKER")
    return Calibrated(reranker, calibration)


def calibration_of(reranker: Reranker) -> Calibration | None:
    """None where nobody fitted one."""
    inner = reranker.reranker if isinstance(reranker, RememberingReranker) else reranker
    return inner.calibration if isinstance(inner, Calibrated) else None


def evidence_of(reranker: Reranker, question: str, texts: Sequence[str], prior: FloatArray) -> FloatArray:
    """What the reranker adds to the log-odds `prior` of these texts, shape (texts,). It is asked in one call."""
    return evidence(prior, logits_of(reranker, question, texts), calibration_of(reranker))


def evidence(prior: FloatArray, logits: FloatArray, calibration: Calibration | None) -> FloatArray:
    """Log-odds to add to `prior`, shape (texts,): by the calibration, or by what this question's scores show."""
    return separated_evidence(prior, logits) if calibration is None else calibration.evidence(logits)


def separated_evidence(prior: FloatArray, logits: FloatArray) -> FloatArray:
    """Log-odds to add to `prior`, shape (texts,). The same for any positive factor of the logits, and anything added to them.

    For each separation and share of false alarms, mean and deviation of the texts that look like others are those of the greatest
    likelihood, which expectation and maximisation find. Arrays have the shape (separations x shares, texts).
    """
    if len(logits) < FEWEST or np.ptp(logits) < 1e-6:
        return np.zeros(len(logits), np.float32)
    scores, d = np.asarray(logits, np.float64), np.repeat(SEPARATIONS, len(FALSE_ALARMS))[:, None]
    alarms = np.tile(FALSE_ALARMS, len(SEPARATIONS))[:, None]
    before = np.clip(logistic(np.asarray(prior, np.float64)), _SHARE, 1 - _SHARE)
    odds = logit(before)
    seen = (1 - alarms**MISSES) * before
    looks = seen + (1 - before) * logistic(logit(alarms) + ALIKE * (odds - np.median(odds)))

    middle, least = float(np.median(scores)), 1e-3 * float(np.ptp(scores))
    mean = np.full(d.shape, middle)
    deviation = np.full(d.shape, max(1.4826 * float(np.median(np.abs(scores - middle))), least))
    for _ in range(ROUNDS):
        after, _ = _posterior(scores, looks, d, mean, deviation)
        mean = np.mean(scores - after * d * deviation, axis=1, keepdims=True)
        away = scores - mean
        square = (1 - after) * away**2 + after * (away - d * deviation) ** 2
        deviation = np.maximum(np.sqrt(np.mean(square, axis=1, keepdims=True)), least)
    after, likelihood = _posterior(scores, looks, d, mean, deviation)

    needed = after * seen / looks + (1 - after) * (before - seen) / (1 - looks)
    likely = likelihood - len(scores) * np.log(deviation[:, 0]) + np.repeat(np.log(ODDS), len(FALSE_ALARMS))
    weights = np.exp(likely - likely.max())
    known = np.clip(weights / weights.sum() @ np.where(d > 0, needed, before), _SHARE**2, 1 - _SHARE**2)
    return np.clip(logit(known) - odds, LEAST, MOST).astype(np.float32)


def _posterior(scores: Values, looks: Values, d: Values, mean: Values, deviation: Values) -> tuple[Values, Values]:
    """After their scores, the probabilities of texts to be of those that look needed, and the log-likelihoods of all scores."""
    away = (scores - mean) / deviation
    high = np.log(looks) - (away - d) ** 2 / 2
    together = np.logaddexp(high, np.log(1 - looks) - away**2 / 2)
    return np.exp(high - together), together.sum(axis=1)


def calibrate(questions: Sequence[ScoredTexts]) -> Calibration:
    """Logistic regression of `needed` on the logits, to which `prior` is added as it is. A slope below 0 becomes 0.

    Every question counts the same. Raises UsageError where no text is needed, or none is not.
    """
    asked = [question for question in questions if len(question.logits)]
    needed = np.array([one for question in asked for one in question.needed], np.float64)
    if not 0 < needed.sum() < len(needed):
        raise UsageError(
            "a reranker cannot be calibrated on these questions", "some texts are to be needed, others not"
        )
    prior = np.concatenate([question.prior for question in asked]).astype(np.float64)
    logits = np.concatenate([question.logits for question in asked]).astype(np.float64)
    middle, spread = float(logits.mean()), max(float(logits.std()), 1e-9)
    columns = np.column_stack([np.ones(len(logits)), (logits - middle) / spread])
    weights = np.zeros(2)
    for _ in range(50):
        p = logistic(prior + columns @ weights)
        hessian = (columns * (p * (1 - p))[:, None]).T @ columns + _RIDGE * np.eye(2)
        step = np.linalg.solve(hessian, columns.T @ (p - needed) + _RIDGE * weights)
        weights -= np.clip(step, -2, 2)
    if weights[1] <= 0:
        return Calibration(0.0, 0.0)
    slope = float(weights[1]) / spread
    return Calibration(slope, float(weights[0]) - slope * middle)
