"""How sure a mean over questions is: intervals of 95 percent.

Shares have Wilson's interval. Other means, and differences of two methods on the same questions, have the percentile bootstrap:
questions are drawn again, with a fixed seed, so that the same scores give the same interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

Interval = tuple[float, float]

# the quantile of the normal distribution for 95 percent
Z = 1.959963984540054
DRAWS = 10_000


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
