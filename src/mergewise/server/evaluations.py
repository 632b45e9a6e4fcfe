"""`evaluate` jobs: scores of strategies' contexts on questions with known answers."""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mergewise import Progress
from mergewise.errors import DeadlineExceeded, UsageError
from mergewise.evaluate.watch import ExperimentWatch
from mergewise.extend import STRATEGY, as_list, ranges, text, whole
from mergewise.types import Json, JsonDict

if TYPE_CHECKING:
    import mergewise as mw
    from mergewise.evaluate.question_sets import QuestionSet

BUDGETS = (128, 384, 640)
MOST = 20_000
"""Largest number of contexts of a job: questions times strategies times budgets."""
SECONDS = 3600.0
"""Longest time of a job. It fails as soon as its speed shows that it would take longer."""
_TRIAL_SECONDS = 60.0
PAGE = 2_000_000
"""Bytes of questions on the page of a report."""


def evaluate(index: mw.Index, request: Json, progress: Progress) -> JsonDict:
    """Return the rows of all questions, their report, and the page of the report.

    `request` is {questions, strategies, budgets, name}, with the questions of `questions_of`.

    Raises:
        UsageError: if the request is invalid.
        DeadlineExceeded: if the evaluation would take longer than `SECONDS`.
    """
    from mergewise.evaluate.drawing import evaluation_page
    from mergewise.evaluate.experiment import Experiment
    from mergewise.evaluate.means import question_rows
    from mergewise.evaluate.measured import measured_runs
    from mergewise.evaluate.methods import Method
    from mergewise.evaluate.report import evaluation_report
    from mergewise.evaluate.runs.run_folder import plan_of

    task = questions_of(request)
    strategies = as_list("strategies", request.get("strategies") or [STRATEGY], "a list of names")
    methods = [Method(text("strategy", one), one) for one in strategies]
    sizes = as_list("budgets", request.get("budgets") or BUDGETS, "a list of numbers")
    budgets = [whole("budget", one, ranges.BUDGET) for one in sizes]
    if len(task.questions) * len(methods) * len(budgets) > MOST:
        raise UsageError(f"too many contexts (expected up to {MOST:,})", "use fewer questions, strategies or budgets")
    experiment = Experiment(
        sets=[task], methods=[(method, budget) for method in methods for budget in budgets], index=index, is_strict=True
    )
    run = experiment.run(JobWatch(progress))
    # the provenance says nothing about the server
    run = replace(run, plan=plan_of(list(run.run_rows()), {task.name: task.questions}))
    measured = measured_runs([run])
    report = evaluation_report(measured, limit=PAGE)
    return {
        "rows": list(question_rows(run, measured)),
        "report": asdict(replace(report, data=())),
        "page": evaluation_page(report),
    }


def questions_of(request: Json) -> QuestionSet:
    """Return the questions of a request: a list of {question, answers}, or the text of a CSV or JSON file with this `name`.

    docs/evaluation/method.md describes both. Raises UsageError for the first invalid row.
    """
    from mergewise.evaluate.loaders import load_question_set

    questions, name = request.get("questions"), text("name", request.get("name") or "Questions")
    if not isinstance(questions, str):
        rows = as_list("questions", questions, "a list of {question, answers}")
        questions = "".join(f"{json.dumps(row)}\n" for row in rows)
    with tempfile.TemporaryDirectory(prefix="mergewise-questions-") as folder:
        ending = next((one for one in (".csv", ".tsv", ".json") if name.lower().endswith(one)), ".jsonl")
        file = Path(folder) / f"questions{ending}"
        file.write_text(questions, encoding="utf-8", errors="surrogatepass")
        try:
            return replace(load_question_set(file, "table", is_strict=True), name=name)
        except UsageError as error:
            # the client does not know the temporary file
            raise UsageError(error.message.replace(str(file), "the questions"), error.hint) from None


class JobWatch(ExperimentWatch):
    """Reports the progress of a job. Raises DeadlineExceeded if the whole work would take longer than `SECONDS`."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._began = time.monotonic()

    def progress(self, title: str, in_characters: bool = False) -> AbstractContextManager[Progress]:
        return nullcontext(self._advance)

    def _advance(self, done: int, total: int, name: str) -> None:
        self._progress(done, total, name)
        spent = time.monotonic() - self._began
        expected = spent * total / max(1, done)
        if spent > _TRIAL_SECONDS and expected > SECONDS:
            hint = "use fewer questions, strategies or budgets"
            raise DeadlineExceeded(
                f"evaluation would take {expected / 60:.0f} minutes (limit: {SECONDS / 60:.0f})", hint
            )
