"""`eval`: strategies side by side on question sets with gold evidence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from mergewise.cli.options import DEFAULT_INDEX, RERANKER, STRATEGY, EmbedderOption, RerankerOption, StrategiesOption
from mergewise.cli.output import progress, say
from mergewise.cli.progress import working
from mergewise.errors import UsageError
from mergewise.jsonable import row_json

if TYPE_CHECKING:
    from mergewise.engine import Index
    from mergewise.evaluate.tasks import Task
    from mergewise.protocols import Reranker
    from mergewise.types import EvaluationRow


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
        str, typer.Option("--budgets", "-b", help="Budgets in tokens, separated by commas.")
    ] = "128,384,640",
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Only the first N questions.")] = None,
    half: Annotated[str, typer.Option(help="first (for tuning), second (for reporting) or all.")] = "all",
    embedder: EmbedderOption = None,
    reranker: RerankerOption = RERANKER,
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
    """Evidence at budget: what share of the gold evidence, or of the answers, each strategy's context holds."""
    from mergewise.assemble import resolve, split_specs
    from mergewise.evaluate import run
    from mergewise.models import load_reranker

    specs = split_specs(strategies)
    views = list(dict.fromkeys(view for spec in specs for view in ("leaf", *resolve(spec)[0].views)))
    if half not in ("first", "second", "all"):
        raise UsageError(f"unknown half {half!r}", "one of: first, second, all")
    sizes = _numbers(budgets)
    model = load_reranker(reranker)
    rows = []
    with ExitStack() as stack:
        if bench.is_file():
            asked: Iterable[tuple[Index, Task]] = [_with_table(bench, index_dir or DEFAULT_INDEX, embedder, model)]
        else:
            folder = index_dir or Path(stack.enter_context(TemporaryDirectory(prefix="mergewise-eval-")))
            asked = _with_tasks(bench, folder, views, embedder, model)
        say(
            f"{'dataset':16} {'strategy':28} {'B':>5} {'answer':>7} {'evidence':>9} "
            f"{'all':>6} {'density':>8} {'tokens':>7} {'ms':>6}"
        )
        for opened, task in asked:
            with progress("Evaluating") as advance:
                for row in run.evaluate(opened, task, specs, sizes, half, limit, advance):  # type: ignore[arg-type]
                    rows.append(row_json(row))
                    _say_row(row)
    if to_json is not None:
        to_json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _with_tasks(
    bench: Path, folder: Path, views: Sequence[str], embedder: str | None, reranker: Reranker | None
) -> Iterator[tuple[Index, Task]]:
    """The question sets, each with an index of its documents."""
    import mergewise
    from mergewise.evaluate import tasks

    for path in tasks.find_tasks(bench):
        task = tasks.load_task(path)
        with working(f"Indexing {task.name}") as advance:
            opened = mergewise.open(
                folder / task.name, views=views, embedder=embedder, reranker=reranker or RERANKER, progress=advance
            )
            opened.add(task.documents, progress=advance)
        yield opened, task


def _with_table(file: Path, index_dir: Path, embedder: str | None, reranker: Reranker | None) -> tuple[Index, Task]:
    """Questions of one's own, asked of an index that stands."""
    import mergewise
    from mergewise.evaluate.tables import load_table

    task = load_table(file)
    return mergewise.open(index_dir, embedder=embedder, reranker=reranker or RERANKER, create=False), task


def _say_row(row: EvaluationRow) -> None:
    evidence, whole = ("-" if share is None else f"{share:.3f}" for share in (row.evidence, row.all))
    say(
        f"{row.dataset:16} {row.strategy:28} {row.budget:5} {row.answer:7.3f} {evidence:>9} "
        f"{whole:>6} {row.density:8.3f} {row.tokens:7.1f} {row.query_ms:6.1f}"
    )


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{text!r} is not a list of budgets", "write numbers: 128,384,640") from None
