"""Error rates of tests and intervals on simulated runs with known truth. `MERGEWISE_ATTACK=1` simulates thousands of runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from math import comb, sqrt
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.evaluate import pairs, statistics
from mergewise.evaluate.pairs import PairedTests, ScoreVector
from mergewise.evaluate.statistics import holm, interval, mean_interval, sign_flip, smallest_difference

LONG = bool(os.environ.get("MERGEWISE_ATTACK"))
RUNS = 4000 if LONG else 200
SLACK = 4.2 * sqrt(0.05 * 0.95 / RUNS)
"""Largest deviation from 5 % that may occur by chance. Larger ones occur three times in a hundred thousand."""
ALLOWED = 0.01 if LONG else SLACK
Scores: TypeAlias = Callable[[np.random.Generator, np.ndarray, float], np.ndarray]


def rights(draw: np.random.Generator, clusters: np.ndarray, alike: float, mean: float = 0.6) -> np.ndarray:
    """Draw right and wrong answers. Each cluster's share of right answers has a beta distribution around `mean`.

    The distribution is narrower for a smaller `alike`.
    """
    strength = 1 / alike - 1
    shares = draw.beta(mean * strength, (1 - mean) * strength, int(clusters.max()) + 1)
    return (draw.random(len(clusters)) < shares[clusters]).astype(float)


def f1s(draw: np.random.Generator, clusters: np.ndarray, alike: float) -> np.ndarray:
    """Draw scores between 0 and 1, some of them exactly 0 or 1."""
    shared = draw.normal(0.5, sqrt(alike) / 2, int(clusters.max()) + 1)
    return np.clip(shared[clusters] + draw.normal(0, sqrt(1 - alike) / 2, len(clusters)), 0, 1)


CLUSTERS = {
    "alone": np.arange(60),
    "clusters": np.repeat(np.arange(12), 7),
    # one document has most of the questions
    "sizes": np.repeat(np.arange(12), [30, 12, *[3] * 10]),
}


@pytest.mark.parametrize("scores", [rights, f1s])
@pytest.mark.parametrize("kind", CLUSTERS)
def test_five_percent_of_runs_without_a_difference_are_significant(kind: str, scores: Scores) -> None:
    draw, clusters = np.random.default_rng(26), CLUSTERS[kind]
    if kind == "alone" and scores is f1s:
        # few enough differences to try all signs
        clusters = clusters[:12]
    runs = [(scores(draw, clusters, 0.3) - scores(draw, clusters, 0.3)).tolist() for _ in range(RUNS)]
    told = float(np.mean([sign_flip(one, clusters.tolist()) < 0.05 for one in runs]))
    # scores of 0 and 1 allow few distinct p-values, so the error rate is below the level
    least = 0.01 if scores is rights else 0.05 - ALLOWED
    assert least <= told <= 0.05 + ALLOWED
    if kind == "clusters" and scores is rights:
        assert np.mean([sign_flip(one) < 0.05 for one in runs[:200]]) > 0.12


def test_sampled_signs_have_the_same_error_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "FLIPS", 1000)
    draw, clusters = np.random.default_rng(3), np.repeat(np.arange(25), 4)
    runs = (draw.normal(size=25)[clusters] + draw.normal(size=100) for _ in range(RUNS))
    found = np.mean([sign_flip(one.tolist(), clusters.tolist()) < 0.05 for one in runs])
    assert abs(found - 0.05) <= ALLOWED


@pytest.mark.parametrize("count", [12, 40])
def test_only_intervals_by_clusters_cover_the_truth(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals use Student's quantiles for few clusters, else the bootstrap."""
    monkeypatch.setattr(statistics, "DRAWS", 2000 if LONG else 500)
    draw, clusters = np.random.default_rng(7), np.repeat(np.arange(count), 10)
    held = alone = 0
    for _ in range(RUNS):
        values = rights(draw, clusters, 0.3).tolist()
        low, high = interval(values, clusters.tolist())
        held += low <= 0.6 <= high
        low, high = mean_interval(values, range(len(values)))
        alone += low <= 0.6 <= high
    assert abs(held / RUNS - 0.95) <= (0.02 if LONG else 0.02 + SLACK / 2)
    assert alone / RUNS < 0.85


@pytest.mark.parametrize("sets", [1, 2])
def test_shared_draws_have_the_same_error_rate(sets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two equally good methods, on documents with several questions each, are rarely significant, and intervals cover the truth.

    Both would fail if questions counted as independent.
    """
    monkeypatch.setattr(pairs, "DRAWS", 4000 if LONG else 500)
    draw, names = np.random.default_rng(13), [f"set {i}" for i in range(sets)]
    clusters = np.repeat(np.arange(36), 6)
    shared = PairedTests({name: clusters.tolist() for name in names})
    alone = PairedTests({name: range(len(clusters)) for name in names})
    told = told_alone = held = held_alone = 0
    runs = RUNS // 2
    for _ in range(runs):
        ours, theirs = (ScoreVector({name: rights(draw, clusters, 0.3) for name in names}) for _ in range(2))
        told += (shared.probability(ours, theirs) or 0) < 0.05
        told_alone += (alone.probability(ours, theirs) or 0) < 0.05
        held += _holds(shared.interval(ours))
        held_alone += _holds(alone.interval(ours))
    slack = 0.02 if LONG else 4.2 * sqrt(0.05 * 0.95 / runs)
    assert told / runs <= 0.05 + slack and abs(held / runs - 0.95) <= slack
    assert told_alone / runs > 0.12 and held_alone / runs < 0.9


def _holds(bounds: tuple[float, float] | None) -> bool:
    return bounds is not None and bounds[0] <= 0.6 <= bounds[1]


def test_holm_s_correction_keeps_the_family_error_rate() -> None:
    """Among ten equally good methods, few runs find a difference from the first method."""
    draw, clusters, told = np.random.default_rng(9), np.arange(60), 0
    runs = RUNS // 10
    for _ in range(runs):
        first = rights(draw, clusters, 0.3)
        raw = [sign_flip((rights(draw, clusters, 0.3) - first).tolist()) for _ in range(9)]
        told += min(holm(raw)) < 0.05
    assert told / runs <= 0.05 + 4.2 * sqrt(0.05 * 0.95 / runs)


def test_the_smallest_difference_is_detected_with_80_percent_power() -> None:
    draw, found, runs = np.random.default_rng(5), 0, RUNS // 4
    spread = draw.normal(scale=0.5, size=200)
    smallest = smallest_difference((spread - spread.mean()).tolist(), range(200))
    assert smallest is not None and smallest == pytest.approx(2.8 * 0.5 / sqrt(200), rel=0.15)
    for _ in range(runs):
        values = draw.normal(loc=smallest, scale=float(spread.std()), size=200)
        found += abs(values.mean()) > 1.96 * values.std() / sqrt(200)
    assert found / runs == pytest.approx(0.8, abs=4.2 * sqrt(0.8 * 0.2 / runs))


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 20))
def test_for_scores_of_0_and_1_it_is_mcnemar_s_exact_test(better: int, worse: int, ties: int) -> None:
    """The p-value is twice the lower tail of a fair coin, tossed once for each question on which the methods differ."""
    count = better + worse
    tail = sum(comb(count, i) for i in range(min(better, worse) + 1)) / 2**count
    assert sign_flip([1.0] * better + [0.0] * ties + [-1.0] * worse) == pytest.approx(min(1.0, 2 * tail))
