"""Commands that ask: `ask` and `context`, one question or many."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mergewise.cli import batch, last
from mergewise.cli.batch import STANDARD_INPUT, Asked
from mergewise.cli.options import (
    BUDGET,
    CAUSAL,
    CHAT,
    DEFAULT_INDEX,
    MAX_TOKENS,
    RERANKER,
    SCORER,
    STRATEGY,
    BudgetOption,
    CacheOption,
    CausalOption,
    ChatOption,
    HopsOption,
    HtmlOption,
    IndexOption,
    JsonOption,
    MaxTokensOption,
    ModeOption,
    PriceInOption,
    PriceOutOption,
    QuestionArgument,
    RerankerOption,
    RoundsOption,
    ScorerOption,
    StrategyOption,
    ThenOption,
    TokenizerOption,
    TraceOption,
    WhereOption,
    WindowOption,
)
from mergewise.cli.output import (
    citation_line,
    say,
    say_aside,
    say_json,
    say_json_line,
    say_piece,
    say_warning,
    usage_line,
)
from mergewise.cli.pages import write_page
from mergewise.cli.places import Places
from mergewise.cli.trace import say_streams, say_trace
from mergewise.errors import UsageError
from mergewise.jsonable import answer_json, context_json
from mergewise.types import Answer, Context

if TYPE_CHECKING:
    from mergewise.engine import Index


def ask(
    question: QuestionArgument,
    index_dir: IndexOption = DEFAULT_INDEX,
    strategy: StrategyOption = STRATEGY,
    budget: BudgetOption = BUDGET,
    where: WhereOption = None,
    then: ThenOption = None,
    scorer: ScorerOption = SCORER,
    chat: ChatOption = CHAT,
    causal: CausalOption = CAUSAL,
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
    trace: TraceOption = False,
    as_json: JsonOption = False,
    html: HtmlOption = None,
) -> None:
    """Answer with citations: quoted sentences, or the words of a chat model. Exits with 1 where nothing was found."""
    opened = open_index(index_dir, tokenizer, chat, window, cache, scorer, reranker, causal)
    _check_page(html, question)
    searches = _rounds(rounds, hops)
    streams = not as_json and (sys.stdout.isatty() if stream is None else stream)

    def answer_one(question: str, where: str | None) -> Answer:
        shown = _Shown()
        answer = opened.ask(
            question,
            strategy=strategy,
            budget=budget,
            where=where,
            mode=mode,
            rounds=searches,
            then=then,
            max_tokens=max_tokens,
            show=shown.add if streams else None,
        )
        last.save(index_dir, last.of_answer(answer))
        if as_json:
            return answer
        if shown.begun:
            say()
            say_citations(answer)
        else:
            say_answer(answer)
        if trace:
            say_trace(answer.context, _places(opened), [*answer.context.trace, *answer.trace])
            say_streams(answer)
        if answer.mode != "extractive" or answer.usage.calls:
            say_aside(usage_line(answer, price_in, price_out))
        return answer

    def answer_line(asked: Asked) -> bool:
        if not as_json:
            say(f"? {asked.question}", style="cyan")
        answer = answer_one(asked.question, where if asked.where is None else asked.where)
        if as_json:
            say_json_line({**asked.key, **answer_json(answer, price_in, price_out)})
        else:
            say()
        return answer.found

    if question == STANDARD_INPUT:
        found = batch.ask_all(answer_line, as_json)
    else:
        answer = answer_one(question, where)
        write_page(html, answer, opened)
        if as_json:
            say_json(answer_json(answer, price_in, price_out))
        found = answer.found
    if not found:
        raise typer.Exit(1)


def _check_page(html: Path | None, question: str) -> None:
    if html is not None and question == STANDARD_INPUT:
        raise UsageError("--html shows one question", "give the question itself instead of -")


class _Shown:
    """Prints the pieces of an answer as they arrive."""

    begun = False

    def add(self, piece: str) -> None:
        self.begun = True
        say_piece(piece)


def say_answer(answer: Answer) -> None:
    say(answer.text, style="bold" if answer.sure else "yellow")
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
    trace: TraceOption = False,
    as_json: JsonOption = False,
    html: HtmlOption = None,
) -> None:
    """The context that a model would be given, and where its passages stand. Exits with 1 where nothing was found."""
    opened = open_index(index_dir, tokenizer, chat, window, cache, scorer, reranker)
    _check_page(html, question)
    searches = _rounds(rounds, hops)

    def assemble(question: str, where: str | None) -> Context:
        assembled = opened.context(question, strategy=strategy, budget=budget, where=where, rounds=searches, then=then)
        last.save(index_dir, last.of_context(assembled))
        if not as_json:
            say_context(assembled, _places(opened), trace)
        return assembled

    def assemble_line(asked: Asked) -> bool:
        if not as_json:
            say(f"? {asked.question}", style="cyan")
        assembled = assemble(asked.question, where if asked.where is None else asked.where)
        if as_json:
            say_json_line({**asked.key, **context_json(assembled)})
        else:
            say()
        return bool(assembled.passages)

    if question == STANDARD_INPUT:
        found = batch.ask_all(assemble_line, as_json)
    else:
        assembled = assemble(question, where)
        write_page(html, assembled, opened)
        if as_json:
            say_json(context_json(assembled))
        found = bool(assembled.passages)
    if not found:
        raise typer.Exit(1)


def say_context(assembled: Context, places: Places, trace: bool) -> None:
    """The text, the places of its passages by their numbers, and what was done if that is asked for."""
    if assembled.passages:
        say(assembled.text)
        say()
    else:
        say_aside("nothing was found")
    for number, passage in enumerate(assembled.passages, 1):
        say(f"[{number}] {places.of(passage.spans)}", style="dim")
    if trace:
        say_trace(assembled, places)
    say_aside(
        f"{assembled.tokens} of {assembled.budget} tokens, {len(assembled.passages)} passages, {assembled.strategy}"
    )


def _places(opened: Index) -> Places:
    return Places(opened.store.reader().document)


def _rounds(rounds: int | None, hops: int | None) -> int:
    """`hops` is the old name of `rounds`, on the command line, in the environment and in mergewise.toml."""
    if hops is not None:
        say_warning("hops are now called rounds: use --rounds, MERGEWISE_ROUNDS, or rounds in mergewise.toml")
    return next((given for given in (rounds, hops) if given is not None), 1)


def open_index(
    index_dir: Path,
    tokenizer: Path | None,
    chat: str = CHAT,
    window: int | None = None,
    cache: Path | None = None,
    scorer: str = SCORER,
    reranker: str = RERANKER,
    causal: str = CAUSAL,
) -> Index:
    """The index of a question, with the models that the options name."""
    import mergewise
    from mergewise.models import load_chat
    from mergewise.models.tokens import count_tokens, counter_from_file

    model = load_chat(chat, window)
    counter = count_tokens if tokenizer is None else counter_from_file(tokenizer)
    return mergewise.open(
        index_dir,
        tokens=counter,
        chat=model or CHAT,
        scorer=scorer,
        reranker=reranker,
        causal=causal,
        cache=cache,
        create=False,
    )
