"""The mixtures against a slow transcription, and against scikit-learn if it is installed."""

from __future__ import annotations

from math import exp, log, pi

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mergewise.designs.raptor.clusters import clustering_by
from mergewise.designs.raptor.mixture import (
    REGULAR,
    best_count,
    fitted_mixture,
    likeliest_mixture,
    mixture_of,
    principal,
    soft_shares,
    start_of,
)
from mergewise.protocols import DoubleArray


def blobs(count: int, each: int = 40, dimensions: int = 2, seed: int = 0, apart: float = 12.0) -> DoubleArray:
    random = np.random.default_rng(seed)
    centres = np.zeros((count, dimensions))
    centres[:, 0], centres[:, 1] = np.arange(count), 3 * np.arange(count) % 5
    points = apart * centres.repeat(each, 0)
    return np.asarray(points + random.normal(size=points.shape), np.float64)


def literal_density(x: DoubleArray, mean: DoubleArray, covariance: DoubleArray) -> float:
    """Compute N(x | mean, covariance) literally."""
    d = len(x)
    squared = float((x - mean) @ np.linalg.inv(covariance) @ (x - mean))
    return float(exp(-0.5 * squared) / ((2 * pi) ** (d / 2) * float(np.linalg.det(covariance)) ** 0.5))


@given(st.integers(0, 10_000), st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_one_round_matches_the_textbook(seed: int, k: int) -> None:
    random = np.random.default_rng(seed)
    points = random.normal(size=(12, 2))
    shares = random.dirichlet(np.ones(k), 12)
    mixture = likeliest_mixture(points, shares)
    covariances = mixture.factors @ mixture.factors.transpose(0, 2, 1)
    for j in range(k):
        counted = sum(shares[i, j] for i in range(12))
        mean = sum(shares[i, j] * points[i] for i in range(12)) / counted
        spread = sum(shares[i, j] * np.outer(points[i] - mean, points[i] - mean) for i in range(12)) / counted
        assert mixture.weights[j] == pytest.approx(counted / 12)
        assert mixture.means[j] == pytest.approx(mean) and covariances[j] == pytest.approx(spread + REGULAR * np.eye(2))
    joint = np.array(
        [[mixture.weights[j] * literal_density(x, mixture.means[j], covariances[j]) for j in range(k)] for x in points]
    )
    assert mixture.log_likelihood(points) == pytest.approx(np.log(joint.sum(1)).mean())
    assert mixture.shares(points) == pytest.approx(joint / joint.sum(1, keepdims=True), abs=1e-9)
    parameters = k * 3 + k * 2 + k - 1
    assert mixture.bic(points) == pytest.approx(-2 * np.log(joint.sum(1)).sum() + parameters * log(12))


def test_rounds_never_make_the_likelihood_smaller() -> None:
    points = blobs(3, 20, apart=3.0)
    before = start_of(points, 4, 0)
    assert fitted_mixture(points, before).log_likelihood(points) >= before.log_likelihood(points)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_least_bic_finds_blobs(count: int) -> None:
    points = blobs(count, seed=count)
    assert best_count(points, 8) == count
    hard = mixture_of(points, count, 0).shares(points).argmax(1)
    assert len({tuple(hard[i * 40 : (i + 1) * 40]) for i in range(count)}) == count
    assert all(len(set(hard[i * 40 : (i + 1) * 40])) == 1 for i in range(count))


def test_few_and_equal_points_work() -> None:
    for points in (np.zeros((12, 10)), np.ones((3, 1)), np.eye(12, 10)):
        shares = soft_shares(points)
        assert np.isfinite(shares).all() and shares.sum(1) == pytest.approx(np.ones(len(points)))


def test_the_same_seed_gives_the_same() -> None:
    points = blobs(2, 9, seed=4, apart=4.0)
    assert np.array_equal(soft_shares(points), soft_shares(points.copy()))
    assert not np.array_equal(start_of(points, 5, 0).means, start_of(points, 5, 1).means)


def test_principal_directions_hold_the_most_variance() -> None:
    points = blobs(3, 10, 5)
    centred = points - points.mean(0)
    singular = np.linalg.svd(centred, compute_uv=False)
    found = principal(points, 3)
    assert np.linalg.norm(found, axis=0) == pytest.approx(singular[:3])
    # A rotation of all points rotates the projection and changes nothing else.
    assert found == pytest.approx(-principal(-points, 3))


# -- comparison with scikit-learn


def test_the_same_start_gives_the_result_of_scikit_learn() -> None:
    mixtures = pytest.importorskip("sklearn.mixture", reason="scikit-learn is not installed (extra raptor)")
    for seed in range(12):
        points = blobs(3, 25, 3 + seed % 4, seed, apart=1.0 + seed)
        start = start_of(points, 1 + seed % 5, seed)
        covariances = start.factors @ start.factors.transpose(0, 2, 1)
        theirs = mixtures.GaussianMixture(
            len(start.weights),
            weights_init=start.weights,
            means_init=start.means,
            precisions_init=np.linalg.inv(covariances),
        ).fit(points)
        ours = fitted_mixture(points, start)
        assert ours.log_likelihood(points) == pytest.approx(theirs.score(points), abs=1e-6)
        assert ours.bic(points) == pytest.approx(theirs.bic(points), abs=1e-3)


def test_scikit_learn_counts_the_same_blobs() -> None:
    mixtures = pytest.importorskip("sklearn.mixture", reason="scikit-learn is not installed (extra raptor)")
    for seed in range(50):
        count = 1 + seed % 4
        points = blobs(count, 80, 2 + seed % 3, seed)
        counts = range(1, 8)
        fits = {k: mixtures.GaussianMixture(k, random_state=224).fit(points).bic(points) for k in counts}
        assert best_count(points, 7) == min(counts, key=fits.__getitem__) == count, seed


def test_umap_is_seeded() -> None:
    pytest.importorskip("umap", reason="umap-learn is not installed (extra raptor)")
    by = clustering_by("umap")
    vectors = np.random.default_rng(0).normal(size=(40, 16))
    once, again = (by.project(vectors, 5, 6) for _ in range(2))
    assert np.array_equal(once, again) and once.shape == (40, 5)
    assert by.shares(once).sum(1) == pytest.approx(np.ones(40)) and "umap-learn" in by.made_by
