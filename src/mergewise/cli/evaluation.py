"""`eval`: strategies side by side on question sets with gold evidence."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from mergewise.cli.options import RERANKER, STRATEGY, EmbedderOption, RerankerOption
from mergewise.cli.output import progress, say
from mergewise.cli.progress import working
from mergewise.errors import UsageError
from mergewise.jsonable import row_json


def evaluate(
    bench: Annotated[Path, typer.Argument(metavar="BENCH_DIR", help="A question set, or a folder of them.")],
    strategies: Annotated[str, typer.Option(help="Strategies, separated by commas.")] = f"topk,{STRATEGY}",
    budgets: Annotated[str, typer.Option(help="Budgets in tokens, separated by commas.")] = "128,384,640",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.")] = None,
    half: Annotated[str, typer.Option(help="first (for tuning), second (for reporting) or all.")] = "all",
    embedder: EmbedderOption = None,
    reranker: RerankerOption = RERANKER,
    index_dir: Annotated[
        Path | None,
        typer.Option("--index", help="Keep the indexes in this folder, one a set, and use them again."),
    ] = None,
    to_json: Annotated[Path | None, typer.Option("--json", help="Write the rows to this file.")] = None,
) -> None:
    """Evidence at budget: what share of the gold evidence each strategy's context holds."""
    import mergewise
    from mergewise.assemble import resolve, split_specs
    from mergewise.evaluate import run, tasks
    from mergewise.models import load_reranker

    specs = split_specs(strategies)
    views = list(dict.fromkeys(view for spec in specs for view in ("leaf", *resolve(spec)[0].views)))
    if half not in ("first", "second", "all"):
        raise UsageError(f"unknown half {half!r}", "one of: first, second, all")
    sizes = _numbers(budgets)
    model = load_reranker(reranker)
    rows = []
    say(
        f"{'dataset':16} {'strategy':28} {'B':>5} {'answer':>7} {'evidence':>9} "
        f"{'all':>6} {'density':>8} {'tokens':>7} {'ms':>6}"
    )
    with ExitStack() as stack:
        folder = index_dir or Path(stack.enter_context(TemporaryDirectory(prefix="mergewise-eval-")))
        for path in tasks.find_tasks(bench):
            task = tasks.load_task(path)
            with working(f"Indexing {task.name}") as advance:
                opened = mergewise.open(
                    folder / task.name, views=views, embedder=embedder, reranker=model or RERANKER, progress=advance
                )
                opened.add(task.documents, progress=advance)
            with progress("Evaluating") as advance:
                for row in run.evaluate(opened, task, specs, sizes, half, limit, advance):  # type: ignore[arg-type]
                    rows.append(row_json(row))
                    say(
                        f"{row.dataset:16} {row.strategy:28} {row.budget:5} {row.answer:7.3f} {row.evidence:9.3f} "
                        f"{row.all:6.3f} {row.density:8.3f} {row.tokens:7.1f} {row.query_ms:6.1f}"
                    )
    if to_json is not None:
        to_json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{text!r} is not a list of budgets", "write numbers: 128,384,640") from None
