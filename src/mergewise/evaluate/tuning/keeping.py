"""What a tuning keeps on the disk: its rows, so that one that was stopped goes on, and the ledger of held-out parts that were
opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.runs.keys import digest, question_digest
from mergewise.evaluate.runs.lines import RowLines, known_lines
from mergewise.evaluate.tuning.measuring import Measure, PointScore
from mergewise.evaluate.tuning.space import Point

LEDGER = "ledger.jsonl"
ALPHA = 0.05


class KeptMeasure:
    """A measure whose rows are kept in a folder, in the form of a run's rows: what was measured once is not measured again.

    The rows of a question are written together, when the next one is asked, or by `flush`.
    """

    def __init__(self, measure: Measure, folder: Path, metric: str) -> None:
        self._measure, self._metric = measure, metric
        self._lines = RowLines(folder / "rows.jsonl")
        self._known = {
            (str(row["method"]), str(row["question"])): PointScore(
                float(row["scores"][metric]), int(row["scores"]["tokens"])
            )
            for row in known_lines(folder)
            if metric in row["scores"] and "tokens" in row["scores"]
        }
        self._pending: list[dict[str, Any]] = []
        self.measured = 0

    def __call__(self, point: Point, question: Question) -> PointScore:
        key = point.key, question_digest(question, with_gold=True)
        if key not in self._known:
            self._known[key] = found = self._measure(point, question)
            self.measured += 1
            scores = {self._metric: found.score, "tokens": found.tokens}
            row = {"set": "", "question": key[1], "asked": question.text, "method": key[0], "spec": point.spec}
            if self._pending and self._pending[0]["question"] != key[1]:
                self.flush()
            self._pending.append({**row, "budget": 0, "repeat": 0, "scores": scores, "error": ""})
        return self._known[key]

    def flush(self) -> None:
        if self._pending:
            self._lines.add(self._pending)
            self._pending = []


@dataclass(frozen=True, slots=True)
class HoldoutAccess:
    """A held-out part opened: the level at which a difference counts, and how often questions of it were looked at before."""

    key: str
    alpha: float
    before: int


class HoldoutLog:
    """The openings of held-out parts, a line each. Each look at questions that were looked at before halves the level.

    To compare the same two again on the same questions is no further look: it says the same.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LEDGER
        self._lines = RowLines(self._path)
        self._known = [
            row
            for row in known_lines(folder, LEDGER, {"key", "shown", "alpha", "before"})
            if isinstance(row["shown"], list)
        ]

    def open(self, compared: Mapping[str, Any], questions: Sequence[Question]) -> HoldoutAccess:
        """Enter an opening, before anything of it is looked at."""
        shown = [question_digest(question, with_gold=False) for question in questions]
        key = digest([compared, sorted(shown)])
        for row in self._known:
            if row["key"] == key:
                return HoldoutAccess(key, float(row["alpha"]), int(row["before"]))
        before = sum(not set(shown).isdisjoint(row["shown"]) for row in self._known)
        opening = HoldoutAccess(key, ALPHA / 2**before, before)
        self._enter({"key": key, **compared, "alpha": opening.alpha, "before": before, "shown": shown})
        return opening

    def close(self, opening: HoldoutAccess, result: Mapping[str, Any]) -> None:
        """Enter what the opening showed."""
        self._enter({"key": opening.key, "result": dict(result)})

    def _enter(self, row: Mapping[str, Any]) -> None:
        row = {"time": datetime.now(UTC).isoformat(timespec="seconds"), **row}
        self._lines.add([row])
        if "shown" in row:
            self._known.append(dict(row))
