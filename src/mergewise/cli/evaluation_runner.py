"""Runner of `eval`: resolves the options, computes the rows set by set, prints them and writes them to files."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from socket import gethostname
from tempfile import TemporaryDirectory
from typing import Any, cast

from filelock import FileLock, Timeout

from mergewise import defaults
from mergewise.cli import options as shared
from mergewise.cli import settings
from mergewise.cli.configuration import open_permitted
from mergewise.cli.evaluate import BUDGETS, METHOD_BUDGET, EvaluationOptions
from mergewise.cli.manage import say_cost
from mergewise.cli.output import say, say_aside, say_warning, usage_text
from mergewise.cli.progress import characters, progress
from mergewise.cli.reports import EvaluationFiles, say_missed, say_report, say_table
from mergewise.designs import VIEWS
from mergewise.designs.weave import weights_line
from mergewise.engine import Index
from mergewise.errors import MergewiseError, UsageError, one_of
from mergewise.evaluate.columns import check_metric_names, metric_names
from mergewise.evaluate.drilldown import LIMIT
from mergewise.evaluate.evaluator import Asking, Evaluator, MethodRows
from mergewise.evaluate.layout import OVER_SETS
from mergewise.evaluate.means import method_means, question_rows
from mergewise.evaluate.measured import measured_runs
from mergewise.evaluate.methods import (
    Method,
    is_written,
    methods_of,
    needed_views,
    stored_settings,
    strategy_methods,
    unmet_needs,
)
from mergewise.evaluate.presets import Preset, presets_of
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.evaluate.report import evaluation_report, set_facts
from mergewise.evaluate.run import chosen_questions, existing_index, parse_shard, shared_indexes, task_index, tasks_at
from mergewise.evaluate.runs.estimate import estimated_costs
from mergewise.evaluate.runs.finish import RunTables, document_texts, earlier_plan, write_plan
from mergewise.evaluate.runs.folder import LINES, Run, memory_run, open_run
from mergewise.evaluate.runs.keys import digest, question_digest
from mergewise.evaluate.runs.lines import RowCount
from mergewise.evaluate.runs.plan import (
    PlannedMethod,
    PlannedRows,
    PlannedSet,
    RunPlan,
    installed_versions,
    this_machine,
)
from mergewise.evaluate.runs.record import RunRow
from mergewise.evaluate.runs.store import RowStore, open_store
from mergewise.index import executors_of
from mergewise.models import (
    Decoded,
    Models,
    causal_of,
    count_tokens,
    load_causal,
    load_chat,
    load_reranker,
    load_scorer,
    release,
)
from mergewise.opening import estimate
from mergewise.protocols import ChatModel, Reranker
from mergewise.store import Progress
from mergewise.types import Usage

WARNED = 3
"""Failed questions, and invalid rows of a set, that warnings name."""
INDEXES = "indexes"
LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An evaluation with its options resolved to methods and budgets, tables and a shard."""

    sets: Sequence[Path]
    options: EvaluationOptions
    asked_methods: Sequence[tuple[Method, int]]
    presets: Sequence[Preset]
    repeats: int
    shard: tuple[int, int]

    @classmethod
    def of_options(cls, sets: Sequence[Path], options: EvaluationOptions) -> Evaluation:
        """Resolve the options. Raises UsageError for options that exclude each other."""
        _check(options)
        settings.set_patience(options.timeout, options.retries)
        presets: Sequence[Preset] = ()
        if options.table is None:
            compared = (
                strategy_methods(options.strategies, options.mode)
                if options.methods is None
                else methods_of(options.methods)
            )
            budgets = _parse_budgets(options.budgets or (BUDGETS if options.methods is None else METHOD_BUDGET))
            chosen = [(method, budget) for method in compared for budget in budgets]
        else:
            presets = presets_of(options.table)
            has_model = options.chat != defaults.CHAT or options.causal != defaults.CAUSAL
            options = replace(options, answers=options.answers or has_model)
            filling = presets if options.answers else [preset.without_answers() for preset in presets]
            chosen = _preset_methods(filling, options.budgets, _model_specs(options))
        given = (options.search, options.weights, options.assignments or ())
        chosen = [(method.with_settings(*given), budget) for method, budget in chosen]
        if options.dry_run:
            chosen = [(replace(method, is_written=False), budget) for method, budget in chosen]
        chosen = _from_reference(chosen, options.reference)
        repeats = options.repeats or max((preset.repeats for preset in presets), default=1)
        return cls(sets, options, chosen, presets, repeats, parse_shard(options.shard or "1/1"))

    def run(self) -> None:
        options = self.options
        files = EvaluationFiles(options.to_json, options.to_csv, options.reports or ())
        # fail now, not after hours of work
        files.check()
        if options.answers and options.run_folder is None and not options.dry_run:
            say_aside("The answers will not be saved. Name a run folder (--out) or a file (--json) to save them.")
        folder = None if options.dry_run else options.run_folder
        with ExitStack() as held:
            if folder is not None:
                number, count = self.shard
                held.enter_context(_lock(folder, LOCK if count == 1 else f"{LOCK}-{number}-of-{count}"))
            indexes = held.enter_context(self._index_folder(folder))
            if folder is not None and (options.workers > 1 or options.ray is not None):
                self._work(indexes, folder)
            self._evaluate(folder, indexes, files)
        files.say_rows()

    @contextmanager
    def _index_folder(self, folder: Path | None) -> Iterator[Path]:
        """Yield the folder of the sets' indexes. A stopped run continues with its own indexes."""
        named = self.options.index_dir or (None if folder is None else folder / INDEXES)
        if self.options.dry_run and any(method.assigned for method, _ in self.asked_methods):
            # an estimate builds other rows than the methods read
            named = None
        with nullcontext(named) if named is not None else TemporaryDirectory(prefix="mergewise-eval-") as place:
            yield Path(place)

    def indexed_sets(self, indexes: Path, quiet: bool = False) -> Iterator[SetIndexes]:
        """Yield each set with its indexes, which are closed before those of the next set are opened.

        Methods that lack a model have no index.
        """
        options = self.options
        chat, causal = load_chat(options.chat, options.window), load_causal(options.causal)
        reranker, scorer = _reranker(options.reranker), load_scorer(options.scorer)
        open_index = partial(
            open_permitted,
            embedder=options.embedder,
            reranker=reranker or defaults.RERANKER,
            scorer=scorer or defaults.SCORER,
            chat=chat or defaults.CHAT,
            causal=causal or defaults.CAUSAL,
            cache=options.cache,
            prompts=options.prompts,
            second_source=options.second_source,
        )
        models = Models(count_tokens, None, chat, reranker, scorer, causal or causal_of(chat))
        existing = options.index_dir or shared.DEFAULT_INDEX
        taken: set[str] = set()
        try:
            for path in self.sets:
                for task in tasks_at(path, options.form, options.strict, taken):
                    taken.add(task.name)
                    with ExitStack() as opened:
                        found = []
                        for index, methods in (
                            self._set_indexes(task, indexes, models, open_index, quiet)
                            if task.documents
                            else [(existing_index(task, existing, open_index), self.asked_methods)]
                        ):
                            opened.callback(index.close)
                            found.append((index, methods))
                        yield SetIndexes(task, found, self.needs(models) if task.documents else {})
        finally:
            for model in (chat, causal, scorer):
                release(model)

    def _set_indexes(
        self, task: QuestionSet, folder: Path, models: Models, open_index: Callable[..., Index], quiet: bool
    ) -> Iterator[tuple[Index, Sequence[tuple[Method, int]]]]:
        """Build the indexes of a set, and yield each with its methods. Print the costs before the chat model is asked."""
        options = self.options
        show: Callable[[str], AbstractContextManager[Progress]]
        show = _no_progress if quiet else partial(progress, amount=characters)
        needs = self.needs(models)
        ready = [(method, budget) for method, budget in self.asked_methods if not needs[method.name]]
        if not quiet and models.chat is not None:
            self._say_index_costs(task, folder, models.chat, ready)
        for one in shared_indexes(folder, task.name, ready):
            # views that need vectors are not built without an embedder; methods that use them then report a missing view
            views = [
                view
                for view in needed_views([method for method, _ in one.methods])
                if options.embedder != "none" or not VIEWS[view].needs_embedder
            ]
            settings = {view: own for view, own in one.settings.items() if view in views}
            index = task_index(task, one.place, open_index, show, views=views, settings=settings)
            if "raptor" in views and not (quiet or options.dry_run):
                # its tree is grown now, and no question waits for it
                index.context("?", strategy="raptor", budget=16)
            yield index, one.methods

    def _say_index_costs(
        self, task: QuestionSet, folder: Path, chat: ChatModel, methods: Sequence[tuple[Method, int]]
    ) -> None:
        """Print the costs of the views that a chat model writes."""
        if self.options.dry_run and self.options.run_folder is not None:
            folder = self.options.index_dir or self.options.run_folder / INDEXES
        whole = [(replace(method, is_written=True), budget) for method, budget in methods]
        for one in shared_indexes(folder, task.name, whole):
            written = {view: own for view, own in one.settings.items() if is_written(view, own)}
            asked: dict[str, Any] = {"settings": written, "chat": chat, "prompts": self.options.prompts}
            if written and (cost := estimate(one.place, *task.documents, **asked)).usage.calls:
                say_aside(f"the view{'s' * (len(written) > 1)} {', '.join(written)}:")
                say_cost(cost, self.options.price_in, self.options.price_out, as_json=False)

    def needs(self, models: Models) -> dict[str, str]:
        """Return what each method needs and lacks, as far as it is known before there is an index."""
        utility, found = _reranker(self.options.utility), dict[str, str]()
        # the index decides about vectors
        models = replace(models, embedder=cast(Any, self.options.embedder or defaults.EMBEDDER))
        for method, _ in self.asked_methods:
            views: dict[str, Any] = {view: {} for view in method.all_views} | stored_settings(method.view_settings())
            judged = method.with_judge(models, utility)
            found[method.name] = unmet_needs(method, views, judged, self.options.answers, is_built=False)
        return found

    def questions(self, task: QuestionSet) -> Sequence[Question]:
        options = self.options
        return chosen_questions(task, options.split, options.limit, options.sample, options.seed)

    def part(self, questions: Sequence[Question]) -> Sequence[Question]:
        """Return the questions of this shard."""
        number, count = self.shard
        return questions[number - 1 :: count]

    def evaluators(self, known: SetIndexes, folder: Path | None) -> list[Evaluator]:
        """Return an evaluator for each index of a set. They share the rows."""
        options = self.options
        asking = Asking(options.max_tokens, options.batch_size, options.temperature) if options.answers else None
        task, utility = known.task, _reranker(options.utility)
        name = "" if options.shard is None else f".{self.shard[0]}-of-{self.shard[1]}"
        reused = [Path(one.strip()) for one in (options.reuse or "").split(",") if one.strip()]
        store = RowStore() if folder is None else open_store(folder, task.name, name, reused)
        # a batch has no time per question, so methods may share the causal model's background texts
        backgrounds: dict[str, Decoded] | None = {} if options.batch_size > 1 else None
        return [Evaluator(index, task, asking, store, backgrounds, utility) for index, _ in known.indexes]

    def rows(
        self, known: SetIndexes, evaluators: Sequence[Evaluator]
    ) -> tuple[list[tuple[Evaluator, list[MethodRows], list[MethodRows]]], list[PlannedRows]]:
        """Return for each evaluator the rows of methods that can run and of their repeats, and a plan entry for every method.

        Raises UsageError if no method can run, or if any cannot and `strict` is set.
        """
        name = known.task.name
        names = dict.fromkeys(method.name for method, _ in self.asked_methods)
        planned = {method: PlannedRows(name, method, "", known.needs.get(method, "")) for method in names}
        found = []
        for evaluator, (_, methods) in zip(evaluators, known.indexes, strict=True):
            ready, again = [], []
            for method, budget in methods:
                if needs := planned[method.name].needs or evaluator.unmet_needs(method):
                    planned[method.name] = PlannedRows(name, method.name, "", needs)
                    continue
                one = evaluator.method_rows(method, budget)
                planned[method.name] = evaluator.plan_of(one)
                ready.append(one)
                if evaluator.repeats(one):
                    again += [evaluator.method_rows(method, budget, repeat) for repeat in range(1, self.repeats)]
            found.append((evaluator, ready, again))
        unmet = [one for one in planned.values() if one.needs]
        if unmet and (self.options.strict or not any(ready for _, ready, _ in found)):
            others = dict.fromkeys(f"{one.method} {one.needs}" for one in unmet[1:])
            hint = "leave the method out, or provide its requirements"
            raise UsageError(f"{unmet[0].method} {unmet[0].needs}", "; ".join([hint, *list(others)[:WARNED]]))
        return found, list(planned.values())

    def _evaluate(self, folder: Path | None, indexes: Path, files: EvaluationFiles) -> None:
        options = self.options
        tables = None if folder is None or options.shard is not None else RunTables(folder)
        plan = self._plan()
        if folder is not None:
            plan = plan.joined_to(earlier_plan(folder))
            _warn_of_versions(earlier_plan(folder), plan)
        known = _MeasuredSets()
        written = False
        for own in self.indexed_sets(indexes):
            task = own.task
            if task.name in known.questions:
                raise UsageError(f"duplicate name of a question set: {task.name}", "rename one of the sets")
            questions = self.questions(task)
            asked = self.part(questions)
            if not asked:
                raise UsageError(f"no questions left in {task.name}", "use --split all, or fewer shards")
            say(("\n" if known.questions else "") + f"{task.name}: {set_facts(asked)}", style="bold")
            _warn_of_skipped(task)
            known.questions[task.name] = asked
            evaluators = self.evaluators(own, folder)
            if options.dry_run:
                self._say_costs(own, evaluators, asked)
                continue
            found, planned = self.rows(own, evaluators)
            index, store = evaluators[0].index, evaluators[0].store
            for evaluator in evaluators:
                chosen = _view_choices(evaluator.index)
                written = written or any(
                    VIEWS[v].asks_chat(s.settings) for v, s in evaluator.index.manifest.views.items()
                )
                plan = plan.with_records([_planned_set(evaluator, questions)], planned, chosen)
            if folder is not None:
                write_plan(folder, plan)
            if tables is not None:
                tables.add_questions(task.name, task.questions)
            with progress("Evaluating") as advance:
                for evaluator, ready, again in found:
                    evaluator.complete([*ready, *again], asked, advance)
            every = [one for _, ready, _ in found for one in ready]
            repeats = [one for _, _, again in found for one in again]
            every, planned = _without_failed(every, planned, len(asked))
            plan = plan.with_records(rows=planned)
            names = {one.method.name for one in every}
            rows = [row for one in (*every, *repeats) if one.method.name in names for row in one.rows(asked)]
            _warn_of_failed(rows)
            if tables is not None:
                documents = {one.doc for row in store.known.values() for one in row.ranking}
                tables.add_texts(index, task.name, task.questions, documents)
            else:
                known.rows += rows
                if files.reports:
                    documents = {one.doc for row in rows for one in row.ranking}
                    known.texts += document_texts(index, task.name, asked, documents)
            self._say_set(memory_run(rows, {task.name: asked}, plan=plan), known, files)
        if options.dry_run:
            return
        if tables is None or folder is None:
            self._say_all(known.run(plan), known, files)
            return
        with _other_shards_done(folder):
            tables.write(plan)
        if not written:
            # rows by a chat model are kept: another table may need them
            shutil.rmtree(folder / INDEXES, ignore_errors=True)
        say_aside(f"run folder: {folder}")
        self._say_all(open_run(folder), known, files)

    def _say_set(self, run: Run, known: _MeasuredSets, files: EvaluationFiles) -> None:
        """Print the report of one set and write the files, so that a killed run loses only the current set."""
        measured = measured_runs([run], metrics=metric_names(self.options.metric))
        known.means += [one.as_dict() for one in method_means(run, measured)]
        known.asked += question_rows(run, measured)
        files.write(known.means, known.asked)
        shown = ",".join(name for name in metric_names(self.options.metric) if name in ("all", *measured.metrics))
        say_report(evaluation_report(measured, metrics=shown, limit=0))
        if self.options.show_missed:
            say_missed(measured)

    def _say_all(self, run: Run, known: _MeasuredSets, files: EvaluationFiles) -> None:
        """Print the tables over all sets and the papers' tables, and write the report."""
        if not (self.presets or len(known.questions) > 1 or files.reports):
            return
        measured = measured_runs([run], metrics=metric_names(self.options.metric))
        report = evaluation_report(measured, self.presets, self.options.metric, LIMIT if files.reports else 0)
        papers, own, *_ = report.parts
        for table in (*papers.tables, *(table for table in own.tables if table.key == OVER_SETS)):
            say_table(table)
        files.write_report(report)

    def _plan(self) -> RunPlan:
        """Return the part of the plan that does not depend on the sets."""
        options = self.options
        methods = {method.name: method for method, _ in self.asked_methods}
        return RunPlan(
            methods=tuple(
                PlannedMethod(
                    one.name, one.strategy, one.mode or "", one.judge, one.about, one.search, weights_line(one.weights)
                )
                for one in methods.values()
            ),
            budgets=tuple(dict.fromkeys(budget for _, budget in self.asked_methods)),
            repeats=self.repeats,
            answers=options.answers,
            split=options.split,
            limit=options.limit or 0,
            sample=options.sample or 0,
            seed=options.seed,
            max_tokens=options.max_tokens,
            together=options.batch_size,
            workers=options.workers,
            reference=options.reference or "",
            tables=tuple(preset.name for preset in self.presets),
            command=shlex.join(["mergewise", *sys.argv[1:]]),
            models=_model_specs(options),
            versions=installed_versions(),
            machine=this_machine(),
        )

    def _work(self, indexes: Path, folder: Path) -> None:
        """Let each worker compute a shard of the missing rows. This process computes the rows that they leave."""
        options, missing = self.options, 0
        for own in self.indexed_sets(indexes):
            found, _ = self.rows(own, self.evaluators(own, folder))
            asked = self.questions(own.task)
            missing += sum(len(one.missing(asked)) for _, ready, again in found for one in (*ready, *again))
        if not missing:
            return
        plain = replace(options, index_dir=options.index_dir or indexes)
        count = RowCount(folder / LINES)
        before = count()
        executors = executors_of(options.workers, options.ray, options.gpus_per_worker)
        with executors(missing) as executor, progress(f"Evaluating in {executor.workers} processes") as advance:
            compute = partial(compute_shard, list(map(str, self.sets)), plain, executor.workers)
            shards = range(1, executor.workers + 1)
            for wrong in executor.map(compute, shards, lambda: advance(count() - before, missing, "")):
                if wrong:
                    say_warning(wrong)

    def _say_costs(self, own: SetIndexes, evaluators: Sequence[Evaluator], questions: Sequence[Question]) -> None:
        options = self.options
        for name, needs in own.needs.items():
            if needs:
                say(f"{name}: {needs}")
        stored = self.evaluators(own, options.run_folder)
        costs = []
        for evaluator, known, (_, methods) in zip(evaluators, stored, own.indexes, strict=True):
            missing = {}
            for method, budget in methods:
                if not known.unmet_needs(method):
                    one = known.method_rows(method, budget)
                    times = self.repeats if known.repeats(one) else 1
                    rows = [one, *(known.method_rows(method, budget, repeat) for repeat in range(1, times))]
                    missing[method.name, budget] = sum(len(each.missing(questions)) for each in rows)
            costs += estimated_costs(evaluator, methods, questions, missing)
        for cost in costs:
            if cost.needs:
                say(f"{cost.method} {cost.budget}: {cost.needs}")
                continue
            usage = usage_text(cost.usage, options.price_in, options.price_out)
            say(f"{cost.method} {cost.budget}: {cost.rows:,} rows, {cost.seconds:.0f} s, {usage}")
        total = sum((cost.usage for cost in costs), Usage())
        say(f"total: {usage_text(total, options.price_in, options.price_out)}")


