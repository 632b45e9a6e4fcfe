"""The commands `eval` and `report`.

`eval` compares strategies on question sets with gold evidence, and scores answers from their contexts. `report` writes the
results of one or more runs as a page, Markdown, CSV and SVG.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mergewise import defaults
from mergewise.cli import options, settings
from mergewise.cli.settings import Setting
from mergewise.errors import UsageError
from mergewise.extend import OUTPUT, Range
from mergewise.types import frozen

BUDGETS = "128,384,640"
METHOD_BUDGET = "4096"
"""Large enough for any method: its number of passages limits the tokens."""
MetricOption = Annotated[
    str, typer.Option(metavar="NAME,...|all", help="Scores, such as nDCG@20,P@5,AP.", show_default="the main ones")
]


@frozen
class EvaluationOptions(settings.Patience):
    """Methods, questions, models and files of an evaluation."""

    strategies: options.StrategiesOption = f"topk,{defaults.STRATEGY}"
    budgets: Annotated[
        str | None,
        typer.Option(
            "--budgets",
            "-b",
            help="Token budgets, separated by commas.",
            show_default=f"{BUDGETS}; {METHOD_BUDGET} with --methods, those of the table with --table",
        ),
    ] = None
    named: Annotated[
        list[str] | None,
        typer.Option("--as", metavar="NAME=FILE", help="Question set under another name; may be repeated."),
    ] = None
    limit: options.LimitOption = None
    split: options.SplitOption = "all"
    answers: Annotated[
        bool, typer.Option("--answers", "-a", help="Also answer the questions and score the answers.")
    ] = False
    methods: Annotated[
        str | None, typer.Option(help="Methods or groups of methods to compare, instead of strategies: {methods}.")
    ] = None
    table: Annotated[
        str | None, typer.Option(help="Tables of the papers to fill, instead of strategies: {tables}.")
    ] = None
    metric: MetricOption = ""
    mode: options.ModeOption = None
    chat: options.ChatOption = defaults.CHAT
    embedder: options.EmbedderOption = None
    reranker: options.RerankerOption = defaults.RERANKER
    scorer: settings.ScorerSetting = defaults.SCORER
    second_source: settings.SecondSourceSetting = None
    assignments: options.SetOption = None
    out: Annotated[Path | None, typer.Option(help="Run folder; rows that it already holds are not computed again.")] = (
        None
    )
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Estimate the cost from five questions, without calling a chat model.")
    ] = False
    index_dir: options.SetIndexOption = None
    show_missed: Annotated[
        bool, typer.Option("--show-missed", help="Also print the missed questions, and the passages found instead.")
    ] = False
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--report",
            "--html",
            "--md",
            "--json",
            "--csv",
            metavar="FILE",
            help="Output file; may be repeated. Mean scores for .json and .csv, a report for .md and others.",
        ),
    ] = None
    set_format: Annotated[str | None, Setting("Format of the question sets; detected by default")] = None
    workers: Annotated[int, Setting("With --out: number of worker processes", Range(1, 64))] = 1
    sample: Annotated[
        int | None, Setting("Number of questions drawn at random from each set", Range(1, 1_000_000_000))
    ] = None
    seed: Annotated[int, Setting("Random seed of the sample", Range(0, 1 << 63))] = 0
    ray: Annotated[str | None, Setting("With --out: Ray cluster (extra ray): local, auto or HOST:PORT")] = None
    gpus_per_worker: settings.GPUsSetting = 0.0
    reference: Annotated[str | None, Setting("Reference method of the comparisons; the first by default")] = None
    causal: settings.CausalSetting = defaults.CAUSAL
    search: settings.SearchSetting = None
    window: settings.WindowSetting = None
    max_tokens: Annotated[int, Setting("Maximum tokens of one model reply", OUTPUT)] = defaults.MAX_TOKENS
    repeats: Annotated[int | None, Setting("Repeats per question of a sampling chat model", Range(1, 1000))] = None
    temperature: Annotated[float | None, Setting("Temperature of the chat model; 0 by default", Range(0, 2))] = None
    cache: settings.CacheSetting = None
    prompts: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of your own prompts (see `mergewise prompts`).")
    ] = None
    price_in: settings.PriceInSetting = 0.0
    price_out: settings.PriceOutSetting = 0.0
    weights: settings.WeightsSetting = None
    utility: Annotated[str, Setting("Utility predictor (AED-RAG), as for --reranker")] = defaults.RERANKER
    batch_size: Annotated[int, Setting("Batch size of questions; 1 measures the time of each", Range(1, 1024))] = 1
    strict: Annotated[bool, Setting("Stop at an invalid row or unavailable method")] = False

    @property
    def run_folder(self) -> Path | None:
        """The folder of the rows, or None to keep them only in memory."""
        if self.out is not None or not self.answers:
            return self.out
        return next((path.with_suffix(".answers") for path in self.files or () if path.suffix == ".json"), None)


@options.with_options
def evaluate(
    options: EvaluationOptions,
    sets: Annotated[
        list[Path] | None,
        typer.Argument(metavar="SETS...", help="Question sets, folders of them, or CSV or JSONL files."),
    ] = None,
) -> None:
    """Measure the share of gold evidence, and of answers, that contexts hold at a token budget. Needs question sets.

    --answers also scores a model's answers and their costs: EM, F1, tokens, seconds. --out keeps every row in a folder, so that a
    stopped run continues there and `mergewise report` can read it. The rows of all questions are written next to the first
    output file: rows.questions.jsonl and rows.questions.csv next to rows.json.
    """
    from mergewise.cli.evaluation_runner import run_evaluation

    every = [*(sets or ()), *map(Path, options.named or ())]
    if not every:
        raise UsageError("missing question sets", "name files or folders of questions")
    run_evaluation(every, options)


@options.with_options
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders that `eval --out` wrote.")],
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--html",
            "--md",
            "--csv",
            "--svg",
            metavar="PATH",
            help="Output file; may be repeated. Tables for .md, all figures for .csv, curves for a folder, others are a page.",
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD", help="Reference method of the comparisons.", show_default="the run's, else the first"
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Tables of the papers to fill.", show_default="those of the run"),
    ] = None,
    metric: MetricOption = "",
    judge: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="Chat model that judges whether answers are correct and faithful."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --judge: only show what it would cost.")] = False,
    price_in: settings.PriceInSetting = 0.0,
    price_out: settings.PriceOutSetting = 0.0,
) -> None:
    """Report the results of one or more runs. Needs run folders that `eval --out` wrote.

    The report has tables with significance tests, curves, costs and questions. Without an output file the tables are printed.
    Bold marks the best method and every method that is not worse than it. Published numbers appear next to ours. --judge prints
    the verdicts of a chat model instead, and their agreement with exact match.
    """
    from mergewise.cli.reports import judge_runs, report_text, say_report, write_report_file
    from mergewise.evaluate.exports import csv_table, svg_files
    from mergewise.evaluate.measured import measured_runs
    from mergewise.evaluate.methods import names_in
    from mergewise.evaluate.presets import presets_of
    from mergewise.evaluate.report import evaluation_report
    from mergewise.evaluate.runs.run_folder import open_run

    if judge is not None:
        judge_runs(runs, judge, price_in, price_out, dry_run=dry_run)
        return
    measured = measured_runs([open_run(folder) for folder in runs], reference, names_in(metric))
    presets = presets_of(",".join(measured.tables) if table is None else table) if table or measured.tables else []
    found = evaluation_report(measured, presets, metric)
    for path in files or ():
        if not path.suffix or path.is_dir():
            for name, drawn in svg_files(found).items():
                write_report_file(path / name, drawn)
        else:
            write_report_file(path, csv_table(found) if path.suffix == ".csv" else report_text(found, path))
    if not files:
        say_report(found)
