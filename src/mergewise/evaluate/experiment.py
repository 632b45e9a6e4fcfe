"""Experiments: methods on question sets, in memory or in a run folder where a stopped run continues."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from socket import gethostname
from tempfile import TemporaryDirectory
from typing import Any, cast

from mergewise import MODES, VIEWS, Estimate, Index, Models, defaults, estimate
from mergewise import open as open_index
from mergewise.errors import MergewiseError, UsageError, one_of
from mergewise.evaluate.evaluator import Asking, Evaluator, MethodRows, sampling_model
from mergewise.evaluate.methods import Method, MethodCells, is_written, stored_settings, strategy_methods, unmet_needs
from mergewise.evaluate.presets import Preset
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.evaluate.run import Split, chosen_questions, tasks_at
from mergewise.evaluate.runs.digests import digest, question_digest
from mergewise.evaluate.runs.estimate import MethodEstimate, estimated_costs
from mergewise.evaluate.runs.finish import RunTables, document_texts, write_plan
from mergewise.evaluate.runs.lines import RowCount
from mergewise.evaluate.runs.locks import LOCK, other_shards_done, run_lock
from mergewise.evaluate.runs.row_store import RowStore, open_store
from mergewise.evaluate.runs.run_folder import LINES, PLAN, DocumentText, Run, memory_run, open_run
from mergewise.evaluate.runs.run_plan import (
    PlannedMethod,
    PlannedRows,
    PlannedSet,
    RunPlan,
    installed_versions,
    this_machine,
)
from mergewise.evaluate.runs.run_row import RunRow
from mergewise.evaluate.set_indexes import ModelSpecs, SetIndexes, existing_index, shared_indexes, task_index
from mergewise.evaluate.watch import SILENT, ExperimentWatch
from mergewise.extend import NO_MODEL, PROMPTS, Decoded, executors_of, weights_line

WARNED = 3
"""Failed questions that warnings name."""
INDEXES = "indexes"
REPLIES = "replies"
"""Folders of a run folder: the indexes of the sets, and the replies of the chat model."""
INDEX = Path("mergewise.index")
"""Index of sets without documents, unless an experiment names another one."""
BUDGETS = (128, 384, 640)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Methods, each at a token budget, on question sets.

    Attributes:
        sets: question sets, or paths of sets, of folders of sets and of tables of questions.
        methods: the methods with their budgets. The first one is the default reference of comparisons.
        presets: the tables of papers that the methods fill.
        repeats: repeats per question of a sampling chat model.
        models: the models.
        index: an open index for all sets; else the folder of the indexes of sets with documents, or the index of other sets.
        out: the run folder. Without one, rows are kept in memory.
        answers: answer the questions, too.
        asking: options of answering.
        split, limit, sample, seed: the choice of questions (`run.chosen_questions`).
        reference: the reference method of comparisons.
        set_format: the format of the sets, as for `loaders.load_question_set`.
        is_strict: stop at an invalid row of a set, or at an unavailable method.
        shard: number, from 1, and count of the part of the questions that a worker asks.
        workers, ray, gpus_per_worker: processes that compute rows of the run folder, as for `mergewise eval`.
        has_texts: keep the texts of documents for reports, if rows are kept in memory.
        is_estimate: build indexes without the rows that a chat model writes, and leave the run folder as it is.
        command: the command line, for the provenance of reports.
        open_index: the function that opens indexes.
    """

    sets: Sequence[Path | QuestionSet]
    methods: MethodCells
    presets: Sequence[Preset] = ()
    repeats: int = 1
    models: ModelSpecs = field(default_factory=ModelSpecs)
    index: Index | Path | None = None
    out: Path | None = None
    answers: bool = False
    asking: Asking = field(default_factory=Asking)
    split: Split = "all"
    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    reference: str = ""
    set_format: str | None = None
    is_strict: bool = False
    shard: tuple[int, int] | None = None
    workers: int = 1
    ray: str | None = None
    gpus_per_worker: float = 0.0
    has_texts: bool = True
    is_estimate: bool = False
    command: str = ""
    open_index: Callable[..., Index] = open_index

    def run(self, watch: ExperimentWatch = SILENT) -> Run:
        """Compute the missing rows.

        Returns:
            The run in its folder, or in memory without a folder.

        Raises:
            UsageError: if the run folder is locked or not writable, a set has no questions to ask, or no method can run.
            Exception: the error of the first question, if all questions failed with every method.
        """
        with ExitStack() as held:
            if self.out is not None:
                held.enter_context(run_lock(self.out, LOCK))
            indexes = held.enter_context(self._index_folder())
            kept = self._keeping(self.out / REPLIES if self.out else Path(held.enter_context(TemporaryDirectory())))
            if self.out is not None and (self.workers > 1 or self.ray is not None):
                kept._let_workers_compute(self.out, indexes, watch)
            return kept._run_sets(indexes, watch)

    def estimates(self, watch: ExperimentWatch = SILENT) -> Iterator[tuple[Mapping[str, str], list[MethodEstimate]]]:
        """Yield for each set what methods need and lack, and the costs of the missing rows, without asking a chat model."""
        plain = [(replace(method, is_written=False), budget) for method, budget in self.methods]
        experiment = replace(self, methods=plain, is_estimate=True)
        if self.out is not None and (self.out / REPLIES).exists():
            experiment = experiment._keeping(self.out / REPLIES)
        with experiment._index_folder() as indexes:
            for own, asked in experiment._sets_to_ask(indexes, watch):
                costs = []
                for evaluator, (_, methods) in zip(experiment.evaluators(own, self.out), own.indexes, strict=True):
                    missing = {}
                    for method, budget in methods:
                        if not evaluator.unmet_needs(method):
                            one = evaluator.method_rows(method, budget)
                            rows = [one, *experiment._repeats(evaluator, one)]
                            missing[method.name, budget] = sum(len(each.missing(asked)) for each in rows)
                    costs += estimated_costs(evaluator, methods, asked, missing)
                yield own.needs, costs

    def plan(self) -> RunPlan:
        """Return the part of the plan that does not depend on the sets."""
        methods = {method.name: method for method, _ in self.methods}
        return RunPlan(
            methods=tuple(
                PlannedMethod(
                    one.name, one.strategy, one.mode or "", one.judge, one.about, one.search, weights_line(one.weights)
                )
                for one in methods.values()
            ),
            budgets=tuple(dict.fromkeys(budget for _, budget in self.methods)),
            repeats=self.repeats,
            answers=self.answers,
            split=self.split,
            limit=self.limit or 0,
            sample=self.sample or 0,
            seed=self.seed,
            max_tokens=self.asking.max_tokens,
            together=self.asking.together,
            workers=self.workers,
            reference=self.reference,
            tables=tuple(preset.name for preset in self.presets),
            command=self.command,
            models=self.models.by_role(),
            versions=installed_versions(),
            machine=this_machine(),
        )

    def _keeping(self, folder: Path) -> Experiment:
        """Return the experiment with a cache of the chat model's replies, so that a run pays for no call twice."""
        if self.models.cache is not None or self.models.chat == defaults.CHAT:
            return self
        return replace(self, models=replace(self.models, cache=folder))

    @contextmanager
    def _index_folder(self) -> Iterator[Path]:
        """Yield the folder of the sets' indexes. A stopped run continues with its own indexes."""
        named = self.index if isinstance(self.index, Path) else None
        if named is None and self.out is not None and not self.is_estimate:
            named = self.out / INDEXES
        if self.is_estimate and any(method.assigned for method, _ in self.methods):
            # an estimate builds other rows than the methods read
            named = None
        with nullcontext(named) if named is not None else TemporaryDirectory(prefix="mergewise-eval-") as place:
            yield Path(place)

    def indexed_sets(self, indexes: Path, watch: ExperimentWatch = SILENT) -> Iterator[SetIndexes]:
        """Yield each set with its indexes, which are closed before those of the next set are opened.

        Methods that lack a model have no index.
        """
        taken: set[str] = set()
        with self.models.loaded(self.open_index) as (models, opening):
            for one in self.sets:
                tasks = [one] if isinstance(one, QuestionSet) else tasks_at(one, self.set_format, self.is_strict, taken)
                for task in tasks:
                    taken.add(task.name)
                    if isinstance(self.index, Index):
                        yield SetIndexes(task, [(self.index, self.methods)], {})
                        continue
                    with ExitStack() as opened:
                        found = []
                        for index, methods in (
                            self._set_indexes(task, indexes, models, opening, watch)
                            if task.documents
                            else [(existing_index(task, self.index or INDEX, opening), self.methods)]
                        ):
                            opened.callback(index.close)
                            found.append((index, methods))
                        yield SetIndexes(task, found, self.needs(models) if task.documents else {})

    def _set_indexes(
        self, task: QuestionSet, folder: Path, models: Models, opening: Callable[..., Index], watch: ExperimentWatch
    ) -> Iterator[tuple[Index, MethodCells]]:
        """Build the indexes of a set, and yield each with its methods. Report the costs before the chat model is asked."""
        needs = self.needs(models)
        ready = [(method, budget) for method, budget in self.methods if not needs[method.name]]
        if models.chat is not None:
            watch.view_costs(self._view_costs(task, folder, models, ready))
        for one in shared_indexes(folder, task.name, ready):
            # views that need vectors are not built without an embedder; methods that use them then report a missing view
            views = [
                view
                for view in dict.fromkeys(view for method, _ in one.methods for view in method.all_views)
                if self.models.embedder != "none" or not VIEWS[view].needs_embedder
            ]
            settings = {view: own for view, own in one.settings.items() if view in views}
            show = partial(watch.progress, in_characters=True)
            index = task_index(task, one.place, opening, show, views=views, settings=settings)
            if "raptor" in views and not self.is_estimate:
                # its tree is grown now, and no question waits for it
                index.context("?", strategy="raptor", budget=16)
            yield index, one.methods

    def _view_costs(
        self, task: QuestionSet, folder: Path, models: Models, methods: MethodCells
    ) -> Iterator[tuple[list[str], Estimate]]:
        """Yield the views of each index that the chat model writes, and their costs, if it is asked."""
        if self.is_estimate and self.out is not None:
            folder = self.index if isinstance(self.index, Path) else self.out / INDEXES
        whole = [(replace(method, is_written=True), budget) for method, budget in methods]
        for one in shared_indexes(folder, task.name, whole):
            written = {view: own for view, own in one.settings.items() if is_written(view, own)}
            asked: dict[str, Any] = {"settings": written, "chat": models.chat, "prompts": self.models.prompts}
            if written and (cost := estimate(one.place, *task.documents, **asked)).usage.calls:
                yield list(written), cost

    def needs(self, models: Models) -> dict[str, str]:
        """Return what each method needs and lacks, as far as it is known before there is an index."""
        utility, found = self.models.utility_predictor(), dict[str, str]()
        # the index decides about vectors
        models = replace(models, embedder=cast(Any, self.models.embedder or defaults.EMBEDDER))
        for method, _ in self.methods:
            views: dict[str, Any] = {view: {} for view in method.all_views} | stored_settings(method.view_settings())
            judged = method.with_judge(models, utility)
            found[method.name] = unmet_needs(method, views, judged, self.answers, is_built=False)
        return found

    def questions(self, task: QuestionSet) -> Sequence[Question]:
        """Return the chosen questions of a set, or those of this shard."""
        chosen = chosen_questions(task, self.split, self.limit, self.sample, self.seed)
        number, count = self.shard or (1, 1)
        return chosen[number - 1 :: count]

    def evaluators(self, known: SetIndexes, folder: Path | None) -> list[Evaluator]:
        """Return an evaluator for each index of a set. They share the rows."""
        name = "" if self.shard is None else f".{self.shard[0]}-of-{self.shard[1]}"
        store = RowStore() if folder is None else open_store(folder, known.task.name, name)
        # a batch has no time per question, so methods may share the causal model's background texts
        backgrounds: dict[str, Decoded] | None = {} if self.asking.together > 1 else None
        asking, utility = self.asking if self.answers else None, self.models.utility_predictor()
        return [Evaluator(index, known.task, asking, store, backgrounds, utility) for index, _ in known.indexes]

    def rows(
        self, known: SetIndexes, folder: Path | None
    ) -> tuple[list[tuple[Evaluator, list[MethodRows], list[MethodRows]]], list[PlannedRows]]:
        """Return an evaluator for each index with the rows of methods that can run and of their repeats.

        Also return a plan entry for every method.

        Raises UsageError if no method can run, or if any cannot and the experiment is strict.
        """
        name = known.task.name
        names = dict.fromkeys(method.name for method, _ in self.methods)
        planned = {method: PlannedRows(name, method, "", known.needs.get(method, "")) for method in names}
        found = []
        for evaluator, (_, methods) in zip(self.evaluators(known, folder), known.indexes, strict=True):
            ready, again = [], []
            for method, budget in methods:
                if needs := planned[method.name].needs or evaluator.unmet_needs(method):
                    planned[method.name] = PlannedRows(name, method.name, "", needs)
                    continue
                one = evaluator.method_rows(method, budget)
                judge, views = evaluator.judge_of(method), "; ".join(method.assigned)
                planned[method.name] = PlannedRows(
                    name, method.name, one.spec, judge=judge, views=views, mode=one.mode or ""
                )
                ready.append(one)
                again += self._repeats(evaluator, one)
            found.append((evaluator, ready, again))
        unmet = [one for one in planned.values() if one.needs]
        if unmet and (self.is_strict or not any(ready for _, ready, _ in found)):
            others = dict.fromkeys(f"{one.method} {one.needs}" for one in unmet[1:])
            hint = "leave the method out, or provide its requirements"
            raise UsageError(f"{unmet[0].method} {unmet[0].needs}", "; ".join([hint, *list(others)[:WARNED]]))
        return found, list(planned.values())

    def _repeats(self, evaluator: Evaluator, one: MethodRows) -> list[MethodRows]:
        """Return the rows of a method's repeats, without the first."""
        # repeats may differ if the mode asks a chat model that samples its answers
        asks = one.mode is not None and MODES[one.mode].needs is not NO_MODEL
        times = self.repeats if asks and sampling_model(evaluator.index.models.chat) is not None else 1
        return [evaluator.method_rows(one.method, one.budget, repeat) for repeat in range(1, times)]

    def _sets_to_ask(self, indexes: Path, watch: ExperimentWatch) -> Iterator[tuple[SetIndexes, Sequence[Question]]]:
        """Yield each set with its indexes and the chosen questions."""
        names = set()
        for own in self.indexed_sets(indexes, watch):
            task = own.task
            if task.name in names:
                raise UsageError(f"duplicate name of a question set: {task.name}", "rename one of the sets")
            names.add(task.name)
            asked = self.questions(task)
            if not asked:
                raise UsageError(f"no questions left in {task.name}", "use --split all")
            watch.begin_set(task, asked)
            yield own, asked

    def _run_sets(self, indexes: Path, watch: ExperimentWatch) -> Run:
        folder, plan = self.out, self.plan()
        tables = None if folder is None else RunTables(folder)
        every_row: list[RunRow] = []
        every_question: dict[str, Sequence[Question]] = {}
        texts: list[DocumentText] = []
        if folder is not None:
            earlier = open_run(folder).plan if (folder / PLAN).exists() else RunPlan()
            plan = plan.joined_to(earlier)
            before, now = (one.versions.get("mergewise", "") for one in (earlier, plan))
            if before and before != now:
                watch.warn(f"run started by version {before}: its rows stay, and version {now} adds the rest")
        has_written_views = False
        for own, asked in self._sets_to_ask(indexes, watch):
            name, task = own.task.name, own.task
            found, planned = self.rows(own, folder)
            for evaluator, _, _ in found:
                manifest = evaluator.index.manifest
                has_written_views |= any(VIEWS[view].asks_chat(one.settings) for view, one in manifest.views.items())
                whole = digest([question_digest(question, with_gold=True) for question in task.questions])
                documents = evaluator.documents
                one = PlannedSet(name, len(task.questions), len(asked), whole, documents, manifest.embedder)
                settings = {
                    f"{view}.{key}": text
                    for view, state in manifest.views.items()
                    for key, text in state.settings.items()
                    if isinstance(text, str) and text
                }
                prompts = evaluator.index.models.prompts.digests()
                settings |= {f"prompts.{role}": own for role, own in prompts.items()}
                settings["prompts"] = digest([[role, template.text] for role, template in PROMPTS.items()])
                # examples are long, and their digest tells them apart
                settings = {key: digest(text) if text.startswith("[") else text for key, text in settings.items()}
                plan = plan.with_records([one], planned, settings)

            if folder is not None:
                write_plan(folder, plan)
            if tables is not None:
                tables.add_questions(name, task.questions)
            with watch.progress("Evaluating") as advance:
                for evaluator, ready, again in found:
                    evaluator.complete([*ready, *again], asked, advance)

            every = [one for _, ready, _ in found for one in ready]
            repeats = [one for _, _, again in found for one in again]
            every, planned = _without_failed(every, planned, len(asked))
            plan = plan.with_records(rows=planned)
            names = {one.method.name for one in every}
            rows = [row for one in (*every, *repeats) if one.method.name in names for row in one.rows(asked)]
            failed = [row for row in rows if row.error]
            for row in failed[:WARNED]:
                watch.warn(f"{row.method}, question {row.question}: {row.error}")
            if failed:
                watch.warn(
                    f"{len(failed)} of {len(rows)} rows failed; they count as wrong, and the next run retries them"
                )

            first = found[0][0]
            if tables is not None:
                ranked = {one.doc for row in first.store.known.values() for one in row.ranking}
                tables.add_texts(first.index, name, task.questions, ranked)
            else:
                every_row += rows
                every_question[name] = asked
                if self.has_texts:
                    ranked = {one.doc for row in rows for one in row.ranking}
                    texts += document_texts(first.index, name, asked, ranked)
            watch.end_set(memory_run(rows, {name: asked}, plan=plan))

        if tables is None or folder is None:
            return memory_run(every_row, every_question, texts, plan)
        with other_shards_done(folder):
            tables.write(plan)
        if not has_written_views:
            # rows by a chat model are kept: another table may need them
            shutil.rmtree(folder / INDEXES, ignore_errors=True)
        return open_run(folder)

    def _let_workers_compute(self, folder: Path, indexes: Path, watch: ExperimentWatch) -> None:
        """Let each worker compute a shard of the missing rows. This process computes the rows that they leave."""
        missing = 0
        for own in self.indexed_sets(indexes, watch):
            found, _ = self.rows(own, folder)
            chosen = self.questions(own.task)
            missing += sum(len(one.missing(chosen)) for _, ready, again in found for one in (*ready, *again))
        if not missing:
            return
        count = RowCount(folder / LINES)
        before = count()
        executors = executors_of(self.workers, self.ray, self.gpus_per_worker)
        with executors(missing) as executor, watch.progress(f"Evaluating in {executor.workers} processes") as advance:
            compute = partial(compute_shard, replace(self, index=self.index or indexes), executor.workers)
            shards = range(1, executor.workers + 1)
            for wrong in executor.map(compute, shards, lambda: advance(count() - before, missing, "")):
                if wrong:
                    watch.warn(wrong)


