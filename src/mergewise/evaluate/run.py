"""The evaluation of question sets: index their documents, choose questions, and compare methods at each budget."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from mergewise.designs import VIEWS
from mergewise.engine import Index
from mergewise.errors import UsageError, one_of
from mergewise.evaluate.evaluator import Evaluator
from mergewise.evaluate.loaders import find_tasks, load_question_set
from mergewise.evaluate.means import MethodMeans, method_means
from mergewise.evaluate.measured import measured_runs
from mergewise.evaluate.methods import Method, stored_settings
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.evaluate.runs.finish import document_texts
from mergewise.evaluate.runs.folder import Run, memory_run
from mergewise.evaluate.runs.keys import digest
from mergewise.store import NAME, Progress, place_of

Split: TypeAlias = Literal["dev", "test", "all"]
SPLITS: tuple[Split, ...] = get_args(Split)


def parse_split(text: str) -> Split:
    """Return the split of this name. Raises UsageError for an unknown name."""
    for split in SPLITS:
        if split == text:
            return split
    raise UsageError(f"unknown split: {text!r}", one_of(text, SPLITS))


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


def parse_shard(text: str) -> tuple[int, int]:
    """Parse a shard such as "1/4" into its number, from 1, and the number of shards. Raises UsageError for an invalid shard."""
    number, slash, count = text.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and len(text) < 20 and 1 <= int(number) <= int(count)):
        raise UsageError(f"invalid shard: {text[:80]!r} (expected NUMBER/COUNT)", "write, for example, 1/4")
    return int(number), int(count)


def tasks_at(
    path: Path, form: str | None = None, is_strict: bool = False, used_names: Container[str] = ()
) -> Iterator[QuestionSet]:
    """Yield the question sets of a path.

    Args:
        path: a question set, or a folder of question sets.
        form: as for `loaders.load_question_set`.
        is_strict: as for `loaders.load_question_set`.
        used_names: names in use. A set with such a name gets the name of its folder as a prefix.
    """
    for found in find_tasks(path, form):
        task = load_question_set(found, form, is_strict)
        yield replace(task, name=f"{found.resolve().parent.name}-{task.name}") if task.name in used_names else task


def existing_index(task: QuestionSet, existing: Path, open_index: Callable[..., Index]) -> Index:
    """Open the index of a set without documents: `existing`, or the index of the set's name in this folder."""
    own = existing / task.name
    return open_index(existing if (existing / NAME).exists() or not (own / NAME).exists() else own, create=False)


def task_index(
    task: QuestionSet,
    place: Path,
    open_index: Callable[..., Index],
    progress: Callable[[str], AbstractContextManager[Progress]],
    **options: Any,
) -> Index:
    """Index the documents of a set at `place`. Raises UsageError if this index has other documents."""
    with progress(f"Indexing {task.name}") as advance:
        index = open_index(place, progress=advance, **options)
        if others := {one.id for one in index.documents()} - {one.id for one in task.documents}:
            raise UsageError(
                f"{len(others):,} documents in the index at {place} do not belong to {task.name}",
                "name another folder of indexes (--index)",
            )
        index.add(task.documents, progress=advance)
    return index


@dataclass(slots=True)
class SharedIndex:
    """An index of a set, and the methods that use it. `settings` are those of its views."""

    place: Path
    views: dict[str, Mapping[str, Any]]
    methods: list[tuple[Method, int]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    def fits(self, wanted: Mapping[str, Mapping[str, Any]]) -> bool:
        """Return whether each of these views is missing in the index, or has these stored settings."""
        return all(name not in self.views or VIEWS[name].is_same(self.views[name], own) for name, own in wanted.items())


def shared_indexes(folder: Path, name: str, methods: Sequence[tuple[Method, int]]) -> list[SharedIndex]:
    """Assign methods to the indexes of a set. Methods with equal settings of their views share an index.

    Standing indexes are used again. A view without any settings of a method is used as it is.
    """
    found: list[SharedIndex] = []
    while (manifest := place_of(_place(folder, name, len(found))).known()) is not None:
        views = {view: state.settings for view, state in manifest.views.items()}
        found.append(SharedIndex(_place(folder, name, len(found)), views))
    varied = {view for method, _ in methods for view in method.view_settings()}
    for method, budget in methods:
        own = method.view_settings()
        settings = {view: own.get(view) or VIEWS[view].settings() for view in method.all_views if view in varied}
        wanted = stored_settings(settings)
        fitting = [one for one in found if one.fits(wanted)]
        if not fitting:
            found.append(SharedIndex(_place(folder, name, len(found)), {}))
            fitting = found[-1:]
        # the first index with most of the views
        best = max(fitting, key=lambda one: sum(view in one.views for view in wanted))
        best.views = {**{view: VIEWS[view].dump() for view in method.all_views}, **wanted, **best.views}
        best.settings |= settings
        best.methods.append((method, budget))
    return [one for one in found if one.methods]


def _place(folder: Path, name: str, number: int) -> Path:
    return folder / (f"{name}.{number + 1}" if number else name)


def evaluate(
    index: Index,
    task: QuestionSet,
    strategies: Sequence[str],
    budgets: Sequence[int],
    split: Split = "all",
    limit: int | None = None,
    progress: Progress | None = None,
) -> Iterator[MethodMeans]:
    """Yield the means of each strategy at each budget."""
    methods = [Method(strategy, strategy) for strategy in strategies]
    run = evaluated_run(Evaluator(index, task), methods, budgets, chosen_questions(task, split, limit), progress)
    yield from method_means(run, measured_runs([run]))


def evaluated_run(
    evaluator: Evaluator,
    methods: Sequence[Method],
    budgets: Sequence[int],
    questions: Sequence[Question],
    progress: Progress | None = None,
    has_texts: bool = False,
) -> Run:
    """Ask all questions by each method at each budget. With `has_texts` the run includes the documents of contexts.

    Raises:
        UsageError: if there are no questions.
        Exception: the error of the first question, if every question of every method failed.
    """
    task = evaluator.task
    if not questions:
        raise UsageError(f"no questions of {task.name} chosen", "use --split all")
    asked = [evaluator.method_rows(method, budget) for method in methods for budget in budgets]
    evaluator.complete(asked, questions, progress)
    if all(len(one.failures) == len(questions) for one in asked):
        raise next(iter(asked[0].failures.values()))
    rows = [row for one in asked for row in one.rows(questions)]
    documents = {one.doc for row in rows for one in row.ranking}
    texts = document_texts(evaluator.index, task.name, questions, documents) if has_texts else ()
    return memory_run(rows, {task.name: questions}, texts)
