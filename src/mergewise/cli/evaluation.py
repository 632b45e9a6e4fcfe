"""`eval`: strategies side by side on question sets with gold evidence, and the scores of answers from their contexts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mergewise import defaults
from mergewise.cli import options
from mergewise.cli.output import say, say_aside, say_warning
from mergewise.cli.progress import characters, progress
from mergewise.errors import UsageError

if TYPE_CHECKING:
    from mergewise.engine import Index
    from mergewise.evaluate.answering import Asking
    from mergewise.evaluate.methods import Method
    from mergewise.evaluate.rows import AnswerMeans, EvaluationRow
    from mergewise.evaluate.run import Half
    from mergewise.evaluate.tasks import Task
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
    to_json: Annotated[Path | None, typer.Option("--json", help="Write the rows to this file.")] = None,
) -> None:
    """Evidence at budget: the share of the gold evidence, and of the answers, that the context of each strategy holds.

    With --answers also scores and costs of a model's answers: EM, F1, tokens, seconds.
    """
    import mergewise
    from mergewise.evaluate.answering import Asking
    from mergewise.evaluate.methods import methods_of, needed_views, strategy_methods
    from mergewise.evaluate.run import indexed_tasks
    from mergewise.models import load_chat, load_reranker

    _check_answer_options(answers, methods, mode)
    options.set_patience(timeout, retries)
    compared = strategy_methods(strategies, mode) if methods is None else methods_of(methods)
    views = needed_views(compared)
    if to_json is not None:
        # said now, not after hours
        _write(to_json, "", "a")
    sizes = _parse_budgets(budgets or (BUDGETS if methods is None else METHOD_BUDGET))
    judge = load_reranker(reranker)
    open_index = partial(
        mergewise.open,
        embedder=embedder,
        reranker=judge or defaults.RERANKER,
        chat=load_chat(chat, window) or defaults.CHAT,
        causal=causal,
        cache=cache,
        prompts=prompts,
    )
    rows = []
    with TemporaryDirectory(prefix="mergewise-eval-") as temporary:
        standing, folder = index_dir or options.DEFAULT_INDEX, index_dir or Path(temporary)
        pairs = indexed_tasks(bench, standing, folder, views, open_index, partial(progress, amount=characters))
        asking = None
        if answers:
            asking = Asking(max_tokens, together, judge, load_reranker(utility), keep or _answers_beside(to_json))
        say(HEAD if asking is None else ANSWERS_HEAD)
        for index, task in pairs:
            with progress("Evaluating") as advance:
                for row in _rows(index, task, compared, sizes, half, limit, asking, advance):
                    rows.append(row.as_dict())
                    _say_row(row)
    if to_json is not None:
        _write(to_json, json.dumps(rows, indent=1) + "\n", "w")


def _check_answer_options(answers: bool, methods: str | None, mode: str | None) -> None:
    if not answers and (methods is not None or mode is not None):
        raise UsageError(f"--{'mode' if methods is None else 'methods'} goes with --answers", "add --answers")
    if methods is not None and mode is not None:
        raise UsageError("methods have their modes", "leave out --mode, or name --strategies")


def _write(path: Path, text: str, mode: Literal["a", "w"]) -> None:
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", "name a file in a folder that exists") from None


def _answers_beside(to_json: Path | None) -> Path | None:
    """The directory that keeps answers by default."""
    if to_json is None:
        say_aside("The answers are not kept: name a folder for them (--keep), or a file for the rows (--json).")
        return None
    return to_json.with_suffix(".answers")


def _rows(
    index: Index,
    task: Task,
    methods: Sequence[Method],
    budgets: Sequence[int],
    half: Half,
    limit: int | None,
    asking: Asking | None,
    advance: Progress,
) -> Iterator[EvaluationRow]:
    """A row for each method and budget, of contexts alone without `asking`. Names some of the questions that failed."""
    from mergewise.evaluate import run
    from mergewise.evaluate.answering import Answering, evaluate_answers

    if asking is None:
        yield from run.evaluate(index, task, [method.strategy for method in methods], budgets, half, limit, advance)
        return
    questions = run.chosen_questions(task, half, limit)
    for row, failures in evaluate_answers(Answering(index, task, asking), methods, budgets, questions, advance):
        for question, error in list(failures.items())[:WARNED]:
            say_warning(f"{row.strategy}, question {question}: {error}")
        yield row


HEAD = f"{'dataset':16} {'strategy':28} {'B':>5} {'answer':>7} {'evidence':>9} {'all':>6} {'density':>8} {'tokens':>7} {'ms':>6}"
ANSWERS_HEAD = (
    f"{'dataset':16} {'strategy':20} {'B':>5} {'EM':>6} {'95 %':>13} {'F1':>6} {'95 %':>13} {'relaxed':>8} {'95 %':>13} "
    f"{'accuracy':>9} {'in':>7} {'out':>6} {'seconds':>8}"
)


def _say_row(row: EvaluationRow) -> None:
    if row.answers is not None:
        _say_answer_row(row, row.answers)
        return
    evidence, whole = ("-" if share is None else f"{share:.3f}" for share in (row.evidence, row.all))
    say(
        f"{row.dataset:16} {row.strategy:28} {row.budget:5} {row.answer:7.3f} {evidence:>9} "
        f"{whole:>6} {row.density:8.3f} {row.tokens:7.1f} {row.query_ms:6.1f}"
    )


def _say_answer_row(row: EvaluationRow, means: AnswerMeans) -> None:
    say(
        f"{row.dataset:16} {row.strategy:20} {row.budget:5} {means.em:6.3f} {_interval(means.em_interval)} {means.f1:6.3f} "
        f"{_interval(means.f1_interval)} {means.relaxed_em:8.3f} {_interval(means.relaxed_em_interval)} {means.accuracy:9.3f} "
        f"{means.input_tokens:7.1f} {means.output_tokens:6.1f} {means.seconds:8.2f}"
    )
    if means.failed:
        say_warning(
            f"{means.failed} of {means.questions} questions failed; they count as wrong, and are asked again next time"
        )


def _interval(bounds: tuple[float, float]) -> str:
    return f"[{bounds[0]:.3f} {bounds[1]:.3f}]"


def _parse_budgets(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{text!r} is not a list of budgets", "write numbers: 128,384,640") from None