def evaluate(
    sets: QuestionSet | str | Path | Sequence[QuestionSet | str | Path],
    methods: str | Method | Sequence[str | Method] = ("topk", defaults.STRATEGY),
    budgets: int | Sequence[int] = BUDGETS,
    *,
    index: Index | str | Path | None = None,
    models: Mapping[str, str] | None = None,
    out: str | Path | None = None,
    answers: bool = False,
    split: Split = "all",
    limit: int | None = None,
    watch: ExperimentWatch = SILENT,
) -> Run:
    """Compare methods on question sets.

    Args:
        sets: Question sets, or paths of sets, of folders of sets and of tables of questions.
        methods: Strategies, such as "weave" or "auto-merge(mode=never)", and methods. The first one is the reference.
        budgets: Token budgets of contexts.
        index: Open index or directory of an index that questions without documents are asked. For sets with documents, the
            folder of their indexes; by default they are made in a temporary folder.
        models: Specs of models by role: embedder, chat, causal, reranker, scorer, utility. An open index has its own models.
        out: Run folder. A stopped run continues there, and rows that it holds are not computed again.
        answers: Answer the questions, too, and score the answers.
        split: "dev" for the first half of each set, "test" for the second half, or "all".
        limit: Number of questions of each set.
        watch: Callbacks. The default is silent.

    Returns:
        The run. A notebook shows its report; `means()` and `rows()` return its figures.

    Raises:
        UsageError: if an argument is invalid, or no method can run.
    """
    specs: dict[str, Any] = dict(models or {})
    roles = ("embedder", *ModelSpecs().by_role())
    if unknown := specs.keys() - set(roles):
        raise UsageError(f"unknown model: {min(unknown)!r}", one_of(min(unknown), roles))
    if isinstance(index, Index) and specs.keys() - {"utility"}:
        raise UsageError("an open index has its own models", "open the index with these models, or pass its directory")
    compared: list[Method] = []
    for one in [methods] if isinstance(methods, str | Method) else methods:
        compared += [one] if isinstance(one, Method) else strategy_methods(one)
    sizes = [budgets] if isinstance(budgets, int) else budgets
    chosen = [sets] if isinstance(sets, QuestionSet | str | Path) else sets
    experiment = Experiment(
        sets=[one if isinstance(one, QuestionSet) else Path(one) for one in chosen],
        methods=[(method.with_settings(None, None), budget) for method in compared for budget in sizes],
        models=ModelSpecs(**specs),
        index=Path(index) if isinstance(index, str) else index,
        out=None if out is None else Path(out),
        answers=answers,
        split=split,
        limit=limit,
    )
    return experiment.run(watch)


