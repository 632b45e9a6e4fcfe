"""`eval`: strategies side by side on question sets with gold evidence, and what a model answers by them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mergewise.cli.options import (
    CAUSAL,
    CHAT,
    DEFAULT_INDEX,
    MAX_TOKENS,
    RERANKER,
    STRATEGY,
    CacheOption,
    CausalOption,
    ChatOption,
    EmbedderOption,
    MaxTokensOption,
    ModeOption,
    RerankerOption,
    StrategiesOption,
    WindowOption,
)
from mergewise.cli.output import progress, say, say_aside, say_warning
from mergewise.cli.progress import working
from mergewise.errors import UsageError
from mergewise.jsonable import row_json

if TYPE_CHECKING:
    from mergewise.engine import Index
    from mergewise.evaluate.methods import Method
    from mergewise.evaluate.tasks import Question, Task
    from mergewise.types import AnswerMeans, EvaluationRow

BUDGETS = "128,384,640"
AMPLE = "4096"  # what a method takes is settled by its passages


def evaluate(
    bench: Annotated[
        Path,
        typer.Argument(
            metavar="BENCH_DIR|QUESTIONS",
            help="A question set, a folder of them, or a CSV or JSONL file with questions and answers.",
        ),
    ],
    strategies: StrategiesOption = f"topk,{STRATEGY}",
    budgets: Annotated[
        str | None,
        typer.Option(
            "--budgets",
            "-b",
            help=f"Budgets in tokens, separated by commas. [default: {BUDGETS}; {AMPLE} with --methods]",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Only the first N questions.")] = None,
    half: Annotated[str, typer.Option(help="first (for tuning), second (for reporting) or all.")] = "all",
    answers: Annotated[
        bool, typer.Option("--answers", "-a", help="Also let the questions be answered, and score the answers.")
    ] = False,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Instead of strategies, methods that AED-RAG is compared with, by name or table: table-1, table-2, beta, "
            "naive, rag-5 ... Goes with --answers."
        ),
    ] = None,
    mode: ModeOption = None,
    chat: ChatOption = CHAT,
    causal: CausalOption = CAUSAL,
    window: WindowOption = None,
    max_tokens: MaxTokensOption = MAX_TOKENS,
    cache: CacheOption = None,
    embedder: EmbedderOption = None,
    reranker: RerankerOption = RERANKER,
    utility: Annotated[
        str,
        typer.Option(
            help="What predicts utilities for the methods that want a trained predictor, as --reranker names it. [default: the "
            "reranker]"
        ),
    ] = RERANKER,
    together: Annotated[
        int, typer.Option(min=1, max=1024, help="Questions that are answered at a time; 1 tells the seconds of each.")
    ] = 1,
    keep: Annotated[
        Path | None,
        typer.Option(
            help="Keep the answers in this folder, and ask what it has no more. [default: beside the file of --json]"
        ),
    ] = None,
    index_dir: Annotated[
        Path | None,
        typer.Option(
            "--index",
            "-i",
            help="For question sets, keep their indexes in this folder and use them again. For a file of questions, the "
            "index that is asked. [default: mergewise.index]",
        ),
    ] = None,
    to_json: Annotated[Path | None, typer.Option("--json", help="Write the rows to this file.")] = None,
) -> None:
    """Evidence at budget: what share of the gold evidence, or of the answers, each strategy's context holds.

    With --answers also what a model makes of the contexts: EM, F1, tokens, seconds.
    """
    from mergewise.designs.specs import split_specs
    from mergewise.designs.strategies import resolve
    from mergewise.evaluate import run
    from mergewise.models import load_chat, load_reranker

    asked = _asked(strategies, methods, mode, answers)
    specs = split_specs(strategies) if methods is None else []
    views = [view for spec in specs for view in resolve(spec)[0].views]
    views += [view for one in asked for view in (*resolve(one.strategy)[0].views, *one.views)]
    if half not in ("first", "second", "all"):
        raise UsageError(f"unknown half {half!r}", "one of: first, second, all")
    sizes = _numbers(budgets or (BUDGETS if methods is None else AMPLE))
    judge = load_reranker(reranker)
    models = _Models(embedder, judge or RERANKER, load_chat(chat, window) or CHAT, causal, cache)
    rows = []
    with ExitStack() as stack:
        if bench.is_file():
            sets: Iterable[tuple[Index, Task]] = [_with_table(bench, index_dir or DEFAULT_INDEX, models)]
        else:
            folder = index_dir or Path(stack.enter_context(TemporaryDirectory(prefix="mergewise-eval-")))
            sets = _with_tasks(bench, folder, list(dict.fromkeys(("leaf", *views))), models)
        scored = None
        if asked:
            scored = _Scored(asked, sizes, max_tokens, together, keep or _beside(to_json), load_reranker(utility))
        say(ANSWERS_HEAD if scored else HEAD)
        for opened, task in sets:
            with progress("Evaluating") as advance:
                if scored is not None:
                    questions = run.chosen_questions(task, half, limit)  # type: ignore[arg-type]
                    found = scored.rows(opened, task, questions, judge, advance)
                else:
                    found = run.evaluate(opened, task, specs, sizes, half, limit, advance)  # type: ignore[arg-type]
                for row in found:
                    rows.append(row_json(row))
                    _say_row(row)
    if to_json is not None:
        to_json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _asked(strategies: str, methods: str | None, mode: str | None, answers: bool) -> list[Method]:
    """What is to answer; nothing without --answers."""
    from mergewise.designs.specs import split_specs
    from mergewise.evaluate.methods import Method, methods_of

    if not answers:
        if methods is not None or mode is not None:
            raise UsageError(f"--{'mode' if methods is None else 'methods'} goes with --answers", "add --answers")
        return []
    if methods is None:
        return [Method(spec, spec, mode) for spec in split_specs(strategies)]
    if mode is not None:
        raise UsageError("methods have their modes", "leave out --mode, or name --strategies")
    return methods_of(methods)


def _beside(to_json: Path | None) -> Path | None:
    """Where answers are kept by default."""
    if to_json is None:
        say_aside("The answers are not kept: name a folder for them (--keep), or a file for the rows (--json).")
        return None
    return to_json.with_suffix(".answers")


@dataclass(frozen=True, slots=True)
class _Models:
    """What the indexes are opened with."""

    embedder: str | None
    reranker: Any
    chat: Any
    causal: str
    cache: Path | None

    def open(self, path: Path, **options: Any) -> Index:
        import mergewise

        return mergewise.open(
            path,
            embedder=self.embedder,
            reranker=self.reranker,
            chat=self.chat,
            causal=self.causal,
            cache=self.cache,
            **options,
        )


@dataclass(frozen=True, slots=True)
class _Scored:
    """Answers as they are asked for."""

    methods: Sequence[Method]
    budgets: Sequence[int]
    max_tokens: int
    together: int
    directory: Path | None
    utility: Any

    def rows(
        self, index: Index, task: Task, questions: Sequence[Question], reranker: Any, advance: Any
    ) -> Iterator[EvaluationRow]:
        from mergewise.evaluate.answering import Answering, Asking, evaluate_answers

        asking = Asking(self.max_tokens, self.together, reranker, self.utility, self.directory)
        answering = Answering(index, task, asking)
        for row, failures in evaluate_answers(answering, self.methods, self.budgets, questions, advance):
            for question, error in list(failures.items())[:3]:
                say_warning(f"{row.strategy}, question {question}: {error}")
            yield row


def _with_tasks(bench: Path, folder: Path, views: Sequence[str], models: _Models) -> Iterator[tuple[Index, Task]]:
    """The question sets, each with an index of its documents."""
    from mergewise.evaluate import tasks

    for path in tasks.find_tasks(bench):
        task = tasks.load_task(path)
        with working(f"Indexing {task.name}") as advance:
            opened = models.open(folder / task.name, views=views, progress=advance)
            opened.add(task.documents, progress=advance)
        yield opened, task


def _with_table(file: Path, index_dir: Path, models: _Models) -> tuple[Index, Task]:
    """Questions of one's own, asked of an index that stands."""
    from mergewise.evaluate.tables import load_table

    return models.open(index_dir, create=False), load_table(file)


HEAD = f"{'dataset':16} {'strategy':28} {'B':>5} {'answer':>7} {'evidence':>9} {'all':>6} {'density':>8} {'tokens':>7} {'ms':>6}"
ANSWERS_HEAD = (
    f"{'dataset':16} {'strategy':20} {'B':>5} {'EM':>6} {'95 %':>13} {'F1':>6} {'95 %':>13} {'relaxed':>8} {'95 %':>13} "
    f"{'accuracy':>9} {'in':>7} {'out':>6} {'seconds':>8}"
)


def _say_row(row: EvaluationRow) -> None:
    if row.answers is not None:
        _say_answers(row, row.answers)
        return
    evidence, whole = ("-" if share is None else f"{share:.3f}" for share in (row.evidence, row.all))
    say(
        f"{row.dataset:16} {row.strategy:28} {row.budget:5} {row.answer:7.3f} {evidence:>9} "
        f"{whole:>6} {row.density:8.3f} {row.tokens:7.1f} {row.query_ms:6.1f}"
    )


def _say_answers(row: EvaluationRow, means: AnswerMeans) -> None:
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


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{text!r} is not a list of budgets", "write numbers: 128,384,640") from None
