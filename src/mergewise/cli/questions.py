"""Commands that ask: `ask`, `context`, `compare`."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from mergewise.cli.options import (
    BUDGET,
    DEFAULT_INDEX,
    STRATEGY,
    BudgetOption,
    IndexOption,
    JsonOption,
    StrategyOption,
    TokenizerOption,
    WhereOption,
)
from mergewise.cli.output import citation_json, citation_line, console, context_json, say, say_json
from mergewise.errors import UsageError
from mergewise.types import Answer, Context

if TYPE_CHECKING:
    from mergewise.engine import Index

TRACED_SKIPS = 3

QuestionArgument = Annotated[str, typer.Argument(help="The question, in quotes.", show_default=False)]
ChatOption = Annotated[
    str, typer.Option(envvar="MERGEWISE_CHAT", help="Who answers: extractive (sentences of the context, verbatim).")
]


def ask(
    question: QuestionArgument,
    index_dir: IndexOption = DEFAULT_INDEX,
    strategy: StrategyOption = STRATEGY,
    budget: BudgetOption = BUDGET,
    where: WhereOption = None,
    chat: ChatOption = "extractive",
    tokenizer: TokenizerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer with quoted, cited sentences."""
    if chat != "extractive":
        raise UsageError(f"unknown chat model {chat!r}", "one of: extractive")
    answer = _open(index_dir, tokenizer).ask(question, strategy=strategy, budget=budget, where=where)
    if as_json:
        say_json(
            {
                "question": question,
                "answer": answer.text,
                "found": answer.found,
                "citations": [citation_json(citation) for citation in answer.citations],
                "context": context_json(answer.context),
            }
        )
    else:
        say_answer(answer)


def say_answer(answer: Answer) -> None:
    say(answer.text, style="bold" if answer.found else "yellow")
    if answer.citations:
        say()
    for citation in answer.citations:
        say(citation_line(citation), style="dim")


def context(
    question: QuestionArgument,
    index_dir: IndexOption = DEFAULT_INDEX,
    strategy: StrategyOption = STRATEGY,
    budget: BudgetOption = BUDGET,
    where: WhereOption = None,
    tokenizer: TokenizerOption = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show what was merged, joined and left out, and why.")] = False,
    as_json: JsonOption = False,
) -> None:
    """The context that a model would be given."""
    assembled = _open(index_dir, tokenizer).context(question, strategy=strategy, budget=budget, where=where)
    if as_json:
        say_json(context_json(assembled))
        return
    say(assembled.text)
    if trace:
        say_trace(assembled)
    summary = f"{assembled.tokens} of {budget} tokens, {len(assembled.passages)} passages, {assembled.strategy}"
    console(stderr=True).print(summary, style="dim", markup=False)


def say_trace(assembled: Context) -> None:
    """One line a step; of the many candidates that did not fit only the first."""
    say()
    skipped = [step for step in assembled.trace if step.action == "skip"]
    for step in assembled.trace:
        if step in skipped[TRACED_SKIPS:]:
            continue
        inputs = [f"{s.doc_id}:{s.start}-{s.end}" for s in step.inputs]
        shown = ", ".join(inputs[:4]) + (f" and {len(inputs) - 4} more" if len(inputs) > 4 else "")
        output = f" → {step.output.doc_id}:{step.output.start}-{step.output.end}" if step.output else ""
        score = f"  score {step.score:.3f}" if step.score is not None else ""
        say(f"{step.action}: {step.reason}{score}\n    {shown}{output}", style="dim")
    if len(skipped) > TRACED_SKIPS:
        say(f"skip: {len(skipped) - TRACED_SKIPS} more did not fit", style="dim")


def compare(
    question: QuestionArgument,
    strategies: Annotated[str, typer.Option(help="Strategies, separated by commas.")] = "topk,dos,auto-merge",
    index_dir: IndexOption = DEFAULT_INDEX,
    budget: BudgetOption = BUDGET,
    where: WhereOption = None,
    tokenizer: TokenizerOption = None,
    as_json: JsonOption = False,
) -> None:
    """The contexts of several strategies, side by side."""
    from mergewise.assemble import split_specs

    opened = _open(index_dir, tokenizer)
    contexts: list[tuple[Context, float]] = []
    opened.context(question, strategy="topk", budget=1, where=where)  # so that no strategy pays for loading the model
    for spec in split_specs(strategies):
        started = perf_counter()
        contexts.append((opened.context(question, strategy=spec, budget=budget, where=where), perf_counter() - started))
    if as_json:
        say_json([{**context_json(found), "ms": round(1000 * seconds, 1)} for found, seconds in contexts])
        return
    _say_table(contexts)


def _say_table(contexts: list[tuple[Context, float]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_lines=True, expand=True)
    for found, seconds in contexts:
        table.add_column(
            f"{found.strategy}\n{found.tokens} tokens, {len(found.passages)} passages, {1000 * seconds:.0f} ms",
            ratio=1,
            overflow="fold",
        )
    table.add_row(*(Text(found.text) for found, _ in contexts))
    console().print(table)


def _open(index_dir: Path, tokenizer: Path | None) -> Index:
    import mergewise
    from mergewise.models.tokens import count_tokens, counter_from_file

    counter = count_tokens if tokenizer is None else counter_from_file(tokenizer)
    return mergewise.open(index_dir, tokens=counter, create=False)
