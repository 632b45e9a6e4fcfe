"""Intervals against slow implementations: Wilson's as the roots of an equation, the bootstrap draw by draw."""

from __future__ import annotations

from itertools import product
from math import gamma, pi, sqrt
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import examples

from mergewise.evaluate import statistics as intervals
from mergewise.evaluate.pairs import PairedTests, ScoreVector
from mergewise.evaluate.statistics import (
    FLIPS,
    STUDENT,
    Z,
    bootstrap,
    holm,
    interval,
    mean_interval,
    sign_flip,
    smallest_difference,
    student,
    wilson,
)

VALUES = st.lists(st.floats(-5, 5), min_size=1, max_size=6)


@given(st.integers(1, 400), st.floats(0, 1))
def test_wilson_s_interval_inverts_the_score_test(count: int, share: float) -> None:
    """At both ends p of the interval, |share - p| is Z standard errors of p: the interval inverts the score test."""
    low, high = wilson(share, count)
    assert 0 <= low <= share + 1e-9 and share - 1e-9 <= high <= 1
    for end in (low, high):
        if 0 < end < 1:
            assert abs(share - end) == pytest.approx(Z * sqrt(end * (1 - end) / count), abs=1e-7)


@given(st.integers(1, 200), st.floats(0, 1))
def test_wilson_s_interval_narrows_with_more_questions_and_is_symmetric(count: int, share: float) -> None:
    low, high = wilson(share, count)
    narrow_low, narrow_high = wilson(share, 4 * count)
    assert narrow_high - narrow_low < high - low
    assert wilson(1 - share, count) == pytest.approx((1 - high, 1 - low), abs=1e-9)


@settings(max_examples=15)
@given(VALUES, st.integers(0, 5))
def test_the_bootstrap_matches_quantiles_of_the_drawn_means(values: list[float], seed: int) -> None:
    """The test repeats the draws one by one, and reads the quantiles off the sorted means."""
    generator = np.random.default_rng(seed)
    draws = generator.integers(0, len(values), (intervals.DRAWS, len(values)))
    means = sorted(fmean(values[i] for i in draw) for draw in draws.tolist())

    def quantile(share: float) -> float:
        place = share * (len(means) - 1)
        below = int(place)
        return means[below] + (place - below) * (means[min(below + 1, len(means) - 1)] - means[below])

    assert bootstrap(values, seed=seed) == pytest.approx((quantile(0.025), quantile(0.975)), abs=1e-9)


@settings(max_examples=20)
@given(VALUES)
def test_an_interval_lies_among_the_values_and_shifts_with_them(values: list[float]) -> None:
    low, high = bootstrap(values)
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9
    assert bootstrap([value + 1 for value in values]) == pytest.approx((low + 1, high + 1), abs=1e-9)
    assert bootstrap([2 * value for value in values]) == pytest.approx((2 * low, 2 * high), abs=1e-9)


@settings(max_examples=20)
@given(VALUES, st.floats(-1, 1))
def test_a_pair_of_methods_is_judged_by_its_differences(theirs: list[float], better: float) -> None:
    ours, tests = np.array(theirs) + better, PairedTests({"a": range(len(theirs))})
    found = tests.gain_interval(ScoreVector({"a": ours}), ScoreVector({"a": np.array(theirs)}))
    assert found == pytest.approx((better, better), abs=1e-9)


def test_no_questions_have_no_interval() -> None:
    for empty in (lambda: wilson(0.5, 0), lambda: bootstrap([])):
        with pytest.raises(ValueError, match="no questions"):
            empty()


CLUSTERED = st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 3)), min_size=1, max_size=8)


@settings(max_examples=10)
@given(CLUSTERED)
def test_the_bootstrap_draws_whole_clusters(scored: list[tuple[float, int]]) -> None:
    """The test repeats the draws one by one: all values of the drawn clusters, and their mean."""
    names = list(dict.fromkeys(cluster for _, cluster in scored))
    groups = [[value for value, cluster in scored if cluster == name] for name in names]
    draws = np.random.default_rng(0).integers(0, len(groups), (intervals.DRAWS, len(groups)))
    means = sorted(fmean([value for i in draw for value in groups[i]]) for draw in draws.tolist())
    low, high = bootstrap([value for value, _ in scored], [cluster for _, cluster in scored])
    assert low == pytest.approx(np.quantile(means, 0.025), abs=1e-9)
    assert high == pytest.approx(np.quantile(means, 0.975), abs=1e-9)


def test_student_s_quantiles_leave_an_upper_tail_of_2_5_percent() -> None:
    """The test integrates the density above the quantile by the trapezoid rule."""
    for freedom, quantile in enumerate(STUDENT, 1):
        scale = gamma((freedom + 1) / 2) / (sqrt(freedom * pi) * gamma(freedom / 2))
        # the substitution t = quantile / s maps the tail to (0, 1]
        s = np.linspace(1e-9, 1, 20_001)
        density = scale * (1 + (quantile / s) ** 2 / freedom) ** (-(freedom + 1) / 2) * quantile / s**2
        assert float(np.sum((density[1:] + density[:-1]) / 2 * np.diff(s))) == pytest.approx(0.025, abs=4e-5), freedom


