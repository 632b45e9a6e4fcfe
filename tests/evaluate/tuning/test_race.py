"""A race of points: who leaves it, who wins it, and how often a whole tuning errs."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluate.tuning.simulated import POINTS, asked, matrix, tuned

from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.statistics import sign_flip
from mergewise.evaluate.tuning.keeping import Ledger
from mergewise.evaluate.tuning.measuring import PointScore
from mergewise.evaluate.tuning.race import FLIPS, block_ends, chances, run_race, winner_of
from mergewise.evaluate.tuning.space import Point
from mergewise.evaluate.tuning.tune import judged_race, split_of

LONG = bool(os.environ.get("MERGEWISE_ATTACK"))


def chance_by_all_signs(differences: list[float], clusters: list[int]) -> float:
    """The definition: the share of all signs of clusters that make a sum at least as high."""
    sums = [
        sum(d for d, own in zip(differences, clusters, strict=True) if own == one) for one in dict.fromkeys(clusters)
    ]
    signs = list(product((1, -1), repeat=len(sums)))
    high = [sum(s * d for s, d in zip(row, sums, strict=True)) >= sum(sums) - 1e-9 for row in signs]
    return sum(high) / len(high)


@given(st.lists(st.tuples(st.sampled_from((-1.0, -0.5, 0.0, 0.5, 1.0)), st.integers(0, 5)), min_size=1, max_size=12))
def test_a_chance_is_the_share_of_signs_that_do_as_well(rows: list[tuple[float, int]]) -> None:
    differences, clusters = [list(column) for column in zip(*rows, strict=True)]
    (found,) = chances(np.array([differences]).T, clusters)
    expected = chance_by_all_signs(differences, clusters)
    assert abs(found - expected) < 4 * (0.25 / FLIPS) ** 0.5 + 1 / FLIPS


def test_one_side_is_half_of_both() -> None:
    draw = np.random.default_rng(1)
    differences = draw.normal(0.3, 1, 40)
    (one,) = chances(differences[:, None], list(range(40)))
    assert one == pytest.approx(sign_flip(differences.tolist()) / 2, abs=0.01)


def test_blocks_double_and_end_with_the_questions() -> None:
    assert block_ends(5) == [5]
    assert block_ends(24) == [8, 24]
    assert block_ends(60) == [8, 24, 56, 60]
    assert block_ends(0) == []


def rows_of(scores: dict[str, list[float]]) -> object:
    return lambda point, question: PointScore(scores[point.strategy][int(question.id)], 100 + len(point.strategy))


def test_worse_points_leave_and_the_default_stays() -> None:
    scores = {"default": [0.0] * 60, "good": [1.0] * 60, "bad": [0.0] * 60}
    points = [Point(name) for name in scores]
    race = run_race(points, asked(60), range(60), rows_of(scores))  # type: ignore[arg-type]
    assert race.running == [0, 1] and race.seen == 60
    # 8 wins out of 8: a chance of 1 in 256, below 0.05 / 4
    assert race.left[2].questions == 8 and race.left[2].probability < 0.0125
    assert [len(rows) for rows in race.rows] == [60, 60, 8]
    assert winner_of(race, range(60)) == 1


def test_a_race_ends_where_the_default_is_alone_and_where_time_is_over() -> None:
    scores = {"default": [1.0] * 60, "bad": [0.0] * 60}
    race = run_race([Point("default"), Point("bad")], asked(60), range(60), rows_of(scores))  # type: ignore[arg-type]
    assert race.seen == 8
    left = iter([True] * 5 + [False])
    scores["bad"] = [1.0] * 60
    race = run_race(
        [Point("default"), Point("bad")],
        asked(60),
        range(60),
        rows_of(scores),  # type: ignore[arg-type]
        lambda: next(left),
    )
    assert race.seen == 5 and race.running == [0, 1]


def test_of_equals_the_one_with_the_fewest_changes_wins_and_then_the_shortest() -> None:
    points = [
        Point("default"),
        Point("a", {"strategy": {"k": 1, "hops": 2}}),
        Point("bbb", {"search": {"weight": 0.5}}),
        Point("bb", {"search": {"weight": 0.6}}),
    ]
    scores = {point.strategy: [1.0] * 30 for point in points} | {"default": [0.0] * 30}
    race = run_race(points, asked(30), range(30), rows_of(scores))  # type: ignore[arg-type]
    assert winner_of(race, range(30)) == 3


def test_questions_of_one_document_count_once() -> None:
    """30 questions about 3 documents show nothing, however often one point wins."""
    scores = {"default": [1.0] * 30, "bad": [0.0] * 30}
    points = [Point("default"), Point("bad")]
    race = run_race(points, asked(30), [number % 3 for number in range(30)], rows_of(scores))  # type: ignore[arg-type]
    assert race.running == [0, 1]


@pytest.mark.parametrize("count", [20 if LONG else 2])
def test_chance_is_not_taken_for_a_gain(tmp_path: Path, count: int) -> None:
    better = [tuned(matrix(seed, 250), tmp_path / str(seed), seed).is_better for seed in range(count)]
    assert sum(better) <= 1


@pytest.mark.parametrize(("count", "least"), [(20, 16) if LONG else (2, 2)])
def test_a_planted_gain_is_found(tmp_path: Path, count: int, least: int) -> None:
    found = []
    for seed in range(count):
        report = tuned(matrix(seed, 250, gain=0.08, pieces=2), tmp_path / str(seed), seed)
        planted = {point.key for point in POINTS[-5:]}
        found.append(report.is_better and report.winner.key in planted)
    assert sum(found) >= least


def test_a_second_tuning_on_the_same_questions_is_held_to_half(tmp_path: Path) -> None:
    first = tuned(matrix(0, 250, gain=0.08, pieces=2), tmp_path)
    again = tuned(matrix(0, 250, gain=0.08, pieces=2), tmp_path)
    other = tuned(matrix(3, 250, gain=0.08, pieces=2), tmp_path)
    assert first.held_out and again.held_out and other.held_out
    assert (first.held_out.alpha, again.held_out.alpha) == (0.05, 0.05)
    assert (other.held_out.alpha, other.held_out.before) == (0.025, 1)


def test_a_tuning_that_was_short_of_time_keeps_the_defaults(tmp_path: Path) -> None:
    def never(point: Point, question: Question) -> PointScore:
        raise AssertionError

    split = split_of(asked(150))
    race = run_race(POINTS, split.tuned, split.tuned_clusters, never, lambda: False)
    report = judged_race(race, split, never, Ledger(tmp_path), {}, "evidence", 384, {})
    assert report.verdict() == "keep the defaults: there was time for 0 questions only: give it more (--time)"