@dataclass(frozen=True, slots=True)
class SetIndexes:
    """A set, its indexes with their methods, and what each method needs and lacks."""

    task: QuestionSet
    indexes: Sequence[tuple[Index, Sequence[tuple[Method, int]]]]
    needs: Mapping[str, str]


@dataclass(slots=True)
class _MeasuredSets:
    """Results so far: rows for output files, and for a run without a folder its rows, questions and texts."""

    means: list[dict[str, Any]] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    rows: list[RunRow] = field(default_factory=list)
    questions: dict[str, Sequence[Question]] = field(default_factory=dict)
    texts: list[tuple[str, str, str, str]] = field(default_factory=list)

    def run(self, plan: RunPlan) -> Run:
        return memory_run(self.rows, self.questions, self.texts, plan)


def compute_shard(sets: Sequence[str], options: EvaluationOptions, count: int, number: int) -> str:
    """Add the rows of shard `number` (from 1) of `count` to the run folder, silently, in a worker process.

    Returns:
        The error message, or an empty string.
    """
    folder = options.run_folder
    assert folder is not None and options.index_dir is not None
    if not (folder / LOCK).exists():
        return f"folder {folder} not found on {gethostname()}: the nodes of a cluster must share it"
    try:
        alone = replace(options, shard=f"{number}/{count}", workers=1, ray=None)
        evaluation = Evaluation.of_options(list(map(Path, sets)), alone)
        with _lock(folder, f"{LOCK}-{number}-of-{count}"):
            for own in evaluation.indexed_sets(options.index_dir, quiet=True):
                asked = evaluation.part(evaluation.questions(own.task))
                for evaluator, ready, again in evaluation.rows(own, evaluation.evaluators(own, folder))[0]:
                    evaluator.complete([*ready, *again], asked, lambda done, total, item: None)
    except MergewiseError as error:
        return str(error)
    return ""


