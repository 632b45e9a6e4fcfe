"""The rows of an evaluation, a strategy or method at one budget on one question set; and how sure its means are.

Intervals are of 95 percent. Shares have Wilson's interval. Other means, and differences of two methods on the same questions,
have the percentile bootstrap: questions are drawn again, with a fixed seed, so that the same scores give the same interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

import numpy as np

Interval = tuple[float, float]

# the quantile of the normal distribution for 95 percent
Z = 1.959963984540054
DRAWS = 10_000


@dataclass(frozen=True, slots=True)
class AnswerMeans:
    """Scores and costs of answers, means over the `questions`; `failed` questions got no answer.

    `seconds` are those of a question, `answer_seconds` its seconds after the context was assembled. Intervals are of 95 percent.
    """

    mode: str
    questions: int
    failed: int
    em: float
    f1: float
    relaxed_em: float
    accuracy: float
    input_tokens: float
    output_tokens: float
    seconds: float
    answer_seconds: float
    em_interval: Interval
    f1_interval: Interval
    relaxed_em_interval: Interval


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """One strategy at one budget on one question set: means over the questions; `query_ms` is the median.

    `evidence` and `all` are None where no question has marked evidence, and `answers` where no answers were asked for.
    """

    dataset: str
    strategy: str
    budget: int
    answer: float
    evidence: float | None
    all: float | None
    density: float
    tokens: float
    query_ms: float
    answers: AnswerMeans | None = None

    def as_dict(self) -> dict[str, Any]:
        """Flat; the keys of answers are there where answers were asked for."""
        values = asdict(self)
        answers = values.pop("answers")
        return values if answers is None else {**values, **answers}


def wilson(share: float, count: int) -> Interval:
    """Of a share of `count` questions. Raises ValueError without any."""
    if count < 1:
        raise ValueError("an interval of no questions")
    middle = share + Z * Z / (2 * count)
    reach = Z * sqrt(share * (1 - share) / count + Z * Z / (4 * count * count))
    whole = 1 + Z * Z / count
    return max(0.0, (middle - reach) / whole), min(1.0, (middle + reach) / whole)


def bootstrap(values: Sequence[float], seed: int = 0) -> Interval:
    """Of the mean of these values. Raises ValueError without any."""
    if not values:
        raise ValueError("an interval of no questions")
    drawn = np.random.default_rng(seed).integers(0, len(values), (DRAWS, len(values)))
    low, high = np.quantile(np.asarray(values, np.float64)[drawn].mean(1), (0.025, 0.975))
    return float(low), float(high)


def paired_interval(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """Of the mean difference of two methods, question by question."""
    return bootstrap([a - b for a, b in zip(ours, theirs, strict=True)])
