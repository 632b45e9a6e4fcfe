"""Confidence intervals and significance tests.

Questions that share a document are not independent: with `clusters`, the bootstrap draws whole clusters and the sign-flip test
flips whole clusters. Intervals are at 95 %. Random draws have a fixed seed, so the same scores give the same figures.

- Shares of independent questions have Wilson's interval. Other means have the percentile bootstrap.
- For few clusters or questions the bootstrap is too narrow (two clusters have only three distinct draws). They have Student's
  interval instead, with the variance between clusters or between questions, whichever is larger.
- Two methods on the same questions are compared by a paired sign-flip test: under the null hypothesis each difference is equally
  likely to have the other sign. If all differences have the same size, as for scores of 0 and 1, this is McNemar's exact test.
- Several tests are corrected by Holm's method.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, sqrt

import numpy as np

from mergewise.protocols import DoubleArray

Interval = tuple[float, float]

# quantile of the normal distribution for 95 % confidence
Z = 1.959963984540054
# quantile of the normal distribution for 80 % power
POWER = 0.8416212335729143
# Student's quantiles for 95 % confidence, for 1, 2, ... degrees of freedom
STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045,
)  # fmt: skip
DRAWS = 10_000
FLIPS = 100_000
EXACT = 16
"""Number of differences up to which the test tries every combination of signs."""
_CELLS = 1 << 21
"""Numbers drawn at once."""
_SAME = 1e-9


def wilson(share: float, count: int) -> Interval:
    """Return Wilson's interval of a share of `count` questions. Raises ValueError if `count` is below 1."""
    if count < 1:
        raise ValueError("no questions")
    middle = share + Z * Z / (2 * count)
    reach = Z * sqrt(share * (1 - share) / count + Z * Z / (4 * count * count))
    whole = 1 + Z * Z / count
    return max(0.0, (middle - reach) / whole), min(1.0, (middle + reach) / whole)


def bootstrap(values: Sequence[float], clusters: Sequence[int] | None = None, seed: int = 0) -> Interval:
    """Return the percentile bootstrap interval of the mean, resampling clusters. Raises ValueError without values."""
    if not values:
        raise ValueError("no questions")
    sums, sizes = _cluster_sums(values, clusters)
    draw, means = np.random.default_rng(seed), []
    for count in _portions(DRAWS, len(sums)):
        drawn = draw.integers(0, len(sums), (count, len(sums)))
        means.append(sums[drawn].sum(1) / sizes[drawn].sum(1))
    low, high = np.quantile(np.concatenate(means), (0.025, 0.975))
    return float(low), float(high)


def student(values: Sequence[float], clusters: Sequence[int]) -> Interval:
    """Return Student's interval of the mean, by the spread between clusters. Raises ValueError for fewer than two clusters."""
    error, count = standard_error(values, clusters)
    reach = _quantile(count - 1) * error
    middle = sum(values) / len(values)
    return middle - reach, middle + reach


def interval(values: Sequence[float], clusters: Sequence[int]) -> Interval:
    """Return the interval of the mean: Student's for few clusters, else the bootstrap's.

    With a single cluster it holds for the questions of that cluster only.
    """
    if len(set(clusters)) == 1:
        clusters = range(len(values))
    if len(values) == 1:
        return values[0], values[0]
    return student(values, clusters) if len(set(clusters)) <= len(STUDENT) else bootstrap(values, clusters)


def mean_interval(values: Sequence[float], clusters: Sequence[int]) -> Interval:
    """Return the interval of a mean score.

    It is Wilson's for scores of 0 and 1 of independent questions. For other scores it is `interval`, clipped to the range of
    scores. If all scores are 0 or all are 1, they have no spread: then it is Wilson's with the number of clusters.
    """
    known, count = set(values), len(set(clusters))
    if known <= {0.0, 1.0} and (len(known) == 1 or count in (1, len(values))):
        return wilson(sum(values) / len(values), count if len(known) == 1 and count > 1 else len(values))
    low, high = interval(values, clusters)
    return max(low, 0.0), min(high, 1.0) if max(values) <= 1 else high


