"""Question sets with their indexes, and strategies side by side: every question at every budget, scored and timed."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from mergewise.engine import Index
from mergewise.errors import UsageError
from mergewise.evaluate.evaluator import Evaluator, evaluated_rows
from mergewise.evaluate.loaders import find_tasks, load_question_set
from mergewise.evaluate.methods import Method
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.evaluate.rows import EvaluationRow, QuestionRow, mean_row
from mergewise.evaluate.runs.keys import digest
from mergewise.store.manifest import NAME
from mergewise.store.views import Progress

Split: TypeAlias = Literal["dev", "test", "all"]
SPLITS: tuple[Split, ...] = get_args(Split)


def parse_split(text: str) -> Split:
    """The split of this name. Raises UsageError where there is none."""
    for split in SPLITS:
        if split == text:
            return split
    raise UsageError(f"unknown split {text!r}", f"one of: {', '.join(SPLITS)}")


def chosen_questions(
    task: QuestionSet, split: Split = "all", limit: int | None = None, sample: int | None = None, seed: int = 0
) -> Sequence[Question]:
    """The first half of a set (`dev`) is for tuning, the second (`test`) for reporting; `limit` takes the first of what is left.

    `sample` draws so many of that, which stay in their order.
    """
    middle = len(task.questions) // 2
    questions = {"dev": task.questions[:middle], "test": task.questions[middle:], "all": task.questions}[split]
    questions = questions[:limit]
    if sample is None:
        return questions
    # a larger sample holds the smaller one
    drawn = sorted(questions, key=lambda question: digest([seed, task.name, question.id, question.text]))[:sample]
    chosen = {id(question) for question in drawn}
    return [question for question in questions if id(question) in chosen]


def parse_shard(text: str) -> tuple[int, int]:
    """The number of a shard, from 1, and how many there are. Raises UsageError for what is none."""
    number, slash, count = text.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise UsageError(f"{text!r} is no shard", "write its number and how many there are: 1/4")
    return int(number), int(count)


def indexed_tasks(
    path: Path,
    standing: Path,
    folder: Path,
    views: Sequence[str],
    open_index: Callable[..., Index],
    progress: Callable[[str], AbstractContextManager[Progress]],
    form: str | None = None,
    is_strict: bool = False,
    taken: Container[str] = (),
) -> Iterator[tuple[Index, QuestionSet]]:
    """The question sets of `path`, each with an index of its documents in `folder`; a set without documents with the `standing`
    one, or one of its name in there. `form` and `is_strict` are those of `loaders.load_question_set`. A set whose name is
    `taken` is also named by the folder that it stands in.

    `open_index` is `mergewise.open` or a version of it with models. `progress` is entered with what is done.
    """

    def with_index(task: QuestionSet) -> tuple[Index, QuestionSet]:
        with progress(f"Indexing {task.name}") as advance:
            index = open_index(folder / task.name, views=views, progress=advance)
            if others := {one.id for one in index.documents()} - {one.id for one in task.documents}:
                raise UsageError(
                    f"the index at {folder / task.name} holds {len(others):,} documents that are none of {task.name}",
                    "name another folder of indexes (--index)",
                )
            index.add(task.documents, progress=advance)
        return index, task

    for found in find_tasks(path, form):
        task = load_question_set(found, form, is_strict)
        if task.name in taken:
            task = replace(task, name=f"{found.resolve().parent.name}-{task.name}")
        own = standing / task.name
        place = standing if (standing / NAME).exists() or not (own / NAME).exists() else own
        yield with_index(task) if task.documents else (open_index(place, create=False), task)


def evaluate(
    index: Index,
    task: QuestionSet,
    strategies: Sequence[str],
    budgets: Sequence[int],
    split: Split = "all",
    limit: int | None = None,
    progress: Progress | None = None,
) -> Iterator[EvaluationRow]:
    """A row for each strategy and budget, as soon as it is known."""
    for rows in question_rows(index, task, strategies, budgets, chosen_questions(task, split, limit), progress):
        yield mean_row(rows)


def question_rows(
    index: Index,
    task: QuestionSet,
    strategies: Sequence[str],
    budgets: Sequence[int],
    questions: Sequence[Question],
    progress: Progress | None = None,
) -> Iterator[list[QuestionRow]]:
    """For each strategy and budget the rows of all questions. Raises UsageError without questions, or where all of them fail."""
    methods = [Method(strategy, strategy) for strategy in strategies]
    return evaluated_rows(Evaluator(index, task), methods, budgets, questions, progress)
