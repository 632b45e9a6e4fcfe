"""Trials of random points: who wins them, and how often a whole tuning errs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.evaluate.tuning.simulated import POINTS, SETUP, asked, matrix, tuned

from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.tuning.measuring import Measure, PointScore
from mergewise.evaluate.tuning.space import Point
from mergewise.evaluate.tuning.trials import run_trials, winner_of
from mergewise.evaluate.tuning.tune import compare_points, split_of

LONG = bool(os.environ.get("MERGEWISE_ATTACK"))


def measure_of(scores: dict[str, list[float]]) -> Measure:
    return lambda points, question: [
        PointScore(scores[point.strategy][int(question.id)], 100 + len(point.strategy)) for point in points
    ]


def test_all_points_answer_the_questions_that_there_is_time_for() -> None:
    scores = {"default": [1.0] * 60, "bad": [0.0] * 60}
    points = [Point("default"), Point("bad")]
    left = iter([True] * 5 + [False])
    trials = run_trials(points, asked(60), measure_of(scores), lambda: next(left))
    assert trials.seen == 5 and [trials.mean(number) for number in range(2)] == [1.0, 0.0]


def test_of_equals_the_one_with_the_fewest_changes_wins_and_then_the_shortest() -> None:
    points = [
        Point("default"),
        Point("a", {"strategy": {"k": 1, "hops": 2}}),
        Point("bbb", {"search": {"weight": 0.5}}),
        Point("bb", {"search": {"weight": 0.6}}),
    ]
    scores = {point.strategy: [1.0] * 30 for point in points} | {"default": [0.0] * 30}
    trials = run_trials(points, asked(30), measure_of(scores))
    assert winner_of(trials, range(30)) == 3


@pytest.mark.parametrize("count", [20 if LONG else 4])
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
    def never(points: Sequence[Point], question: Question) -> list[PointScore]:
        raise AssertionError

    report = compare_points(POINTS, split_of(asked(150)), never, SETUP, tmp_path, {}, lambda: False)
    assert report.verdict() == "keep the defaults: there was time for 0 questions only: give it more (--time)"
