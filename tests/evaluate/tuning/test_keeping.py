"""The log of held-out questions, and the rows of a killed tuning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.evaluate.tuning.simulated import question_list

from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.tuning.keeping import HoldoutLog, KeptMeasure
from mergewise.evaluate.tuning.measuring import PointScore
from mergewise.evaluate.tuning.space import Point


def test_each_use_halves_the_level(tmp_path: Path) -> None:
    questions = question_list(30)
    alphas = [HoldoutLog(tmp_path).open({"winner": name}, questions).alpha for name in "abc"]
    assert alphas == [0.005, 0.0025, 0.00125]
    # repeating a comparison gives the same level
    assert HoldoutLog(tmp_path).open({"winner": "b"}, questions).alpha == 0.0025
    # a single shared question counts
    assert HoldoutLog(tmp_path).open({"winner": "d"}, [questions[0], Question("x", "new", ("yes",), None)]).before == 3
    assert HoldoutLog(tmp_path).open({"winner": "d"}, [Question("y", "other", ("yes",), None)]).alpha == 0.005


def test_an_interrupted_use_counts(tmp_path: Path) -> None:
    """A use is logged before anything is measured, so that a kill in between does not give a free look."""
    HoldoutLog(tmp_path).open({"winner": "a"}, question_list(30))
    with (tmp_path / "ledger.jsonl").open("a") as file:
        file.write('{"key": "cut o')
    ledger = HoldoutLog(tmp_path)
    opening = ledger.open({"winner": "b"}, question_list(30))
    assert opening.alpha == 0.0025
    ledger.close(opening, {"difference": 0.1})
    assert HoldoutLog(tmp_path).open({"winner": "b"}, question_list(30)).alpha == 0.0025


def test_measured_scores_are_not_measured_again(tmp_path: Path) -> None:
    asked_for: list[tuple[str, str]] = []

    def measure(points: Sequence[Point], question: Question) -> list[PointScore]:
        if len(asked_for) == 6:
            asked_for.clear()
            raise KeyboardInterrupt
        asked_for.extend((point.key, question.id) for point in points)
        return [PointScore(0.5, 7)] * len(points)

    points, questions = [Point("topk"), Point("topk", {"search": {"weight": 0.5}})], question_list(5)

    def ask_all(metric: str = "evidence") -> None:
        kept = KeptMeasure(measure, tmp_path, metric)
        for question in questions:
            assert kept(points, question) == [PointScore(0.5, 7)] * 2

    with pytest.raises(KeyboardInterrupt):
        ask_all()
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write('{"set": "", "question"')
    ask_all()
    # three questions were complete at the interruption
    assert asked_for == [(point.key, id) for id in "34" for point in points]
    ask_all()
    assert len(asked_for) == 4
    points.append(Point("weave"))
    assert KeptMeasure(measure, tmp_path, "evidence")(points, questions[0]) == [PointScore(0.5, 7)] * 3
    assert asked_for[4:] == [("weave |  | ", "0")]
    KeptMeasure(measure, tmp_path, "answer")(points[:1], questions[0])
    assert len(asked_for) == 6


@pytest.mark.parametrize("value", ["null", "NaN", "1e999", "[]", '"x"', "1" + "0" * 400])
def test_damaged_values_are_measured_again(tmp_path: Path, value: str) -> None:
    point, question = Point("topk"), question_list(1)[0]

    def ask() -> list[PointScore]:
        return KeptMeasure(lambda points, question: [PointScore(0.5, 7)], tmp_path, "answer")([point], question)

    ask()
    HoldoutLog(tmp_path).open({"winner": "a"}, [question])
    rows, ledger = tmp_path / "rows.jsonl", tmp_path / "ledger.jsonl"
    rows.write_text(rows.read_text().replace('"answer": 0.5', f'"answer": {value}'))
    ledger.write_text(ledger.read_text().replace('"alpha": 0.005', f'"alpha": {value}'))
    assert ask() == [PointScore(0.5, 7)]
    assert HoldoutLog(tmp_path).open({"winner": "a"}, [question]).alpha == 0.005
