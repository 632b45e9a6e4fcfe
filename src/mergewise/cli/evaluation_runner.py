"""Runner of `eval`: resolves the options to an experiment, prints its results set by set and writes them to files."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from pathlib import Path

from mergewise import Estimate, Progress, defaults
from mergewise.cli.configuration import open_permitted
from mergewise.cli.evaluate import BUDGETS, METHOD_BUDGET, EvaluationOptions
from mergewise.cli.manage import say_cost
from mergewise.cli.output import say, say_aside, say_warning, usage_text, write_text
from mergewise.cli.progress import characters, items, progress
from mergewise.cli.reports import EvaluationFiles, report_text, say_missed, say_report, say_table
from mergewise.errors import UsageError, check_known
from mergewise.evaluate.columns import check_metric_names
from mergewise.evaluate.drilldown import LIMIT
from mergewise.evaluate.evaluator import Asking
from mergewise.evaluate.experiment import Experiment
from mergewise.evaluate.layout import OVER_SETS
from mergewise.evaluate.means import method_means, question_rows
from mergewise.evaluate.measured import measured_runs
from mergewise.evaluate.methods import methods_of, names_in, strategy_methods
from mergewise.evaluate.presets import Preset, preset_methods, presets_of
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.evaluate.report import evaluation_report, set_facts
from mergewise.evaluate.runs.run_folder import Run
from mergewise.evaluate.set_indexes import ModelSpecs
from mergewise.evaluate.watch import ExperimentWatch
from mergewise.extend import executors_of
from mergewise.types import JsonDict, Usage

SKIPPED = 3
"""Invalid rows of a set that warnings name."""


def run_evaluation(sets: Sequence[Path], options: EvaluationOptions) -> None:
    """Run or estimate an evaluation. Raises UsageError for options that exclude each other."""
    experiment = experiment_of(sets, options)
    files = EvaluationFiles(options.files or ())
    # fail now, not after hours of work
    files.check()
    terminal = Terminal(options, files)
    if options.dry_run:
        say_estimate(experiment, options, terminal)
    else:
        if experiment.answers and experiment.out is None:
            say_aside("The answers will not be saved. Name a run folder (--out) or a file (--json) to save them.")
        run = experiment.run(terminal)
        if experiment.out is not None:
            say_aside(f"run folder: {experiment.out}")
        terminal.end(run, experiment.presets)
    if files.named:
        lines, table = files.rows
        say_aside(f"rows of all questions: {lines}, {table.name}")


def say_estimate(experiment: Experiment, options: EvaluationOptions, terminal: Terminal) -> Usage:
    """Print what each method costs or lacks on each set. Return the usage over all sets."""
    every = Usage()
    for needs, costs in experiment.estimates(terminal):
        for name, missing in needs.items():
            if missing:
                say(f"{name}: {missing}")
        for cost in costs:
            usage = usage_text(cost.usage, options.price_in, options.price_out)
            about = cost.needs or f"{cost.rows:,} rows, {cost.seconds:.0f} s, {usage}"
            say(f"{cost.method} {cost.budget}: {about}")
        total = sum((cost.usage for cost in costs), Usage())
        say(f"total: {usage_text(total, options.price_in, options.price_out)}")
        every += total
    return every


class Terminal(ExperimentWatch):
    """Prints warnings, progress and results, and writes the files of an evaluation."""

    def __init__(self, options: EvaluationOptions, files: EvaluationFiles) -> None:
        self._options, self._files = options, files
        self._sets = 0
        self._means: list[JsonDict] = []
        self._asked: list[JsonDict] = []

    def progress(self, title: str, in_characters: bool = False) -> AbstractContextManager[Progress]:
        return progress(title, characters if in_characters else items)

    def warn(self, text: str) -> None:
        say_warning(text)

    def begin_set(self, task: QuestionSet, asked: Sequence[Question]) -> None:
        say(("\n" if self._sets else "") + f"{task.name}: {set_facts(asked)}", style="bold")
        self._sets += 1
        for row in task.skipped[:SKIPPED]:
            say_warning(str(row))
        if task.skipped:
            say_warning(
                f"{len(task.skipped)} invalid rows of {task.name} skipped; the setting strict makes them an error"
            )

    def view_costs(self, costs: Iterator[tuple[list[str], Estimate]]) -> None:
        for views, cost in costs:
            say_aside(f"the view{'s' * (len(views) > 1)} {', '.join(views)}:")
            say_cost(cost, self._options.price_in, self._options.price_out, as_json=False)

    def end_set(self, run: Run) -> None:
        metrics = names_in(self._options.metric)
        measured = measured_runs([run], metrics=metrics)
        self._means += [one.as_dict() for one in method_means(run, measured)]
        self._asked += question_rows(run, measured)
        self._files.write(self._means, self._asked)
        shown = ",".join(name for name in metrics if name in ("all", *measured.metrics))
        say_report(evaluation_report(measured, metrics=shown, limit=0))
        if self._options.show_missed:
            for own in measured.sets:
                say_missed(own, measured)

    def end(self, run: Run, presets: Sequence[Preset]) -> None:
        """Print the tables over all sets and the papers' tables, and write the report."""
        if not (presets or self._sets > 1 or self._files.reports):
            return
        measured = measured_runs([run], metrics=names_in(self._options.metric))
        report = evaluation_report(measured, presets, self._options.metric, LIMIT if self._files.reports else 0)
        papers, own, *_ = report.parts
        for table in (*papers.tables, *(table for table in own.tables if table.key == OVER_SETS)):
            say_table(table)
        for path in self._files.reports:
            write_text(path, report_text(report, path))


