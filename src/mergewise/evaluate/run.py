"""Question sets with their indexes, and strategies side by side: every question at every budget, scored and timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import perf_counter
from typing import Literal, TypeAlias, get_args

from mergewise.defaults import STRATEGY
from mergewise.engine import Index
from mergewise.errors import UsageError
from mergewise.evaluate.judged import ContextJudge
from mergewise.evaluate.loaders import find_tasks, load_task
from mergewise.evaluate.rows import EvaluationRow, QuestionRow, mean_row
from mergewise.evaluate.tasks import Question, Task
from mergewise.store.views import Progress

Half: TypeAlias = Literal["first", "second", "all"]
HALVES: tuple[Half, ...] = get_args(Half)


def parse_half(text: str) -> Half:
    """The half of this name. Raises UsageError where there is none."""
    for half in HALVES:
        if half == text:
            return half
    raise UsageError(f"unknown half {text!r}", f"one of: {', '.join(HALVES)}")


def chosen_questions(task: Task, half: Half = "all", limit: int | None = None) -> Sequence[Question]:
    """The first half of a set is for tuning, the second for reporting; `limit` takes the first of what is left."""
    middle = len(task.questions) // 2
    questions = {"first": task.questions[:middle], "second": task.questions[middle:], "all": task.questions}[half]
    return questions[:limit]


def indexed_tasks(
    path: Path,
    standing: Path,
    folder: Path,
    views: Sequence[str],
    open_index: Callable[..., Index],
    progress: Callable[[str], AbstractContextManager[Progress]],
    form: str | None = None,
    is_strict: bool = False,
) -> Iterator[tuple[Index, Task]]:
    """The question sets of `path`, each with an index of its documents in `folder`; a set without documents with the `standing`
    one. `form` and `is_strict` are those of `loaders.load_task`.

    `open_index` is `mergewise.open` or a version of it with models. `progress` is entered with what is done.
    """

    def with_index(task: Task) -> tuple[Index, Task]:
        with progress(f"Indexing {task.name}") as advance:
            index = open_index(folder / task.name, views=views, progress=advance)
            index.add(task.documents, progress=advance)
        return index, task

    for found in find_tasks(path, form):
        task = load_task(found, form, is_strict)
        yield with_index(task) if task.documents else (open_index(standing, create=False), task)


def evaluate(
    index: Index,
    task: Task,
    strategies: Sequence[str],
    budgets: Sequence[int],
    half: Half = "all",
    limit: int | None = None,
    progress: Progress | None = None,
) -> Iterator[EvaluationRow]:
    """A row for each strategy and budget, as soon as it is known."""
    for rows in question_rows(index, task, strategies, budgets, chosen_questions(task, half, limit), progress):
        yield mean_row(rows)


def question_rows(
    index: Index,
    task: Task,
    strategies: Sequence[str],
    budgets: Sequence[int],
    questions: Sequence[Question],
    progress: Progress | None = None,
) -> Iterator[list[QuestionRow]]:
    """For each strategy and budget, as soon as they are known, the rows of all questions. Raises UsageError without questions."""
    if not questions:
        raise UsageError(f"{task.name} has no questions to be asked", "use --half all")
    done, total = 0, len(strategies) * len(budgets) * len(questions)
    # a first question loads the models, so that no strategy is timed with that
    index.context(questions[0].text, strategy=STRATEGY, budget=1)
    judge = ContextJudge(index, questions)
    for strategy in strategies:
        for budget in budgets:
            rows = []
            for question, cluster in zip(questions, judge.clusters, strict=True):
                started = perf_counter()
                context = index.context(question.text, strategy=strategy, budget=budget, where=question.where)
                milliseconds = 1000 * (perf_counter() - started)
                judged = judge.judge(question, context)
                rows.append(QuestionRow(task.name, strategy, budget, question, cluster, judged, milliseconds))
                done += 1
                if progress is not None:
                    progress(done, total, f"{task.name} {strategy} {budget}")
            yield rows
