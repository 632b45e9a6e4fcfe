"""Paired tests of many methods, against `statistics` and a slow implementation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mergewise.evaluate.pairs import PairedTests, ScoreVector, mean_of, over_sets
from mergewise.evaluate.statistics import holm, sign_flip


def scored(values: list[float], name: str = "a") -> ScoreVector:
    return ScoreVector({name: np.asarray(values, float)})


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000), st.integers(20, 60))
def test_many_clusters_have_the_same_p_value_as_a_single_test(seed: int, count: int) -> None:
    draw = np.random.default_rng(seed)
    ours, theirs = draw.random(count), draw.random(count) + draw.normal(0, 0.1)
    clusters = draw.integers(0, count, count)
    tests = PairedTests({"a": list(clusters)})
    found = tests.probability(ScoreVector({"a": ours}), ScoreVector({"a": theirs}))
    assert found == pytest.approx(sign_flip(list(ours - theirs), list(clusters)), abs=0.02)


def test_sets_have_equal_weight_and_independent_signs() -> None:
    """The slow reference computes the mean of the sets' means under all signs of all clusters."""
    draw = np.random.default_rng(4)
    a, b = draw.normal(0.3, 1, 6), draw.normal(0.2, 1, 5)
    tests = PairedTests({"a": range(6), "b": range(5)})
    ours, theirs = ScoreVector({"a": a, "b": b}), ScoreVector({"a": np.zeros(6), "b": np.zeros(5)})
    signs = 1 - 2 * (np.arange(2**11)[:, None] >> np.arange(11) & 1)
    moved = ((signs[:, :6] * a).mean(1) + (signs[:, 6:] * b).mean(1)) / 2
    exact = float(np.mean(np.abs(moved) >= abs((a.mean() + b.mean()) / 2) - 1e-9))
    assert tests.probability(ours, theirs) == pytest.approx(exact, abs=0.02)
    assert tests.gains(ours, theirs).mean == pytest.approx((a.mean() + b.mean()) / 2)


def test_questions_without_both_scores_are_left_out() -> None:
    tests = PairedTests({"a": range(40)})
    values = np.tile([1.0, 0.0], 20)
    ours, theirs = ScoreVector({"a": values.copy()}), ScoreVector({"a": values.copy()})
    ours.by_set["a"][:20] = np.nan
    assert tests.probability(ours, theirs) == 1.0 and tests.gains(ours, theirs).mean == 0.0
    assert tests.probability(ours, scored([np.nan] * 40)) is None


def test_marks_include_methods_not_worse_than_the_best() -> None:
    best, alike = [1.0] * 30 + [0.0] * 10, [1.0] * 29 + [0.0] * 11
    worse, worst = [1.0] * 10 + [0.0] * 30, [0.0] * 40
    tests = PairedTests({"a": range(40)})
    assert tests.marks([scored(worse), scored(best), None, scored(alike), scored(worst)]) == [
        "second",
        "best",
        "",
        "best",
        "",
    ]
    assert tests.marks([scored(best), None]) == ["", ""]
    pairs = tests.adjusted([scored(best), scored(alike), scored(worst)])
    assert pairs == dict(zip([(1, 0), (2, 0), (2, 1)], holm([1.0, 2**-29, 2**-28]), strict=True))


def test_the_rate_of_false_marks_matches_the_level() -> None:
    """For methods that do not differ, about one table in twenty marks some as worse than the best."""
    draw, false = np.random.default_rng(1), 0
    for _ in range(80):
        tests = PairedTests({"a": range(60)}, seed=int(draw.integers(1 << 30)))
        rows = [ScoreVector({"a": draw.random(60)}) for _ in range(2)]
        false += tests.marks(rows) != ["best", "best"]
    assert 1 <= false <= 10


def test_intervals_use_clusters() -> None:
    """The interval of forty groups of five equal questions is that of forty questions."""
    draw = np.random.default_rng(2)
    groups = draw.random(40)
    tests = PairedTests({"a": np.repeat(np.arange(40), 5).tolist(), "b": range(40)})
    wide, same = tests.interval(scored(np.repeat(groups, 5).tolist())), tests.interval(ScoreVector({"b": groups}))
    assert wide is not None and same is not None
    assert wide == pytest.approx(same, abs=0.01)
    error = groups.std(ddof=1) / np.sqrt(40)
    assert wide[1] - wide[0] == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_means_of_columns_need_all_of_them() -> None:
    whole = mean_of([scored([1, 0]), scored([0, 0])])
    assert whole is not None and whole.mean == 0.25
    assert mean_of([scored([1, 0]), scored([1], "b")]) is None and mean_of([]) is None
    assert over_sets([scored([1, 0]), scored([1, 1, 1, 1], "b")]).mean == 0.75