def sign_flip(differences: Sequence[float], clusters: Sequence[int] | None = None) -> float:
    """Return the p-value of the paired sign-flip test: the probability of a mean at least as far from zero under random signs.

    The signs of whole clusters are flipped. With a single cluster the signs of its questions are flipped.
    """
    if clusters is not None and len(set(clusters)) == 1:
        clusters = None
    sums, _ = _cluster_sums(differences, clusters)
    sizes = np.abs(sums)
    sums, sizes = sums[sizes > _SAME], sizes[sizes > _SAME]
    count = len(sums)
    if not count:
        return 1.0
    if np.allclose(sizes, sizes[0], atol=_SAME):
        fewer = min(int((sums > 0).sum()), int((sums < 0).sum()))
        return min(1.0, float(2 * sum(comb(count, i) for i in range(fewer + 1)) / 2**count))
    least = abs(float(sums.sum())) - _SAME * float(sizes.sum())
    if count <= EXACT:
        signs = 1 - 2.0 * (np.arange(2**count)[:, None] >> np.arange(count) & 1)
        return float(np.mean(np.abs(signs @ sums) >= least))
    draw, hits = np.random.default_rng(0), 0
    for portion in _portions(FLIPS, count):
        bits = np.unpackbits(np.frombuffer(draw.bytes(-(-portion * count // 8)), np.uint8))[: portion * count]
        signs = 1 - 2 * bits.reshape(portion, count).astype(np.float64)
        hits += int((np.abs(signs @ sums) >= least).sum())
    return (1 + hits) / (1 + FLIPS)


def holm(probabilities: Sequence[float]) -> list[float]:
    """Return the p-values of several tests, corrected by Holm's method."""
    order = sorted(range(len(probabilities)), key=lambda i: probabilities[i])
    corrected, highest = [0.0] * len(probabilities), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(probabilities) - rank) * probabilities[i]))
        corrected[i] = highest
    return corrected


def smallest_difference(differences: Sequence[float], clusters: Sequence[int]) -> float | None:
    """Return the smallest true difference that these questions detect with 80 % power, or None for a single question."""
    if len(set(clusters)) == 1:
        clusters = range(len(differences))
    if len(differences) < 2:
        return None
    error, count = standard_error(differences, clusters)
    return (_quantile(count - 1) + POWER) * error


def standard_error(values: Sequence[float], clusters: Sequence[int]) -> tuple[float, int]:
    """Return the standard error of the mean, and the number of clusters.

    It is at least the standard error of independent values, because few clusters may be alike by chance.
    """
    by_cluster, count = _spread(*_cluster_sums(values, clusters))
    if count < 2:
        raise ValueError("too few clusters: 1 (expected 2 or more)")
    return max(by_cluster, _spread(*_cluster_sums(values, None))[0]), count


def _spread(sums: DoubleArray, sizes: DoubleArray) -> tuple[float, int]:
    """Return the standard error of the mean by the spread between groups, and the number of groups."""
    count = len(sums)
    rest = sums - sizes * (sums.sum() / sizes.sum())
    return sqrt(count / max(1, count - 1) * float(rest @ rest)) / float(sizes.sum()), count


def _quantile(freedom: int) -> float:
    return STUDENT[freedom - 1] if freedom <= len(STUDENT) else Z


def _cluster_sums(values: Sequence[float], clusters: Sequence[int] | None) -> tuple[DoubleArray, DoubleArray]:
    """Return the sum and the number of values of each cluster, in order of first appearance."""
    if clusters is None:
        return np.asarray(values, np.float64), np.ones(len(values))
    first: dict[int, int] = {}
    places = [first.setdefault(cluster, len(first)) for cluster in clusters]
    if len(places) != len(values):
        raise ValueError(f"invalid clusters: {len(places)} (expected one for each of {len(values)} values)")
    sums = np.bincount(places, np.asarray(values, np.float64)).astype(np.float64)
    return sums, np.bincount(places).astype(np.float64)


def _portions(total: int, width: int) -> list[int]:
    """Split `total` rows of `width` numbers into portions that fit in memory."""
    most = max(1, _CELLS // width)
    return [min(most, total - start) for start in range(0, total, most)]
