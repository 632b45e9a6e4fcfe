"""Intervals against their definitions: Wilson's as the roots of an equation, the bootstrap draw by draw."""

from __future__ import annotations

from math import sqrt
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mergewise.evaluate import statistics as intervals
from mergewise.evaluate.statistics import Z, bootstrap, paired_interval, wilson

VALUES = st.lists(st.floats(-5, 5), min_size=1, max_size=6)


@given(st.integers(1, 400), st.floats(0, 1))
def test_the_ends_of_wilson_s_interval_are_as_far_as_the_test_allows(count: int, share: float) -> None:
    """A share p lies at the end where |share - p| is Z standard errors of p: the score test, turned around."""
    low, high = wilson(share, count)
    assert 0 <= low <= share + 1e-9 and share - 1e-9 <= high <= 1
    for end in (low, high):
        if 0 < end < 1:
            assert abs(share - end) == pytest.approx(Z * sqrt(end * (1 - end) / count), abs=1e-7)


@given(st.integers(1, 200), st.floats(0, 1))
def test_more_questions_make_it_narrower_and_mirrored_shares_mirror_it(count: int, share: float) -> None:
    low, high = wilson(share, count)
    narrow_low, narrow_high = wilson(share, 4 * count)
    assert narrow_high - narrow_low < high - low
    assert wilson(1 - share, count) == pytest.approx((1 - high, 1 - low), abs=1e-9)


@settings(max_examples=15)
@given(VALUES, st.integers(0, 5))
def test_the_bootstrap_is_the_middle_of_the_means_that_were_drawn(values: list[float], seed: int) -> None:
    """The same draws one by one, and their quantiles read off the sorted means."""
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
def test_an_interval_lies_among_the_values_and_moves_with_them(values: list[float]) -> None:
    low, high = bootstrap(values)
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9
    assert bootstrap([value + 1 for value in values]) == pytest.approx((low + 1, high + 1), abs=1e-9)
    assert bootstrap([2 * value for value in values]) == pytest.approx((2 * low, 2 * high), abs=1e-9)


@settings(max_examples=20)
@given(VALUES, st.floats(-1, 1))
def test_a_pair_of_methods_is_judged_by_its_differences(theirs: list[float], better: float) -> None:
    ours = [value + better for value in theirs]
    assert paired_interval(ours, theirs) == pytest.approx((better, better), abs=1e-9)
    low, high = paired_interval(theirs, [0.0] * len(theirs))
    assert (low, high) == bootstrap(theirs)


def test_no_questions_have_no_interval() -> None:
    for empty in (lambda: wilson(0.5, 0), lambda: bootstrap([]), lambda: paired_interval([], [])):
        with pytest.raises(ValueError, match="no questions"):
            empty()
    with pytest.raises(ValueError):
        paired_interval([1.0], [1.0, 2.0])
