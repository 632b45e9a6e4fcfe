"""The ledger of held-out parts, and rows that a kill leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.evaluate.tuning.simulated import asked

from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.tuning.keeping import HoldoutLog, KeptMeasure
from mergewise.evaluate.tuning.measuring import PointScore
from mergewise.evaluate.tuning.space import Point


def test_each_look_halves_the_level(tmp_path: Path) -> None:
    questions = asked(30)
    alphas = [HoldoutLog(tmp_path).open({"winner": name}, questions).alpha for name in "abc"]
    assert alphas == [0.05, 0.025, 0.0125]
    # whoever asks the same again is told the same
    assert HoldoutLog(tmp_path).open({"winner": "b"}, questions).alpha == 0.025
    # one question in common is enough
    assert HoldoutLog(tmp_path).open({"winner": "d"}, [questions[0], Question("x", "new", ("yes",), None)]).before == 3
    assert HoldoutLog(tmp_path).open({"winner": "d"}, [Question("y", "other", ("yes",), None)]).alpha == 0.05


def test_an_opening_counts_though_nobody_saw_its_result(tmp_path: Path) -> None:
    """It is entered before anything is measured: a kill in between gives no free look."""
    HoldoutLog(tmp_path).open({"winner": "a"}, asked(30))
    with (tmp_path / "ledger.jsonl").open("a") as file:
        file.write('{"key": "cut o')
    ledger = HoldoutLog(tmp_path)
    opening = ledger.open({"winner": "b"}, asked(30))
    assert opening.alpha == 0.025
    ledger.close(opening, {"difference": 0.1})
    assert HoldoutLog(tmp_path).open({"winner": "b"}, asked(30)).alpha == 0.025


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    asked_for: list[tuple[str, str]] = []

    def measure(point: Point, question: Question) -> PointScore:
        asked_for.append((point.key, question.id))
        if len(asked_for) == 8:
            raise KeyboardInterrupt
        return PointScore(0.5, 7)

    points, questions = [Point("topk"), Point("topk", {"search": {"weight": 0.5}})], asked(5)

    def all_of(kept: KeptMeasure) -> None:
        for question in questions:
            for point in points:
                assert kept(point, question) == PointScore(0.5, 7)
        kept.flush()

    with pytest.raises(KeyboardInterrupt):
        all_of(KeptMeasure(measure, tmp_path, "evidence"))
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write('{"set": "", "question"')
    again = KeptMeasure(measure, tmp_path, "evidence")
    all_of(again)
    # three questions were whole when it was stopped
    assert again.measured == 4
    third = KeptMeasure(measure, tmp_path, "evidence")
    all_of(third)
    assert third.measured == 0
    assert KeptMeasure(measure, tmp_path, "answer")(points[0], questions[0]) == PointScore(0.5, 7)
