"""A reranker's scores as evidence: log-odds to add to the prior log-odds of a search or of `weave`.

Rerankers differ in scale and quality. Without a reranker, each text of a question has a prior probability of being needed. There
are two ways to turn scores into evidence:

- `separated_evidence` needs only the priors and scores of one question. It assumes that some texts look needed to the reranker:
  the needed texts, except for a share of misses, and a share of false alarms among the other texts. False alarms correlate with
  the prior, because a text that misleads the search also misleads the reranker. So a similarity that both see counts once. Scores
  are assumed to be normal, with those of texts that look needed `d` standard deviations higher. `d` and the share of false alarms
  are unknown: all combinations of `SEPARATIONS` and `FALSE_ALARMS` are averaged, weighted by their likelihood for this question.
  For d <= 0 the reranker gives no evidence.
- A `Calibration` replaces this rule. `calibrate` fits one on questions with known evidence, and the spec of a `Calibrated`
  reranker contains it.

Evidence is clipped to `LEAST` and `MOST`, because no reranker is more certain than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from mergewise.errors import UsageError
from mergewise.models.scores import RememberingReranker, logistic, logit, logits_of
from mergewise.protocols import BoolArray, CountsCut, DoubleArray, FloatArray, Reranker
from mergewise.types import frozen

# Separations with their prior odds; shares of false alarms; the exponent from a share of false alarms to a share of misses; and
# the slope of a false alarm's log-odds by the prior log-odds.
SEPARATIONS = np.array([-6.0, -3.0, -1.5, 0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0])
ODDS = np.array([0.05, 0.05, 0.1, 0.5, 0.2, 0.15, 0.1, 0.08, 0.06, 0.04])
FALSE_ALARMS = np.array([0.0003, 0.003, 0.03, 0.1, 0.3])
MISSES, ALIKE = 2 / 3, 0.5
LEAST, MOST = -4.0, 6.0
# minimum of texts for estimating a separation
FEWEST = 5
# rounds of expectation and maximisation
ROUNDS = 10
# prior probabilities are clipped to [_SHARE, 1 - _SHARE]
_SHARE = 1e-4
_RIDGE = 1e-3


@frozen
class Calibration:
    """A calibration of a reranker's logits: `slope * logit + bias` are log-odds. Raises UsageError for a negative slope."""

    slope: float
    bias: float

    def __post_init__(self) -> None:
        if not (isfinite(self.slope) and isfinite(self.bias) and self.slope >= 0):
            raise UsageError(f"invalid calibration: {self}", "use finite numbers, with a slope of 0 or more")

    def evidence(self, logits: FloatArray) -> FloatArray:
        """Return the log-odds to add, shape (texts,)."""
        return np.asarray(np.clip(self.slope * logits + self.bias, LEAST, MOST), np.float32)


@frozen
class ScoredTexts:
    """The texts of one question that a reranker scored. All arrays have the shape (texts,).

    `prior` holds the log-odds without the reranker that a text is needed. `needed` is True for needed texts.
    """

    prior: FloatArray
    logits: FloatArray
    needed: BoolArray


class Calibrated:
    """A `Reranker` with the scores of another one and a calibration. Its spec is `calibrated:SLOPE,BIAS:` and the other's."""

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
    """Load the reranker of `SLOPE,BIAS:RERANKER`. Raises UsageError for an invalid spec."""
    from mergewise.models import load_reranker

    numbers, _, inner = spec.partition(":")
    slope, _, bias = numbers.partition(",")
    try:
        calibration = Calibration(float(slope), float(bias))
    except ValueError:
        raise UsageError(f"invalid calibration: {numbers!r}", "write calibrated:SLOPE,BIAS:RERANKER") from None
    reranker = load_reranker(inner)
    if reranker is None:
        raise UsageError("missing reranker to calibrate", "write calibrated:SLOPE,BIAS:RERANKER")
    return Calibrated(reranker, calibration)


def calibration_of(reranker: Reranker) -> Calibration | None:
    """Return the calibration of a reranker, or None without one."""
    inner = reranker.reranker if isinstance(reranker, RememberingReranker) else reranker
    return inner.calibration if isinstance(inner, Calibrated) else None


def evidence_of(reranker: Reranker, question: str, texts: Sequence[str], prior: FloatArray) -> FloatArray:
    """Return the log-odds that the reranker adds to the `prior` of these texts, shape (texts,). It is called once."""
    return evidence(prior, logits_of(reranker, question, texts), calibration_of(reranker))


def evidence(prior: FloatArray, logits: FloatArray, calibration: Calibration | None) -> FloatArray:
    """Return the log-odds to add to `prior`, shape (texts,), by the calibration or else by `separated_evidence`."""
    return separated_evidence(prior, logits) if calibration is None else calibration.evidence(logits)


def separated_evidence(prior: FloatArray, logits: FloatArray) -> FloatArray:
    """Return the log-odds to add to `prior`, shape (texts,). Scaling or shifting the logits does not change them.

    For each separation and share of false alarms, expectation and maximisation finds the most likely mean and deviation of the
    texts that do not look needed. Arrays have the shape (separations x shares, texts).
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


def _posterior(
    scores: DoubleArray, looks: DoubleArray, d: DoubleArray, mean: DoubleArray, deviation: DoubleArray
) -> tuple[DoubleArray, DoubleArray]:
    """Return the posterior probabilities that texts look needed, and the log-likelihood of all scores."""
    away = (scores - mean) / deviation
    high = np.log(looks) - (away - d) ** 2 / 2
    together = np.logaddexp(high, np.log(1 - looks) - away**2 / 2)
    return np.exp(high - together), together.sum(axis=1)


def calibrate(questions: Sequence[ScoredTexts]) -> Calibration:
    """Fit a calibration by logistic regression of `needed` on the logits, with `prior` as an offset.

    A negative slope becomes 0.

    Raises:
        UsageError: if all texts are needed, or none.
    """
    asked = [question for question in questions if len(question.logits)]
    needed = np.array([one for question in asked for one in question.needed], np.float64)
    if not 0 < needed.sum() < len(needed):
        raise UsageError(
            "no calibration possible on these questions", "use questions with both needed and unneeded texts"
        )
    prior = np.concatenate([question.prior for question in asked]).astype(np.float64)
    logits = np.concatenate([question.logits for question in asked]).astype(np.float64)
    middle, spread = float(logits.mean()), max(float(logits.std()), 1e-9)
    columns = np.column_stack([np.ones(len(logits)), (logits - middle) / spread])
    weights = np.zeros(2)
    for _ in range(50):
        p = logistic(prior + columns @ weights)
        hessian = (columns * (p * (1 - p))[:, None]).T @ columns + _RIDGE * np.eye(2)
        weights -= np.clip(np.linalg.solve(hessian, columns.T @ (p - needed) + _RIDGE * weights), -2, 2)
    if weights[1] <= 0:
        return Calibration(0.0, 0.0)
    slope = float(weights[1]) / spread
    return Calibration(slope, float(weights[0]) - slope * middle)