def _check(options: EvaluationOptions) -> None:
    check_metric_names(options.metric)
    named = [name for name in ("methods", "table") if getattr(options, name) is not None]
    if len(named) > 1:
        raise UsageError("--table and --methods exclude each other", "leave out --methods")
    if not options.answers and options.mode is not None and not named:
        raise UsageError("--mode requires --answers", "add --answers")
    if named and options.mode is not None:
        raise UsageError(f"--{named[0]} and --mode exclude each other", "leave out --mode, or use --strategies")
    for name in ("shard", "reuse"):
        if getattr(options, name) and options.run_folder is None:
            raise UsageError(f"{name} requires --out", "name a run folder")
    if (options.workers > 1 or options.ray is not None) and (options.out is None or options.shard is not None):
        option = "--workers" if options.ray is None else "ray"
        raise UsageError(f"{option} requires --out, and excludes shard", "name a run folder, and leave out shard")
    executors_of(options.workers, options.ray, options.gpus_per_worker)


def _parse_budgets(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"invalid budgets: {text[:80]!r}", "write numbers, such as 128,384,640") from None


def _model_specs(options: EvaluationOptions) -> dict[str, str]:
    """Return the specs of models by role."""
    return {name: getattr(options, name) for name in ("chat", "causal", "reranker", "scorer", "utility")}


