"""`compare`: the contexts of several strategies side by side, with what only one of them shows marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import typer

from mergewise.cli.options import (
    BUDGET,
    CHAT,
    DEFAULT_INDEX,
    RERANKER,
    SCORER,
    BudgetOption,
    CacheOption,
    ChatOption,
    HtmlOption,
    IndexOption,
    JsonOption,
    QuestionArgument,
    RerankerOption,
    ScorerOption,
    StrategiesOption,
    TokenizerOption,
    TraceOption,
    WhereOption,
    WindowOption,
)
from mergewise.cli.output import CLOSES, OPENS, say, say_drawn, say_json
from mergewise.cli.pages import write_page
from mergewise.cli.places import Places
from mergewise.cli.questions import open_index
from mergewise.cli.trace import say_trace
from mergewise.jsonable import comparison_json
from mergewise.text.keys import heading_path
from mergewise.types import GAP, Context, Passage, Span

if TYPE_CHECKING:
    from rich.text import Text

LEGEND = f"{OPENS}…{CLOSES} no other strategy shows this"

Timed = tuple[Context, float]


def compare(
    question: QuestionArgument,
    strategies: StrategiesOption = "weave,auto-merge,topk",
    index_dir: IndexOption = DEFAULT_INDEX,
    budget: BudgetOption = BUDGET,
    where: WhereOption = None,
    reranker: RerankerOption = RERANKER,
    scorer: ScorerOption = SCORER,
    chat: ChatOption = CHAT,
    window: WindowOption = None,
    cache: CacheOption = None,
    tokenizer: TokenizerOption = None,
    trace: TraceOption = False,
    as_json: JsonOption = False,
    html: HtmlOption = None,
) -> None:
    """The contexts of several strategies, side by side, with what only one of them shows marked."""
    from mergewise.designs.specs import split_specs

    opened = open_index(index_dir, tokenizer, chat, window, cache, scorer, reranker)
    contexts: list[Timed] = []
    # a first question loads what is loaded once, so that no strategy is timed with it
    opened.context(question, strategy="weave", budget=1, where=where)
    for spec in split_specs(strategies):
        started = perf_counter()
        contexts.append((opened.context(question, strategy=spec, budget=budget, where=where), perf_counter() - started))
    places = Places(opened.store.reader().document)
    alone = only_here([context for context, _ in contexts], places)
    write_page(html, contexts, opened)
    if as_json:
        say_json(comparison_json(contexts, alone))
    else:
        _say_table(contexts, alone, places)
        for context, _ in contexts if trace else ():
            say(f"\n{context.strategy}", style="bold")
            say_trace(context, places)
    if not any(context.passages for context, _ in contexts):
        raise typer.Exit(1)


def only_here(contexts: Sequence[Context], places: Places) -> list[tuple[Span, ...]]:
    """For each context the spans that no other one shows, in document order, white space at their ends left out."""
    shown = [[span for passage in context.passages for span in passage.spans] for context in contexts]
    alone = []
    for i, own in enumerate(shown):
        others = [span for j, spans in enumerate(shown) if j != i for span in spans]
        left = [part for span in sorted(set(own)) for part in without(span, others)]
        alone.append(tuple(part for span in left if (part := _trimmed(span, places)) is not None))
    return alone


def without(span: Span, others: Sequence[Span]) -> Iterator[Span]:
    """The parts of the span that none of the others covers."""
    start = span.start
    for other in sorted(other for other in others if other.overlaps(span)):
        if other.start > start:
            yield Span(span.doc_id, start, other.start)
        start = max(start, other.end)
    if start < span.end:
        yield Span(span.doc_id, start, span.end)


def _trimmed(span: Span, places: Places) -> Span | None:
    document = places.document(span.doc_id)
    text = document.text[span.start : span.end] if document else ""
    if not any(character.isalnum() for character in text):
        return None
    start = span.start + len(text) - len(text.lstrip())
    return Span(span.doc_id, start, start + len(text.strip()))


def _say_table(contexts: Sequence[Timed], alone: Sequence[Sequence[Span]], places: Places) -> None:
    from rich.table import Table

    table = Table(show_lines=True, expand=True, caption=LEGEND if len(contexts) > 1 else None)
    for (context, seconds), spans in zip(contexts, alone, strict=True):
        only = f", {sum(map(len, spans))} characters only here" if len(contexts) > 1 else ""
        counts = f"{context.tokens} tokens, {len(context.passages)} passages, {1000 * seconds:.0f} ms"
        table.add_column(f"{context.strategy}\n{counts}{only}", ratio=1, overflow="fold")
    marks = alone if len(contexts) > 1 else [()] * len(contexts)
    table.add_row(*(_cell(context, spans, places) for (context, _), spans in zip(contexts, marks, strict=True)))
    say_drawn(table)


def _cell(context: Context, alone: Sequence[Span], places: Places) -> Text:
    from rich.text import Text

    cell = Text()
    for number, passage in enumerate(context.passages, 1):
        cell.append("\n\n" if number > 1 else "")
        cell.append(f"[{number}] {heading_path(passage.title, passage.headings)}\n")
        cell.append(f"{places.of(passage.spans)}\n", style="dim")
        for text, marked in _marked(passage, alone):
            cell.append(f"{OPENS}{text}{CLOSES}" if marked else text, style="bold" if marked else "")
    return cell


def _marked(passage: Passage, alone: Sequence[Span]) -> Iterator[tuple[str, bool]]:
    """The passage in pieces, and of each whether no other strategy shows it."""
    if not passage.verbatim:
        yield passage.text, False
        return
    for i, (span, text) in enumerate(passage.parts()):
        if i:
            yield GAP, False
        position = 0
        for part in alone:
            if span.contains(part):
                start, end = part.start - span.start, part.end - span.start
                yield text[position:start], False
                yield text[start:end], True
                position = end
        yield text[position:], False
