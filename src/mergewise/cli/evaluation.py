"""`eval`: strategies side by side on question sets with gold evidence, and the scores of answers from their contexts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from mergewise import defaults
from mergewise.cli import options
from mergewise.cli.configuration import open_permitted
from mergewise.cli.output import say, say_aside, say_warning
from mergewise.cli.progress import characters, progress
from mergewise.errors import UsageError

if TYPE_CHECKING:
    from mergewise.engine import Index
    from mergewise.evaluate.answering import Asking
    from mergewise.evaluate.methods import Method
    from mergewise.evaluate.rows import EvaluationRow, QuestionRow
    from mergewise.evaluate.tasks import Question, Task
    from mergewise.page.evaluation import EvaluationReport, ReportColumn
    from mergewise.store.views import Progress

BUDGETS = "128,384,640"
METHOD_BUDGET = "4096"
"""Ample: the passages of a method settle how many tokens it takes."""
WARNED = 3
"""Questions without an answer that are named for each row."""


def evaluate(
    bench: Annotated[
        Path,
        typer.Argument(
            metavar="BENCH_DIR|QUESTIONS",
            help="A question set, a folder of them, or a CSV or JSONL file with questions and answers.",
        ),
    ],
    strategies: options.StrategiesOption = f"topk,{defaults.STRATEGY}",
    budgets: Annotated[
        str | None,
        typer.Option(
            "--budgets",
            "-b",
            help="Budgets in tokens, separated by commas.",
            show_default=f"{BUDGETS}; {METHOD_BUDGET} with --methods",
        ),
    ] = None,
    limit: options.LimitOption = None,
    half: options.HalfOption = "all",
    answers: Annotated[
        bool, typer.Option("--answers", "-a", help="Also answer the questions and score the answers.")
    ] = False,
    methods: Annotated[
        str | None,
        typer.Option(
            help="With --answers: instead of strategies, methods of the AED-RAG paper, by name or table, separated by commas: "
            "{methods}."
        ),
    ] = None,
    mode: options.ModeOption = None,
    chat: options.ChatOption = defaults.CHAT,
    causal: options.CausalOption = defaults.CAUSAL,
    window: options.WindowOption = None,
    max_tokens: options.MaxTokensOption = defaults.MAX_TOKENS,
    cache: options.CacheOption = None,
    prompts: options.PromptsOption = None,
    timeout: options.TimeoutOption = None,
    retries: options.RetriesOption = None,
    embedder: options.EmbedderOption = None,
    reranker: options.RerankerOption = defaults.RERANKER,
    utility: Annotated[
        str,
        typer.Option(
            help="Utility predictor of the methods that want one, as for --reranker.", show_default="the reranker"
        ),
    ] = defaults.RERANKER,
    together: Annotated[
        int, typer.Option(min=1, max=1024, help="Batch size: questions answered together; 1 times each question alone.")
    ] = 1,
    keep: Annotated[
        Path | None,
        typer.Option(
            help="Directory that keeps the answers; questions answered there are not asked again.",
            show_default="beside the file of --json",
        ),
    ] = None,
    index_dir: options.SetIndexOption = None,
    show_missed: Annotated[
        bool,
        typer.Option("--show-missed", help="Also print the questions that went wrong, and what was found instead."),
    ] = False,
    to_json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the means to this file.")
    ] = None,
    to_csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the means to this file, as a table.")
    ] = None,
    to_md: Annotated[
        Path | None, typer.Option("--md", metavar="FILE", help="Write the tables to this file, in Markdown.")
    ] = None,
    html: options.HtmlOption = None,
) -> None:
    """Evidence at budget: the share of the gold evidence, and of the answers, that the context of each strategy holds.

    With --answers also scores and costs of a model's answers: EM, F1, tokens, seconds. Beside the first file that is written
    stand the rows of all questions: rows.questions.jsonl and rows.questions.csv beside rows.json.
    """
    from mergewise.cli.reports import EvaluationFiles, say_columns, say_differences, say_missed, say_table
    from mergewise.evaluate.answering import Asking
    from mergewise.evaluate.methods import methods_of, needed_views, strategy_methods
    from mergewise.evaluate.report import ANSWER_COLUMNS, CONTEXT_COLUMNS, facts, set_report
    from mergewise.evaluate.run import chosen_questions, indexed_tasks
    from mergewise.models import load_chat, load_reranker

    _check_answer_options(answers, methods, mode)
    options.set_patience(timeout, retries)
    compared = strategy_methods(strategies, mode) if methods is None else methods_of(methods)
    views = needed_views(compared)
    files = EvaluationFiles(to_json, to_csv, to_md, html)
    # said now, not after hours
    files.check()
    sizes = _parse_budgets(budgets or (BUDGETS if methods is None else METHOD_BUDGET))
    judge = load_reranker(reranker)
    open_index = partial(
        open_permitted,
        embedder=embedder,
        reranker=judge or defaults.RERANKER,
        chat=load_chat(chat, window) or defaults.CHAT,
        causal=causal,
        cache=cache,
        prompts=prompts,
    )
    with TemporaryDirectory(prefix="mergewise-eval-") as temporary:
        standing, folder = index_dir or options.DEFAULT_INDEX, index_dir or Path(temporary)
        pairs = indexed_tasks(bench, standing, folder, views, open_index, partial(progress, amount=characters))
        asking = None
        if answers:
            asking = Asking(max_tokens, together, judge, load_reranker(utility), keep or _answers_beside(to_json))
        reports: list[EvaluationReport] = []
        means: list[EvaluationRow] = []
        rows: list[QuestionRow] = []
        for index, task in pairs:
            questions = chosen_questions(task, half, limit)
            say(("" if not reports else "\n") + f"{task.name}: {facts(questions)}", style="bold")
            with progress("Evaluating") as advance:
                groups = _groups(index, task, compared, sizes, questions, asking, advance)
                known = _say_rows(groups, ANSWER_COLUMNS if answers else CONTEXT_COLUMNS)
            report = set_report([own for _, own in known], [mean for mean, _ in known])
            reports.append(report)
            for mean, own in known:
                means.append(mean)
                rows += own
            # after each set, so that a kill costs the set under way alone
            files.write(means, rows)
            for table in report.tables[1:]:
                say_table(table)
            if len(reports) == 1:
                say_columns([column for table in report.tables for column in table.columns])
            say_differences(report)
            if show_missed:
                say_missed(report)
    files.say_rows()


def _check_answer_options(answers: bool, methods: str | None, mode: str | None) -> None:
    if not answers and (methods is not None or mode is not None):
        raise UsageError(f"--{'mode' if methods is None else 'methods'} goes with --answers", "add --answers")
    if methods is not None and mode is not None:
        raise UsageError("methods have their modes", "leave out --mode, or name --strategies")


def _answers_beside(to_json: Path | None) -> Path | None:
    """The directory that keeps answers by default."""
    if to_json is None:
        say_aside("The answers are not kept: name a folder for them (--keep), or a file for the rows (--json).")
        return None
    return to_json.with_suffix(".answers")


def _groups(
    index: Index,
    task: Task,
    methods: Sequence[Method],
    budgets: Sequence[int],
    questions: Sequence[Question],
    asking: Asking | None,
    advance: Progress,
) -> Iterator[list[QuestionRow]]:
    """For each method and budget the rows of all questions, of contexts alone without `asking`."""
    from mergewise.evaluate.answering import Answering, evaluate_answers
    from mergewise.evaluate.run import question_rows

    if asking is None:
        strategies = [method.strategy for method in methods]
        return question_rows(index, task, strategies, budgets, questions, advance)
    return evaluate_answers(Answering(index, task, asking), methods, budgets, questions, advance)


def _say_rows(
    groups: Iterable[list[QuestionRow]], columns: Mapping[str, ReportColumn]
) -> list[tuple[EvaluationRow, list[QuestionRow]]]:
    """The rows with their means, which are said as soon as they are known. Names some of the questions that failed."""
    from mergewise.cli.reports import say_line, say_table_head
    from mergewise.evaluate.report import report_line
    from mergewise.evaluate.rows import mean_row

    known = []
    say_table_head(tuple(columns.values()))
    for rows in groups:
        failed = [row for row in rows if row.error]
        for row in failed[:WARNED]:
            say_warning(f"{row.strategy}, question {row.question.id}: {row.error}")
        mean = mean_row(rows)
        say_line(report_line(mean, tuple(columns)), tuple(columns.values()))
        if failed:
            say_warning(
                f"{len(failed)} of {len(rows)} questions failed; they count as wrong, and are asked again next time"
            )
        known.append((mean, rows))
    return known


def _parse_budgets(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{text!r} is not a list of budgets", "write numbers: 128,384,640") from None
