"""The files of a tuning: its rows, so that a stopped tuning can resume, and the log of comparisons on held-out questions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.runs.digests import digest, question_digest
from mergewise.evaluate.runs.lines import RowLines, known_lines
from mergewise.evaluate.tuning.measuring import Measure, PointScore
from mergewise.evaluate.tuning.space import Point
from mergewise.types import Json, frozen

LEDGER = "ledger.jsonl"
ALPHA = 0.005
"""Level of the first test. Folds that choose each other's winners are correlated, so p-values are too small. At this level there
are no more false alarms than with a single held-out part at 5 % (`benchmarks/tuning.py`)."""


class KeptMeasure:
    """A measure that stores its scores in a folder, in the form of a run's rows, and computes each score once."""

    def __init__(self, measure: Measure, folder: Path, metric: str) -> None:
        self._measure, self._metric = measure, metric
        self._lines = RowLines(folder / "rows.jsonl")
        self._known = {
            (str(row["method"]), str(row["question"])): PointScore(
                float(row["scores"][metric]), int(row["scores"]["tokens"])
            )
            for row in known_lines(folder)
            if all(_is_number(row["scores"].get(name)) for name in (metric, "tokens"))
        }

    def __call__(self, points: Sequence[Point], question: Question) -> list[PointScore]:
        key = question_digest(question, with_gold=True)
        missing = [point for point in points if (point.key, key) not in self._known]
        if missing:
            rows = []
            for point, score in zip(missing, self._measure(missing, question), strict=True):
                self._known[point.key, key] = score
                row = {"set": "", "question": key, "asked": question.text, "method": point.key, "spec": point.spec}
                scores = {self._metric: score.score, "tokens": score.tokens}
                rows.append({**row, "budget": 0, "repeat": 0, "scores": scores, "error": ""})
            self._lines.add(rows)
        return [self._known[point.key, key] for point in points]


@frozen
class HoldoutAccess:
    """A use of held-out questions: the level of the test, and the number of earlier uses of some of these questions."""

    key: str
    alpha: float
    before: int


class HoldoutLog:
    """The log of uses of held-out questions. Each further use of the same questions halves the level of the test.

    Repeating the same comparison on the same questions does not count as a further use, because its result is the same.
    """

    def __init__(self, folder: Path) -> None:
        self._lines = RowLines(folder / LEDGER)
        # a damaged line does not count as a use
        self._known = [
            row
            for row in known_lines(folder, LEDGER, {"key", "shown", "alpha", "before"})
            if isinstance(row["shown"], list)
            and all(isinstance(one, str) for one in row["shown"])
            and _is_number(row["alpha"])
            and _is_number(row["before"])
        ]

    def open(self, compared: Json, questions: Sequence[Question]) -> HoldoutAccess:
        """Log a use before the held-out questions are measured."""
        shown = [question_digest(question, with_gold=False) for question in questions]
        key = digest([compared, sorted(shown)])
        row = next((row for row in self._known if row["key"] == key), None)
        if row is None:
            before = sum(not set(shown).isdisjoint(row["shown"]) for row in self._known)
            row = {"key": key, **compared, "alpha": ALPHA / 2**before, "before": before, "shown": shown}
            self._known.append(row)
            self._enter(row)
        return HoldoutAccess(key, float(row["alpha"]), int(row["before"]))

    def close(self, opening: HoldoutAccess, result: Json) -> None:
        """Log the result of a use."""
        self._enter({"key": opening.key, "result": dict(result)})

    def _enter(self, row: Json) -> None:
        self._lines.add([{"time": datetime.now(UTC).isoformat(timespec="seconds"), **row}])


def _is_number(value: object) -> bool:
    # NaN is in no range
    return isinstance(value, int | float) and -1e9 < value < 1e9
