"""Table cells: judged like `evaluate` and cached in a file, so that an interrupted command can resume."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from mergewise.engine import Index
from mergewise.evaluate.metrics import mean, score_context
from mergewise.evaluate.question_sets import Question
from mergewise.models.tokens import count_tokens
from mergewise.types import Context

Cell: TypeAlias = Mapping[str, float]

More: TypeAlias = Callable[[Question, Context], Cell]
"""Returns further values to average over the questions."""


def no_values(question: Question, context: Context) -> Cell:
    return {}


def mean_scores(index: Index, questions: Sequence[Question], spec: str, budget: int, more: More = no_values) -> Cell:
    """Return means over the questions: answer, evidence, all and tokens as in `evaluate`, and the values of `more`."""
    rows: list[dict[str, float | None]] = []
    for question in questions:
        context = index.context(question.text, strategy=spec, budget=budget)
        score = score_context(question, context.text, context.tokens, count_tokens)
        held = {"answer": score.answer, "evidence": score.evidence, "all": score.all, "tokens": float(context.tokens)}
        rows.append({**held, **more(question, context)})
    return average_rows(rows)


def average_rows(rows: Sequence[Mapping[str, float | None]]) -> Cell:
    """Return the mean of each entry, over the rows with a value for it."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: mean_of_known([row.get(name) for row in rows]) or 0.0 for name in names}


def mean_of_known(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are not None, or None without any."""
    known = [value for value in values if value is not None]
    return mean(known) if known else None


class Cells:
    """A file cache of cells. A key names everything that its cell depends on. Incomplete lines are ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = dict(_rows(path))

    def __call__(self, key: str, work: Callable[[], Cell]) -> Cell:
        if key not in self._known:
            self._known[key] = dict(work())
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                # Start a new line: the last one may be incomplete.
                file.write(f"\n{json.dumps({'key': key, 'cell': self._known[key]})}\n")
        return self._known[key]


def _rows(path: Path) -> list[tuple[str, Cell]]:
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        found.append((row["key"], row["cell"]))
    return found


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
