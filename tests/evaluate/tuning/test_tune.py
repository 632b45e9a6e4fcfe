"""Tuning on an index: refused questions, parameters without effect, and a stopped tuning that resumes."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

import mergewise
from mergewise.engine import Index
from mergewise.errors import UsageError
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.tuning import HeldOut, TuningReport, tune
from mergewise.evaluate.tuning.measuring import ContextMeasure, PointScore
from mergewise.evaluate.tuning.space import Point, dimensions_of, drawn_points
from mergewise.evaluate.tuning.tune import folded_questions
from mergewise.retrieve.hybrid import SearchSettings
from mergewise.types import Document, Span

tuning = sys.modules["mergewise.evaluate.tuning.tune"]

BEGINNINGS, ENDINGS = ("Ar", "Bro", "Cor", "De", "El", "Fen", "Gar"), ("den", "ok", "in", "los", "wick", "ton")
TOWNS = [f"{first}{last}" for first in BEGINNINGS for last in ENDINGS]


def text_of(number: int, town: str) -> str:
    return (
        f"{town} lies by a river. The tower of {town} was built by mason number {number}. "
        f"Its market is held on day {number % 7}. Many visitors come to {town} in summer, and most of them see the tower."
    )


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    opened = mergewise.open(tmp_path_factory.mktemp("towns") / "index", embedder="none")
    opened.add([Document(f"{town}.md", text_of(number, town), town) for number, town in enumerate(TOWNS)])
    return opened


def questions(kind: str = "") -> list[Question]:
    found = []
    for number, town in enumerate(TOWNS):
        sentence = f"The tower of {town} was built by mason number {number}."
        span = Span(f"{town}.md", 0, len(sentence))
        answers, evidence = (f"mason number {number}",), ((span, sentence),)
        found.append(Question(str(number), f"Who built the tower of {town}?", answers, evidence, kind=kind))
    return found


def test_too_few_questions_are_refused(index: Index, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"too few questions to tune on: 39 \(expected 40 or more"):
        tune(index, questions()[:39], folder=tmp_path)
    bare = [Question(one.id, one.text, one.answers, None) for one in questions()]
    with pytest.raises(UsageError, match=r"too few questions to tune on: 0 .*; 42 others have no gold for evidence"):
        tune(index, bare, folder=tmp_path)
    with pytest.raises(UsageError, match="unknown metric"):
        tune(index, bare, metric="f1", folder=tmp_path)  # type: ignore[arg-type]


def test_made_questions_are_refused_unless_trusted(index: Index, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="made questions: 42 of 42"):
        tune(index, questions("made slot"), folder=tmp_path)


def test_questions_about_a_document_are_in_the_same_fold() -> None:
    asked = [Question(str(i), f"{i}?", ("a",), ((Span(f"d{i // 3}", 0, 1), "a"),)) for i in range(90)]
    folded = folded_questions(asked)
    sides = [
        {d for q, i in zip(folded.questions, folded.folds, strict=True) if i == fold for d in q.documents}
        for fold in range(5)
    ]
    assert [folded.folds.count(fold) for fold in range(5)] == [18] * 5 and list(folded.folds[:6]) == [0, 1, 2, 3, 4, 0]
    assert sum(map(len, sides)) == len(set().union(*sides)) == 30
    assert folded_questions(asked) == folded != folded_questions(asked, seed=1)
    together = [Question(str(i), f"{i}?", ("a",), ((Span("d", 0, 1), "a"),)) for i in range(50)]
    with pytest.raises(UsageError, match="too few questions to hold out: 50 of 50 share documents"):
        folded_questions(together)


def test_cached_searches_give_the_same_contexts(index: Index) -> None:
    points = drawn_points("weave", dimensions_of("weave", SearchSettings()), 12)
    asked = questions()[:2]
    remembered = ContextMeasure(index, "evidence", 60)
    for question in asked:
        for point in points:
            if point.changes.get("strategy", {}).get("select") == "point":
                continue
            alone = index.context(question.text, strategy=point.spec, budget=60) if not point.search else None
            found = remembered.context(point, question)
            assert found.text == ContextMeasure(index, "evidence", 60).context(point, question).text
            assert alone is None or alone.text == found.text
    assert remembered.memory.spent < remembered.memory.charged


class Stopped(Exception):
    pass


def test_a_resumed_tuning_gives_the_same_report(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tuned(folder: str) -> TuningReport:
        return tune(index, questions(), "weave", budget=40, folder=tmp_path / folder, seconds=10_000)

    monkeypatch.setattr(tuning, "POINTS", 3)
    monkeypatch.setattr(tuning, "PROBED", 1)
    whole = tuned("whole")
    measure, calls = ContextMeasure.__call__, 0

    def failing(self: ContextMeasure, points: Sequence[Point], question: Question) -> list[PointScore]:
        nonlocal calls
        calls += 1
        if calls in (4, 9):
            raise Stopped
        return measure(self, points, question)

    monkeypatch.setattr(ContextMeasure, "__call__", failing)
    for _ in range(2):
        with pytest.raises(Stopped):
            tuned("killed")
    assert tuned("killed").as_dict() == whole.as_dict()
    before = calls
    assert tuned("killed").as_dict() == whole.as_dict()
    assert calls == before


def report(gain: float) -> TuningReport:
    held_out = HeldOut(100, 0.6, 0.6 + gain, 380.0, 370.0, gain, (gain - 0.05, gain + 0.05), 0.001, 0.05, 0)
    winner = Point("weave", {"strategy": {"k": 90}, "search": {"weight": 0.5}})
    return TuningReport("weave", "evidence", 384, winner, held_out, 150, 150, [])


def test_a_better_point_is_written_as_configuration() -> None:
    better = report(0.08)
    written = better.fragment()
    assert tomllib.loads(written) == {"strategy": "weave(k=90)", "search": "weight=0.5"}
    assert "# better: evidence 0.680 instead of 0.600 on 100 held-out questions, +0.080 (+0.030 to +0.130)" in written
    worse = report(0.04)
    assert worse.fragment() == "" and worse.verdict().startswith("keep the defaults: evidence 0.640")


def test_parameters_without_effect_are_left_out_with_a_reason(index: Index, tmp_path: Path) -> None:
    found = tune(index, questions(), "weave", budget=40, folder=tmp_path, seconds=1)
    assert found.idle["select"] == "select=point needs a chat model"
    assert found.idle["trust"] == "changes no context here"
    # without vectors the weight of vectors has no effect
    assert "weight" in found.idle and not found.is_better
