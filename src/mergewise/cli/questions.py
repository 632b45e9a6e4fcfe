"""Commands that ask: `ask`, `context`, `compare`."""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from mergewise.cli.options import (
    BUDGET,
    CHAT,
    DEFAULT_INDEX,
    MAX_TOKENS,
    RERANKER,
    SCORER,
    STRATEGY,
    BudgetOption,
    CacheOption,
    ChatOption,
    HopsOption,
    HtmlOption,
    IndexOption,
    JsonOption,
    MaxTokensOption,
    ModeOption,
    PriceInOption,
    PriceOutOption,
    RerankerOption,
    RoundsOption,
    ScorerOption,
    StrategyOption,
    ThenOption,
    TokenizerOption,
    WhereOption,
    WindowOption,
)
from mergewise.cli.output import citation_line, console, say, say_json, say_warning, usage_line
from mergewise.cli.pages import write_page
from mergewise.cli.trace import say_trace
from mergewise.jsonable import answer_json, comparison_json, context_json
from mergewise.types import Answer, Context

if TYPE_CHECKING:
    from mergewise.engine import Index

QuestionArgument = Annotated[str, typer.Argument(help="The question, in quotes.", show_default=False)]


def ask(
    question: QuestionArgument,
    index_dir: IndexOption = DEFAULT_INDEX,
    strategy: StrategyOption = STRATEGY,
    budget: BudgetOption = BUDGET,
    where: WhereOption = None,
    then: ThenOption = None,
    scorer: ScorerOption = SCORER,
    chat: ChatOption = CHAT,
    mode: ModeOption = None,
    rounds: RoundsOption = None,
    hops: HopsOption = None,
    window: WindowOption = None,
    max_tokens: MaxTokensOption = MAX_TOKENS,
    cache: CacheOption = None,
    price_in: PriceInOption = 0.0,
    price_out: PriceOutOption = 0.0,
    stream: Annotated[
        bool | None, typer.Option(help="Show a chat model's answer as it is written. [default: on a terminal]")
    ] = None,
    reranker: RerankerOption = RERANKER,
    tokenizer: TokenizerOption = None,
    as_json: JsonOption = False,
    html: HtmlOption = None,
) -> None:
    """Answer with citations: quoted sentences, or the words of a chat model."""
    opened = _open(index_dir, tokenizer, chat, window, cache, scorer, reranker)
    shown = _Shown()
    streams = not as_json and (sys.stdout.isatty() if stream is None else stream)
    show = shown.add if streams else None
    answer = opened.ask(
        question,
        strategy=strategy,
        budget=budget,
        where=where,
        mode=mode,
        rounds=_rounds(rounds, hops),
        then=then,
        max_tokens=max_tokens,
        show=show,
    )
    write_page(html, answer, opened)
    if as_json:
        say_json(answer_json(answer, price_in, price_out))
        return
    if shown.begun:
        say()
        say_citations(answer)
    else:
        say_answer(answer)
    if answer.mode != "extractive" or answer.usage.calls:
        console(stderr=True).print(usage_line(answer, price_in, price_out), style="dim", markup=False)


class _Shown:
    """Prints the pieces of an answer as they arrive."""

    begun = False

    def add(self, piece: str) -> None:
        self.begun = True
        sys.stdout.write(piece)
        sys.stdout.flush()


def say_answer(answer: Answer) -> None:
    say(answer.text, style="bold" if answer.found else "yellow")
    say_citations(answer)


def say_citations(answer: Answer) -> None:
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
    rounds: RoundsOption = None,
    hops: HopsOption = None,
    reranker: RerankerOption = RERANKER,
    then: ThenOption = None,
    scorer: ScorerOption = SCORER,
    chat: ChatOption = CHAT,
    window: WindowOption = None,
    cache: CacheOption = None,
    tokenizer: TokenizerOption = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show what was merged, joined and left out, and why.")] = False,
    as_json: JsonOption = False,
    html: HtmlOption = None,
) -> None:
    """The context that a model would be given."""
    opened = _open(index_dir, tokenizer, chat, window, cache, scorer, reranker)
    assembled = opened.context(
        question, strategy=strategy, budget=budget, where=where, rounds=_rounds(rounds, hops), then=then
    )
    write_page(html, assembled, opened)
    if as_json:
        say_json(context_json(assembled))
        return
    say(assembled.text)
    if trace:
        say_trace(assembled)
    summary = (
        f"{assembled.tokens} of {assembled.budget} tokens, {len(assembled.passages)} passages, {assembled.strategy}"
    )
    console(stderr=True).print(summary, style="dim", markup=False)


def compare(
    question: QuestionArgument,
    strategies: Annotated[str, typer.Option(help="Strategies, separated by commas.")] = "weave,auto-merge,topk",
    index_dir: IndexOption = DEFAULT_INDEX,
    budget: BudgetOption = BUDGET,
    where: WhereOption = None,
    reranker: RerankerOption = RERANKER,
    scorer: ScorerOption = SCORER,
    chat: ChatOption = CHAT,
    window: WindowOption = None,
    cache: CacheOption = None,
    tokenizer: TokenizerOption = None,
    as_json: JsonOption = False,
    html: HtmlOption = None,
) -> None:
    """The contexts of several strategies, side by side."""
    from mergewise.assemble import split_specs

    opened = _open(index_dir, tokenizer, chat, window, cache, scorer, reranker)
    contexts: list[tuple[Context, float]] = []
    # a first question loads what is loaded once, so that no strategy is timed with it
    opened.context(question, strategy="weave", budget=1, where=where)
    for spec in split_specs(strategies):
        started = perf_counter()
        contexts.append((opened.context(question, strategy=spec, budget=budget, where=where), perf_counter() - started))
    write_page(html, contexts, opened)
    if as_json:
        say_json(comparison_json(contexts))
        return
    _say_table(contexts)


def _rounds(rounds: int | None, hops: int | None) -> int:
    """`hops` is the old name of `rounds`, on the command line, in the environment and in mergewise.toml."""
    if hops is not None:
        say_warning("hops are now called rounds: use --rounds, MERGEWISE_ROUNDS, or rounds in mergewise.toml")
    return next((given for given in (rounds, hops) if given is not None), 1)


def _say_table(contexts: list[tuple[Context, float]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_lines=True, expand=True)
    for context, seconds in contexts:
        table.add_column(
            f"{context.strategy}\n{context.tokens} tokens, {len(context.passages)} passages, {1000 * seconds:.0f} ms",
            ratio=1,
            overflow="fold",
        )
    table.add_row(*(Text(context.text) for context, _ in contexts))
    console().print(table)


def _open(
    index_dir: Path,
    tokenizer: Path | None,
    chat: str = CHAT,
    window: int | None = None,
    cache: Path | None = None,
    scorer: str = SCORER,
    reranker: str = RERANKER,
) -> Index:
    import mergewise
    from mergewise.models import load_chat
    from mergewise.models.tokens import count_tokens, counter_from_file

    model = load_chat(chat, window)
    counter = count_tokens if tokenizer is None else counter_from_file(tokenizer)
    return mergewise.open(
        index_dir, tokens=counter, chat=model or CHAT, scorer=scorer, reranker=reranker, cache=cache, create=False
    )
