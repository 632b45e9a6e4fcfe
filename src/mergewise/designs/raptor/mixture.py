"""Mixtures of Gaussians with full covariances, fitted by expectation and maximisation, and projections by PCA, in NumPy.

The fit equals scikit-learn's `GaussianMixture` from the same start: 1e-6 is added to each diagonal, and there are at most 100
rounds, until the mean log-likelihood grows by less than 1e-3. It starts from k-means with seeded centres (k-means++).
"""

from __future__ import annotations

from math import log, pi
from typing import NamedTuple

import numpy as np

from mergewise.protocols import DoubleArray

REGULAR = 1e-6
ROUNDS, TOLERANCE = 100, 1e-3
MOST_CLUSTERS = 49
SEED_OF_COUNT, SEED_OF_FIT = 224, 0
"""The seeds of RAPTOR's code, for counting clusters and for the final fit."""
_LLOYD = 30


class Mixture(NamedTuple):
    """`weights` (k,), `means` (k, d), and `factors` (k, d, d), the lower Cholesky factors of the covariances."""

    weights: DoubleArray
    means: DoubleArray
    factors: DoubleArray

    def log_joint(self, points: DoubleArray) -> DoubleArray:
        """Return log(weight_k N(x | mean_k, covariance_k)) for each point x and component k, shape (n, k)."""
        inverse = np.linalg.inv(self.factors)
        # (k, n, d): L^-1 (x - mean)
        white = points @ inverse.transpose(0, 2, 1) - np.einsum("kij,kj->ki", inverse, self.means)[:, None]
        half_log_determinant = np.log(np.diagonal(self.factors, axis1=1, axis2=2)).sum(1)
        squares = np.einsum("knd,knd->nk", white, white)
        joint = -0.5 * (squares + points.shape[1] * log(2 * pi)) - half_log_determinant + np.log(self.weights)
        return np.asarray(joint, np.float64)

    def log_likelihood(self, points: DoubleArray) -> float:
        """Return the mean over the points, in nats."""
        return float(_log_sum(self.log_joint(points)).mean())

    def shares(self, points: DoubleArray) -> DoubleArray:
        """Return the probability of each component for each point, (n, k)."""
        joint = self.log_joint(points)
        return np.asarray(np.exp(joint - _log_sum(joint)[:, None]), np.float64)

    def bic(self, points: DoubleArray) -> float:
        """Return Bayes' information criterion. Lower is better."""
        n, d = points.shape
        k = len(self.weights)
        parameters = k * d * (d + 1) / 2 + k * d + k - 1
        return float(-2 * n * self.log_likelihood(points) + parameters * log(n))


def _log_sum(joint: DoubleArray) -> DoubleArray:
    highest = joint.max(1)
    return np.asarray(highest + np.log(np.exp(joint - highest[:, None]).sum(1)), np.float64)


def likeliest_mixture(points: DoubleArray, shares: DoubleArray) -> Mixture:
    """Return the mixture of the highest likelihood for these shares of the components in each point, (n, k)."""
    n, d = points.shape
    counts = shares.sum(0) + 10 * np.finfo(np.float64).eps
    means = shares.T @ points / counts[:, None]
    spread = points[None] - means[:, None]
    covariances = (spread * shares.T[:, :, None]).transpose(0, 2, 1) @ spread / counts[:, None, None]
    covariances += REGULAR * np.eye(d)
    weights = counts / n
    return Mixture(weights / weights.sum(), means, np.linalg.cholesky(covariances))


def fitted_mixture(points: DoubleArray, start: Mixture) -> Mixture:
    """Return the mixture after rounds of expectation and maximisation from this start."""
    mixture, before = start, -np.inf
    for _ in range(ROUNDS):
        joint = mixture.log_joint(points)
        sums = _log_sum(joint)
        mixture = likeliest_mixture(points, np.exp(joint - sums[:, None]))
        reached = float(sums.mean())
        if abs(reached - before) < TOLERANCE:
            break
        before = reached
    return mixture


def start_of(points: DoubleArray, k: int, seed: int) -> Mixture:
    """Return k-means from centres drawn far apart (k-means++), each cluster as a component."""
    drawn = np.random.default_rng([seed, k])
    centres = points[[int(drawn.integers(len(points)))]]
    nearest = ((points - centres[0]) ** 2).sum(1)
    for _ in range(k - 1):
        total = float(nearest.sum())
        chosen = int(np.searchsorted(np.cumsum(nearest), drawn.random() * total)) if total > 0 else 0
        centres = np.vstack([centres, points[min(chosen, len(points) - 1)]])
        nearest = np.minimum(nearest, ((points - centres[-1]) ** 2).sum(1))
    labels = np.zeros(len(points), np.int64)
    for round_ in range(_LLOYD):
        distances = (centres**2).sum(1) - 2 * points @ centres.T
        found = distances.argmin(1)
        if round_ and np.array_equal(found, labels):
            break
        labels = found
        sums, counts = np.zeros_like(centres), np.bincount(labels, minlength=k)
        np.add.at(sums, labels, points)
        # A centre that lost all of its points stays.
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
    return likeliest_mixture(points, np.eye(k)[labels])


def mixture_of(points: DoubleArray, k: int, seed: int) -> Mixture:
    return fitted_mixture(points, start_of(points, k, seed))


def best_count(points: DoubleArray, most: int = MOST_CLUSTERS) -> int:
    """Return the number of components with the least BIC, from 1 to `most` and below the number of points.

    With few points for the dimensions, components of one or two points have covariances near 0 and win. So small clusters are
    preferred, as in RAPTOR's own code.
    """
    counts = range(1, max(2, min(most + 1, len(points))))
    return min(counts, key=lambda k: mixture_of(points, k, SEED_OF_COUNT).bic(points))


def soft_shares(points: DoubleArray) -> DoubleArray:
    """Return shares of the points, (n, k), in the mixture whose number of components has the least BIC."""
    return mixture_of(points, best_count(points), SEED_OF_FIT).shares(points)


def principal(vectors: DoubleArray, dimensions: int) -> DoubleArray:
    """Project the vectors on the directions of greatest variance, (n, dimensions), with a fixed sign for each."""
    centred = vectors - vectors.mean(0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    kept = directions[:, ::-1][:, :dimensions]
    largest = np.abs(kept).argmax(0)
    return np.asarray(centred @ (kept * np.sign(kept[largest, np.arange(kept.shape[1])])), np.float64)