def experiment_of(sets: Sequence[Path], options: EvaluationOptions) -> Experiment:
    """Resolve the options. Raises UsageError for options that exclude each other."""
    _check(options)
    options.set_patience()
    presets: Sequence[Preset] = ()
    models = ModelSpecs(**{one.name: getattr(options, one.name) for one in fields(ModelSpecs)})
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
        sizes = None if options.budgets is None else _parse_budgets(options.budgets)
        chosen = preset_methods(filling, sizes, models.by_role())
    given = (options.search, options.weights, options.assignments or ())
    chosen = [(method.with_settings(*given), budget) for method, budget in chosen]
    if options.reference is not None:
        names = list(dict.fromkeys(method.name for method, _ in chosen))
        check_known("reference method", options.reference, names)
        # the reference comes first
        chosen.sort(key=lambda one: one[0].name != options.reference)
    return Experiment(
        sets=sets,
        methods=chosen,
        presets=presets,
        repeats=options.repeats or max((preset.repeats for preset in presets), default=1),
        models=models,
        index=options.index_dir,
        out=options.run_folder,
        answers=options.answers,
        asking=Asking(options.max_tokens, options.batch_size, options.temperature),
        split=options.split,
        limit=options.limit,
        sample=options.sample,
        seed=options.seed,
        reference=options.reference or "",
        set_format=options.set_format,
        is_strict=options.strict,
        workers=options.workers,
        ray=options.ray,
        gpus_per_worker=options.gpus_per_worker,
        has_texts=bool(EvaluationFiles(options.files or ()).reports),
        command=shlex.join(["mergewise", *sys.argv[1:]]),
        open_index=open_permitted,
    )


def _check(options: EvaluationOptions) -> None:
    check_metric_names(options.metric)
    named = [name for name in ("methods", "table") if getattr(options, name) is not None]
    if len(named) > 1:
        raise UsageError("--table and --methods exclude each other", "leave out --methods")
    if not options.answers and options.mode is not None and not named:
        raise UsageError("--mode requires --answers", "add --answers")
    if named and options.mode is not None:
        raise UsageError(f"--{named[0]} and --mode exclude each other", "leave out --mode, or use --strategies")
    if (options.workers > 1 or options.ray is not None) and options.out is None:
        raise UsageError(f"{'workers' if options.ray is None else 'ray'} requires --out", "name a run folder")
    executors_of(options.workers, options.ray, options.gpus_per_worker)


def _parse_budgets(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"invalid budgets: {text[:80]!r}", "write numbers, such as 128,384,640") from None