def _preset_methods(
    presets: Sequence[Preset], budgets: str | None, models: Mapping[str, str]
) -> list[tuple[Method, int]]:
    """Return the methods that fill the tables with these models, each once per budget."""
    wanted = {key: method for preset in presets for key, method in preset.runs(models).items()}
    if not wanted:
        only = {f"{role} {name}" for preset in presets for row in preset.rows for role, name in row.only.items()}
        raise UsageError("these models fill no row of these tables", f"name one of: {', '.join(sorted(only))}")
    if budgets is None:
        return [(method, budget) for (_, budget), method in wanted.items()]
    methods = {method.name: method for method in wanted.values()}
    return [(method, budget) for method in methods.values() for budget in _parse_budgets(budgets)]


def _from_reference(chosen: list[tuple[Method, int]], reference: str | None) -> list[tuple[Method, int]]:
    """Move the reference method to the front."""
    if reference is None:
        return chosen
    names = list(dict.fromkeys(method.name for method, _ in chosen))
    if reference not in names:
        raise UsageError(f"unknown reference method: {reference!r}", one_of(reference, names))
    return sorted(chosen, key=lambda one: one[0].name != reference)


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


def _view_choices(index: Index) -> dict[str, str]:
    """Return the text settings of the index's views, such as the marker view's examples as "marker.examples"."""
    views = index.manifest.views.items()
    texts = {f"{view}.{name}": v for view, s in views for name, v in s.settings.items() if isinstance(v, str) and v}
    # examples are long, and their digest tells them apart
    return {name: digest(text) if text.startswith("[") else text for name, text in texts.items()}


