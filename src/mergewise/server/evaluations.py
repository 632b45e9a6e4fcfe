"""`evaluate` jobs: the contexts of strategies, judged by questions whose answers are known."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mergewise.defaults import STRATEGY
from mergewise.errors import UsageError
from mergewise.ranges import BUDGET, as_list, text, whole
from mergewise.store.views import Progress

if TYPE_CHECKING:
    from mergewise.engine import Index

BUDGETS = (128, 384, 640)
MOST = 20_000
"""Contexts of one job: questions by strategies by budgets."""


def evaluate(index: Index, request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The rows of all questions, and their report; `request` is {questions, strategies, budgets, name}.

    Questions are objects as in a file of questions (docs/evaluation.md). Raises UsageError for what cannot be.
    """
    from mergewise.evaluate.loaders import load_question_set
    from mergewise.evaluate.report import set_report
    from mergewise.evaluate.run import question_rows

    questions = as_list("the questions are", request.get("questions"), "a list of {question, answers}")
    strategies = [
        text("a strategy is", one)
        for one in as_list("the strategies are", request.get("strategies") or [STRATEGY], "a list of names")
    ]
    budgets = [
        whole("a budget is", one, BUDGET)
        for one in as_list("the budgets are", request.get("budgets") or BUDGETS, "a list of numbers")
    ]
    if len(questions) * len(strategies) * len(budgets) > MOST:
        raise UsageError(f"these are more than {MOST:,} contexts", "fewer questions, strategies or budgets")
    with tempfile.TemporaryDirectory(prefix="mergewise-questions-") as folder:
        file = Path(folder) / "questions.jsonl"
        file.write_text("".join(f"{json.dumps(question)}\n" for question in questions), encoding="utf-8")
        try:
            task = load_question_set(file, "table", is_strict=True)
        except UsageError as error:
            # of the file nobody knows
            raise UsageError(error.message.replace(str(file), "the list of questions"), error.hint) from None
    groups = list(question_rows(index, task, strategies, budgets, task.questions, progress))
    report = asdict(set_report(groups)) | {"name": text("the name is", request.get("name") or "Questions")}
    return {"rows": [row.as_dict() for rows in groups for row in rows], "report": report}
