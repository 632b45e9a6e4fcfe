"""The choice of question sets and of their questions."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from mergewise.evaluate.loaders import find_tasks, load_question_set
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.evaluate.runs.digests import digest

Split: TypeAlias = Literal["dev", "test", "all"]


def chosen_questions(
    task: QuestionSet, split: Split = "all", limit: int | None = None, sample: int | None = None, seed: int = 0
) -> Sequence[Question]:
    """Choose questions of a set, in its order.

    Args:
        task: the question set.
        split: the first half of the set ("dev", for tuning), the second half ("test", for reporting), or "all".
        limit: number of questions of the split to take, from its beginning.
        sample: number of these to draw at random.
        seed: random seed of the sample.
    """
    middle = len(task.questions) // 2
    questions = {"dev": task.questions[:middle], "test": task.questions[middle:], "all": task.questions}[split]
    questions = questions[:limit]
    if sample is None:
        return questions
    # drawn by digest, so that a larger sample contains every smaller one
    drawn = sorted(questions, key=lambda question: digest([seed, task.name, question.id, question.text]))[:sample]
    chosen = {id(question) for question in drawn}
    return [question for question in questions if id(question) in chosen]


def tasks_at(
    path: Path, form: str | None = None, is_strict: bool = False, used_names: Container[str] = ()
) -> Iterator[QuestionSet]:
    """Yield the question sets of a path.

    Args:
        path: a question set, or a folder of question sets. NAME=PATH names the set at a path.
        form: as for `loaders.load_question_set`.
        is_strict: as for `loaders.load_question_set`.
        used_names: names in use. A set with such a name gets the name of its folder as a prefix.
    """
    name, equals, file = str(path).partition("=")
    if equals and not path.exists():
        yield replace(load_question_set(Path(file), form, is_strict), name=name)
        return
    for found in find_tasks(path, form):
        task = load_question_set(found, form, is_strict)
        yield replace(task, name=f"{found.resolve().parent.name}-{task.name}") if task.name in used_names else task