@given(CLUSTERED)
def test_student_s_interval_matches_its_definition(scored: list[tuple[float, int]]) -> None:
    values, clusters = [value for value, _ in scored], [cluster for _, cluster in scored]
    names = set(clusters)
    if len(names) == 1:
        with pytest.raises(ValueError, match="too few clusters: 1"):
            student(values, clusters)
        return
    middle = fmean(values)
    square = sum(sum(value - middle for value, own in scored if own == name) ** 2 for name in names)
    alone = sum((value - middle) ** 2 for value in values)
    error = max(square * len(names) / (len(names) - 1), alone * len(values) / (len(values) - 1)) ** 0.5 / len(values)
    reach = STUDENT[len(names) - 2] * error
    assert student(values, clusters) == pytest.approx((middle - reach, middle + reach), abs=1e-9)
    assert smallest_difference(values, clusters) == pytest.approx(
        (STUDENT[len(names) - 2] + 0.8416212) * error, abs=1e-6
    )


def test_the_kind_of_interval_depends_on_scores_and_clusters() -> None:
    halves = [0.0, 1.0] * 5
    assert mean_interval(halves, range(10)) == wilson(0.5, 10)
    # with a single document the interval uses its questions
    assert mean_interval(halves, [0] * 10) == wilson(0.5, 10)
    # five documents, each half right: no spread between documents, but between questions
    low, high = mean_interval(halves, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    assert (low, high) == pytest.approx((0.5 - STUDENT[3] / 6, 0.5 + STUDENT[3] / 6))
    # all right: Wilson's interval with the number of documents
    assert mean_interval([1.0] * 10, [0] * 5 + [1] * 5) == wilson(1.0, 2)
    assert mean_interval([0.0, 1.0], [0, 1]) == wilson(0.5, 2)
    low, high = mean_interval([0.1, 0.9, 0.5], [0, 1, 2])
    assert (low, high) == (0.0, 1.0)
    assert interval([0.25], [0]) == (0.25, 0.25)
    many = [0.1, 0.4, 0.7] * 20
    assert interval(many, range(60)) == bootstrap(many)
    with pytest.raises(ValueError, match="cluster"):
        bootstrap([1.0, 2.0], [0])


def sign_flips(differences: list[float], clusters: list[int]) -> float:
    """Try all signs of all clusters one by one, or of the questions of a single cluster."""
    if len(set(clusters)) == 1:
        clusters = list(range(len(differences)))
    sums = [sum(d for d, own in zip(differences, clusters, strict=True) if own == name) for name in set(clusters)]
    flipped = [
        abs(sum(sign * one for sign, one in zip(signs, sums, strict=True)))
        for signs in product((1, -1), repeat=len(sums))
    ]
    return fmean(one >= abs(sum(sums)) - 1e-7 for one in flipped)


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), st.integers(0, 8)), min_size=1, max_size=9))
def test_the_exact_test_tries_all_signs(scored: list[tuple[float, int]]) -> None:
    differences, clusters = [value for value, _ in scored], [cluster for _, cluster in scored]
    assert sign_flip(differences, clusters) == pytest.approx(sign_flips(differences, clusters), abs=1e-9)
    alone = sign_flips(differences, list(range(len(differences))))
    assert sign_flip(differences) == pytest.approx(alone, abs=1e-9)


def test_signs_worked_out_by_hand() -> None:
    assert sign_flip([1, 0, 0, 1, 0, 0, 1, 0, 0, 1]) == 0.125  # 2 of 16
    assert sign_flip([1] * 9 + [-1]) == pytest.approx(22 / 1024)  # McNemar's: 0 or 1 of 10, on both sides
    assert sign_flip([0, 0]) == 1.0 and sign_flip([1, -1]) == 1.0
    # many differences of the same size need no draws
    assert sign_flip([1.0] * 700 + [-1.0] * 500) < 1e-7


def test_signs_are_sampled_if_there_are_too_many() -> None:
    differences = [0.1 * i - 0.55 for i in range(17)]
    signs = np.array(list(product((1, -1), repeat=17)))
    exact = float(np.mean(np.abs(signs @ differences) >= abs(sum(differences)) - 1e-7))
    drawn = sign_flip(differences)
    assert abs(drawn - exact) < 0.01 and drawn == sign_flip(differences)
    assert (drawn * (1 + FLIPS) - 1) % 1 == pytest.approx(0, abs=1e-6)
    assert sign_flip([1.0 + i for i in range(40)]) == pytest.approx(1 / (1 + FLIPS))


@given(st.lists(st.floats(0, 1), max_size=6))
def test_holm_s_method_matches_its_definition(probabilities: list[float]) -> None:
    """Each p-value is multiplied by the number of p-values that are not smaller. Results never decrease."""
    corrected = holm(probabilities)
    for one, found in zip(probabilities, corrected, strict=True):
        smaller = sorted(other for other in probabilities if other <= one)
        expected = max(min(1.0, (len(probabilities) - k) * other) for k, other in enumerate(smaller))
        assert found == pytest.approx(expected)
    assert holm([0.001, 0.01, 0.03, 0.04]) == pytest.approx([0.004, 0.03, 0.06, 0.06])


def test_correlated_questions_of_a_cluster_do_not_count_as_independent() -> None:
    """In 60 simulated runs without a difference, few are significant by documents. By questions most would be."""
    draw = np.random.default_rng(7)
    by_document = by_question = 0
    for _ in range(60):
        shared = np.repeat(draw.normal(size=12), 10)
        differences = (shared + draw.normal(scale=0.1, size=120)).tolist()
        clusters = np.repeat(np.arange(12), 10).tolist()
        by_document += sign_flip(differences, clusters) < 0.05
        by_question += abs(fmean(differences)) > Z * float(np.std(differences)) / sqrt(120)
    assert by_document <= 8 and by_question >= 20
