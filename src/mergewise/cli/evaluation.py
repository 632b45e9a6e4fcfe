"""`eval`: strategies side by side on question sets with gold evidence, and the scores of answers from their contexts.
`report`: what runs measured, several side by side, as a page, Markdown, CSV and SVG.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mergewise import defaults
from mergewise.cli import options, settings

BUDGETS = "128,384,640"
METHOD_BUDGET = "4096"
"""Ample: the passages of a method settle how many tokens it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationOptions:
    """What is asked, how, and where it goes."""

    strategies: options.StrategiesOption = f"topk,{defaults.STRATEGY}"
    budgets: Annotated[
        str | None,
        typer.Option(
            "--budgets",
            "-b",
            help="Budgets in tokens, separated by commas.",
            show_default=f"{BUDGETS}; {METHOD_BUDGET} with --methods, those of the table with --table",
        ),
    ] = None
    limit: options.LimitOption = None
    split: options.SplitOption = "all"
    sample: Annotated[int | None, typer.Option(min=1, help="Only so many questions of each set, drawn by --seed.")] = (
        None
    )
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample.")] = 0
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="With --out: compute every N-th question alone. The same command without --shard does the rest.",
        ),
    ] = None
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="With --out: so many processes compute at the same time.")
    ] = 1
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="With --out: workers on a Ray cluster (extra ray): local, auto or HOST:PORT. Nodes share the folders.",
        ),
    ] = None
    gpus_per_worker: settings.GPUsSetting = 0.0
    answers: Annotated[
        bool, typer.Option("--answers", "-a", help="Also answer the questions and score the answers.")
    ] = False
    methods: Annotated[
        str | None,
        typer.Option(
            help="Instead of strategies, methods of the papers, by name or group, separated by commas: {methods}."
        ),
    ] = None
    table: Annotated[
        str | None,
        typer.Option(help="Instead of strategies, what fills tables of the papers, separated by commas: {tables}."),
    ] = None
    reference: Annotated[
        str | None, typer.Option(help="Method that the others are compared with.", show_default="the first")
    ] = None
    mode: options.ModeOption = None
    chat: options.ChatOption = defaults.CHAT
    causal: options.CausalOption = defaults.CAUSAL
    search: options.SearchOption = None
    window: settings.WindowSetting = None
    max_tokens: options.MaxTokensOption = defaults.MAX_TOKENS
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            help="Times that a chat model which draws its answers is asked, each with a seed of its own.",
            show_default="1, or those of the table",
        ),
    ] = None
    temperature: Annotated[
        float | None, typer.Option(min=0, max=2, help="Temperature of the chat model.", show_default="0")
    ] = None
    cache: settings.CacheSetting = None
    prompts: options.PromptsOption = None
    timeout: settings.TimeoutSetting = None
    retries: settings.RetriesSetting = None
    price_in: settings.PriceInSetting = 0.0
    price_out: settings.PriceOutSetting = 0.0
    embedder: options.EmbedderOption = None
    reranker: options.RerankerOption = defaults.RERANKER
    weights: settings.WeightsSetting = None
    utility: Annotated[
        str,
        typer.Option(
            help="Utility predictor of the methods that want one, as for --reranker.", show_default="the reranker"
        ),
    ] = defaults.RERANKER
    batch_size: Annotated[
        int, typer.Option(min=1, max=1024, help="Batch size: questions answered together; 1 times each question alone.")
    ] = 1
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder: every row is kept there, and nothing that it holds is computed again."),
    ] = None
    reuse: Annotated[
        list[Path] | None,
        typer.Option(metavar="RUN", help="With --out: another run folder whose rows are taken over; may be repeated."),
    ] = None
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORMAT", help="Form of the question sets.", show_default="what they look like"
        ),
    ] = None
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Stop at a row of a set that cannot be read, and at a method that lacks what it needs."
        ),
    ] = False
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only say what the run will cost, from five questions; no chat model is asked."),
    ] = False
    index_dir: options.SetIndexOption = None
    show_missed: Annotated[
        bool,
        typer.Option("--show-missed", help="Also print the questions that went wrong, and what was found instead."),
    ] = False
    to_json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the means to this file.")] = None
    to_csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the means to this file, as a table.")
    ] = None
    to_md: Annotated[
        Path | None, typer.Option("--md", metavar="FILE", help="Write the tables to this file, in Markdown.")
    ] = None
    html: options.HtmlOption = None

    @property
    def run_folder(self) -> Path | None:
        """Where rows are kept; None: in memory alone."""
        if self.out is not None or not self.answers:
            return self.out
        return None if self.to_json is None else self.to_json.with_suffix(".answers")


@options.with_options
def evaluate(
    sets: Annotated[
        list[Path],
        typer.Argument(
            metavar="SETS...",
            help="Question sets in any known form, folders of them, or CSV or JSONL files with questions and answers.",
            show_default=False,
        ),
    ],
    options: EvaluationOptions,
) -> None:
    """Evidence at budget: the share of the gold evidence, and of the answers, that the context of each strategy holds.

    With --answers also scores and costs of a model's answers: EM, F1, tokens, seconds. --out keeps every row in a folder: a run
    that was stopped goes on where it was, and `mergewise report` reads it. Beside the first file that is written stand the rows
    of all questions: rows.questions.jsonl and rows.questions.csv beside rows.json.
    """
    from mergewise.cli.evaluating import Evaluation

    Evaluation.of_options(sets, options).run()


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders, as eval --out writes them.")],
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one page that needs no network.")] = None,
    md: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the tables in Markdown.")] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the figures of all tables, one a line.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="DIR", help="Write each curve to a file in this folder.")] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD", help="Method that the others are compared with.", show_default="the run's, else the first"
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Tables of the papers to fill.", show_default="those of the run"),
    ] = None,
    metric: Annotated[
        str, typer.Option(metavar="NAME,...|all", help="Scores of the tables.", show_default="the main ones")
    ] = "",
) -> None:
    """Tables with tests, curves, costs and questions of one or more runs. Without a file named, the tables are printed.

    Bold is the best method and every one that is not worse than it; published numbers stand beside ours.
    """
    from mergewise.cli.report_output import say_lab_report, write_report_file
    from mergewise.evaluate.exports import csv_table, markdown, svg_files
    from mergewise.evaluate.lab import lab_report
    from mergewise.evaluate.measured import measured_runs
    from mergewise.evaluate.presets import presets_of
    from mergewise.evaluate.runs.folder import open_run
    from mergewise.page.evaluation import evaluation_page

    measured = measured_runs([open_run(folder) for folder in runs], reference)
    presets = presets_of(",".join(measured.tables) if table is None else table) if table or measured.tables else []
    found = lab_report(measured, presets, metric)
    for path, text in ((html, evaluation_page), (md, markdown), (csv, csv_table)):
        if path is not None:
            write_report_file(path, text(found))
    if svg is not None:
        for name, drawn in svg_files(found).items():
            write_report_file(svg / name, drawn)
    if not any((html, md, csv, svg)):
        say_lab_report(found)
