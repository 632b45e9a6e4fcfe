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
from mergewise.cli.settings import Setting
from mergewise.ranges import OUTPUT, Range

BUDGETS = "128,384,640"
METHOD_BUDGET = "4096"
"""Ample: the passages of a method settle how many tokens it takes."""

CausalSetting = Annotated[str, Setting("Causal model of the modes that need one, as for `ask --causal`")]
SearchSetting = Annotated[str | None, Setting("How full text and vectors become one ranking, as for `ask --search`")]
MaxTokensSetting = Annotated[int, Setting("Maximum tokens that a model writes in one call", OUTPUT)]
PromptsSetting = Annotated[Path | None, Setting("Directory of prompts of your own")]
RaySetting = Annotated[
    str | None,
    Setting("With --out: workers on a Ray cluster (extra ray): local, auto or HOST:PORT; nodes share the folders"),
]
SampleSetting = Annotated[
    int | None, Setting("Only so many questions of each set, drawn at random", Range(1, 1_000_000_000))
]
SeedSetting = Annotated[int, Setting("Seed of the sample", Range(0, 1 << 63))]
ShardSetting = Annotated[
    str | None, Setting("With --out: I/N computes every N-th question alone; a run without it does the rest")
]
ReferenceSetting = Annotated[str | None, Setting("Method that the others are compared with; the first without it")]
RepeatsSetting = Annotated[
    int | None,
    Setting("Times that a chat model which draws its answers is asked: 1, or those of the table", Range(1, 1000)),
]
TemperatureSetting = Annotated[float | None, Setting("Temperature of the chat model: 0", Range(0, 2))]
UtilitySetting = Annotated[
    str, Setting("Utility predictor of the methods that want one, as for --reranker; the reranker without it")
]
BatchSizeSetting = Annotated[
    int, Setting("Batch size: questions answered together; 1 times each question alone", Range(1, 1024))
]
ReuseSetting = Annotated[
    str | None, Setting("With --out: other run folders whose rows are taken over, separated by commas")
]
StrictSetting = Annotated[bool, Setting("Stop at an invalid row of a set, and at a method that lacks what it needs")]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationOptions:
    """The methods, the questions, the models and the files of an evaluation."""

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
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="With --out: so many processes compute at the same time.")
    ] = 1
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
    mode: options.ModeOption = None
    chat: options.ChatOption = defaults.CHAT
    embedder: options.EmbedderOption = None
    reranker: options.RerankerOption = defaults.RERANKER
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder: every row is kept there, and nothing that it holds is computed again."),
    ] = None
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORMAT", help="Form of the question sets.", show_default="what they look like"
        ),
    ] = None
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
    reports: Annotated[
        list[Path] | None,
        typer.Option(
            "--report",
            "--html",
            "--md",
            metavar="FILE",
            help="Write the report to this file: Markdown for .md, else a page; may be repeated.",
        ),
    ] = None
    sample: SampleSetting = None
    seed: SeedSetting = 0
    shard: ShardSetting = None
    ray: RaySetting = None
    gpus_per_worker: settings.GPUsSetting = 0.0
    reference: ReferenceSetting = None
    causal: CausalSetting = defaults.CAUSAL
    search: SearchSetting = None
    window: settings.WindowSetting = None
    max_tokens: MaxTokensSetting = defaults.MAX_TOKENS
    repeats: RepeatsSetting = None
    temperature: TemperatureSetting = None
    cache: settings.CacheSetting = None
    prompts: PromptsSetting = None
    timeout: settings.TimeoutSetting = None
    retries: settings.RetriesSetting = None
    price_in: settings.PriceInSetting = 0.0
    price_out: settings.PriceOutSetting = 0.0
    weights: settings.WeightsSetting = None
    utility: UtilitySetting = defaults.RERANKER
    batch_size: BatchSizeSetting = 1
    reuse: ReuseSetting = None
    strict: StrictSetting = False

    @property
    def reused_runs(self) -> list[Path]:
        """The run folders whose rows are taken over."""
        return [Path(name.strip()) for name in (self.reuse or "").split(",") if name.strip()]

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
    from mergewise.cli.evaluation_runner import Evaluation

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
    from mergewise.cli.reports import say_report, write_report_file
    from mergewise.evaluate.exports import csv_table, markdown, svg_files
    from mergewise.evaluate.measured import measured_runs
    from mergewise.evaluate.presets import presets_of
    from mergewise.evaluate.report import evaluation_report
    from mergewise.evaluate.runs.folder import open_run
    from mergewise.page import evaluation_page

    measured = measured_runs([open_run(folder) for folder in runs], reference)
    presets = presets_of(",".join(measured.tables) if table is None else table) if table or measured.tables else []
    found = evaluation_report(measured, presets, metric)
    for path, text in ((html, evaluation_page), (md, markdown), (csv, csv_table)):
        if path is not None:
            write_report_file(path, text(found))
    if svg is not None:
        for name, drawn in svg_files(found).items():
            write_report_file(svg / name, drawn)
    if not any((html, md, csv, svg)):
        say_report(found)