@cache
def _reranker(spec: str) -> Reranker | None:
    """Load a reranker once for all sets."""
    return load_reranker(spec)


@contextmanager
def _no_progress(title: str) -> Iterator[Progress]:
    yield lambda done, total, item: None


@contextmanager
def _lock(folder: Path, name: str) -> Iterator[None]:
    """Lock a run or a shard. Raises UsageError if another process holds the lock."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / name, timeout=0)
        lock.acquire()
    except Timeout:
        raise UsageError(f"another process is computing this in {folder}", "wait until it ends") from None
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}", "name another folder") from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _other_shards_done(folder: Path) -> Iterator[None]:
    """Hold the locks of all shards. Raises UsageError if one is still computed: its rows would be lost."""
    with ExitStack() as held:
        for path in sorted(folder.glob(f"{LOCK}-*")):
            try:
                held.enter_context(FileLock(path, timeout=0))
            except Timeout:
                raise UsageError(
                    f"a shard of {folder} is still running", "run the same command again when it ends"
                ) from None
        yield


def _warn_of_skipped(task: QuestionSet) -> None:
    for row in task.skipped[:WARNED]:
        say_warning(str(row))
    if task.skipped:
        say_warning(f"{len(task.skipped)} invalid rows of {task.name} skipped; the setting strict makes them an error")


def _warn_of_versions(earlier: RunPlan, plan: RunPlan) -> None:
    before, now = (one.versions.get("mergewise", "") for one in (earlier, plan))
    if before and before != now:
        say_warning(f"run started by version {before}: its rows stay, and version {now} adds the rest")


def _planned_set(evaluator: Evaluator, questions: Sequence[Question]) -> PlannedSet:
    task = evaluator.task
    asked = digest([question_digest(question, with_gold=True) for question in task.questions])
    manifest = evaluator.index.manifest
    return PlannedSet(task.name, len(task.questions), len(questions), asked, evaluator.documents(), manifest.embedder)


def _warn_of_failed(rows: Sequence[RunRow]) -> None:
    failed = [row for row in rows if row.error]
    for row in failed[:WARNED]:
        say_warning(f"{row.method}, question {row.question}: {row.error}")
    if failed:
        say_warning(f"{len(failed)} of {len(rows)} rows failed; they count as wrong, and the next run retries them")
