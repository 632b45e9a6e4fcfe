"""What a tuning keeps on the disk: its rows, so that one that was stopped goes on, and the ledger of held-out parts that were
opened."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.runs.keys import question_digest
from mergewise.evaluate.runs.lines import RowLines, known_lines
from mergewise.evaluate.tuning.measuring import Measure, PointScore
from mergewise.evaluate.tuning.space import Point
from mergewise.files import regular_bytes

LEDGER = "ledger.jsonl"
ALPHA = 0.05
_LONGEST = 1 << 28
"""Bytes of a ledger."""


def digest(value: object) -> str:
    return blake2b(json.dumps(value, sort_keys=True, default=str).encode("utf-8", "replace"), digest_size=6).hexdigest()


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
class Opening:
    """A held-out part opened: the level at which a difference counts, and how often questions of it were looked at before."""

    key: str
    alpha: float
    before: int


class Ledger:
    """The openings of held-out parts, a line each. Each look at questions that were looked at before halves the level.

    To compare the same two again on the same questions is no further look: it says the same.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LEDGER
        self._lines = RowLines(self._path)
        self._known = [row for row in _rows(self._path) if isinstance(row.get("shown"), list)]

    def open(self, compared: Mapping[str, Any], questions: Sequence[Question]) -> Opening:
        """Enter an opening, before anything of it is looked at."""
        shown = [question_digest(question, with_gold=False) for question in questions]
        key = digest([compared, sorted(shown)])
        for row in self._known:
            if row["key"] == key:
                return Opening(key, float(row["alpha"]), int(row["before"]))
        before = sum(not set(shown).isdisjoint(row["shown"]) for row in self._known)
        opening = Opening(key, ALPHA / 2**before, before)
        self._enter({"key": key, **compared, "alpha": opening.alpha, "before": before, "shown": shown})
        return opening

    def close(self, opening: Opening, result: Mapping[str, Any]) -> None:
        """Enter what the opening showed."""
        self._enter({"key": opening.key, "result": dict(result)})

    def _enter(self, row: Mapping[str, Any]) -> None:
        row = {"time": datetime.now(UTC).isoformat(timespec="seconds"), **row}
        self._lines.add([row])
        if "shown" in row:
            self._known.append(dict(row))


def _rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file that are JSON objects."""
    found = []
    for line in regular_bytes(path, _LONGEST).splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        found += [row] if isinstance(row, dict) else []
    return found
