"""Trials of random points: the choice of the winner, and the error rate of a whole tuning."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.evaluate.tuning.simulated import POINTS, SETUP, matrix, question_list, simulated_report

from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.tuning.measuring import Measure, PointScore
from mergewise.evaluate.tuning.space import Point
from mergewise.evaluate.tuning.tune import compare_points, cross_fitted, folded_questions, run_trials, winner_of

LONG = bool(os.environ.get("MERGEWISE_ATTACK"))


def measure_of(scores: dict[str, list[float]]) -> Measure:
    return lambda points, question: [
        PointScore(scores[point.strategy][int(question.id)], 100 + len(point.strategy)) for point in points
    ]


def test_all_points_are_measured_on_the_same_questions_until_the_time_is_over() -> None:
    scores = {"default": [1.0] * 60, "bad": [0.0] * 60}
    points = [Point("default"), Point("bad")]
    left = iter([True] * 5 + [False])
    trials = run_trials(points, question_list(60), measure_of(scores), lambda: next(left))
    assert trials.seen == 5 and [trials.mean(number) for number in range(2)] == [1.0, 0.0]


def test_among_equals_the_fewest_changes_win_then_the_fewest_tokens() -> None:
    points = [
        Point("default"),
        Point("a", {"strategy": {"k": 1, "hops": 2}}),
        Point("bbb", {"search": {"weight": 0.5}}),
        Point("bb", {"search": {"weight": 0.6}}),
    ]
    scores = {point.strategy: [1.0] * 30 for point in points} | {"default": [0.0] * 30}
    trials = run_trials(points, question_list(30), measure_of(scores))
    assert winner_of(trials, range(30)) == 3


@pytest.mark.parametrize("count", [20 if LONG else 4])
def test_random_differences_do_not_win(tmp_path: Path, count: int) -> None:
    better = [simulated_report(matrix(seed, 250), tmp_path / str(seed), seed).is_better for seed in range(count)]
    assert sum(better) <= 1


@pytest.mark.parametrize(
    ("questions", "gain", "pieces", "share"), [(250, 0.08, 2, 0.75), (250, 0.08, 1, 0.75), (100, 0.10, 1, 0.25)]
)
def test_a_planted_gain_is_found(tmp_path: Path, questions: int, gain: float, pieces: int, share: float) -> None:
    count = 20 if LONG else 4
    found = []
    for seed in range(count):
        report = simulated_report(matrix(seed, questions, gain=gain, pieces=pieces), tmp_path / str(seed), seed)
        planted = {point.key for point in POINTS[-5:]}
        found.append(report.is_better and report.winner.key in planted)
    assert sum(found) >= share * count


def test_a_second_tuning_on_the_same_questions_has_half_the_level(tmp_path: Path) -> None:
    first = simulated_report(matrix(0, 250, gain=0.08, pieces=2), tmp_path)
    again = simulated_report(matrix(0, 250, gain=0.08, pieces=2), tmp_path)
    other = simulated_report(matrix(3, 250, gain=0.08, pieces=2), tmp_path)
    assert first.held_out and again.held_out and other.held_out
    assert (first.held_out.alpha, again.held_out.alpha) == (0.005, 0.005)
    assert (other.held_out.alpha, other.held_out.before) == (0.0025, 1)


def test_a_tuning_without_time_keeps_the_defaults(tmp_path: Path) -> None:
    def never(points: Sequence[Point], question: Question) -> list[PointScore]:
        raise AssertionError

    report = compare_points(POINTS, folded_questions(question_list(150)), never, SETUP, tmp_path, {}, lambda: False)
    assert report.verdict() == "keep the defaults: time for 0 questions only (increase --time)"


def test_a_fold_is_judged_by_the_winner_of_the_other_folds() -> None:
    points = [Point("default"), Point("a"), Point("b")]
    # "a" is best by the questions of fold 0, and "b" by all others
    scores = {"default": [0.0] * 60, "a": [1.0] * 30 + [0.0] * 30, "b": [0.0] * 30 + [1.0] * 30}
    trials = run_trials(points, question_list(60), measure_of(scores))
    rows = cross_fitted(trials, [0] * 30 + [1] * 30, list(range(60)))
    assert [winner.score for _, winner in rows] == [0.0] * 60
    assert {winner.tokens for _, winner in rows} == {101}


def test_each_question_is_held_out_once(tmp_path: Path) -> None:
    found = simulated_report(matrix(0, 100, gain=0.2), tmp_path).held_out
    assert found is not None and found.questions == 100