def compute_shard(experiment: Experiment, count: int, number: int) -> str:
    """Add the rows of shard `number` (from 1) of `count` to the run folder, silently, in a worker process.

    Returns:
        The error message, or an empty string.
    """
    folder = experiment.out
    assert folder is not None and isinstance(experiment.index, Path)
    if not (folder / LOCK).exists():
        return f"folder {folder} not found on {gethostname()}: the nodes of a cluster must share it"
    try:
        alone = replace(experiment, shard=(number, count), workers=1, ray=None)
        with run_lock(folder, f"{LOCK}-{number}-of-{count}"):
            for own in alone.indexed_sets(experiment.index):
                asked = alone.questions(own.task)
                for evaluator, ready, again in alone.rows(own, folder)[0]:
                    evaluator.complete([*ready, *again], asked)
    except MergewiseError as error:
        return str(error)
    return ""


def _without_failed(
    ready: Sequence[MethodRows], planned: Sequence[PlannedRows], count: int
) -> tuple[list[MethodRows], list[PlannedRows]]:
    """Remove the methods that failed on all `count` questions, and note the failure in their plan entries.

    If all methods failed, raise the error of the first one.
    """
    failed = {one.method.name: next(iter(one.failures.values())) for one in ready if len(one.failures) == count}
    left = [one for one in ready if one.method.name not in failed]
    if not left:
        raise next(iter(failed.values()))
    return left, [
        replace(one, spec="", needs=f"failed on every question: {failed[one.method]}") if one.method in failed else one
        for one in planned
    ]
