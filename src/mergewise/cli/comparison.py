"""The command `compare`: the contexts of several strategies side by side, with marks around text that only one of them shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from mergewise import Query
from mergewise.cli import options
from mergewise.cli.asking import AskingOptions
from mergewise.cli.output import CLOSES, OPENS, say, say_drawn, say_json
from mergewise.cli.places import Locations, locations_in
from mergewise.cli.trace import say_trace
from mergewise.extend import comparison_json, heading_path, other_spans, unshared_texts
from mergewise.types import GAP, Context, Passage, Span

if TYPE_CHECKING:
    from rich.text import Text


@partial(options.with_options, without=["question", "strategy"])
def compare(
    question: Annotated[str, typer.Argument(help="The question, in quotes.")],
    strategies: options.StrategiesOption = "weave,auto-merge,topk",
    *,
    query: Query,
    common: AskingOptions,
) -> None:
    """Compare the contexts of several strategies side by side. Needs an index.

    Text that only one strategy shows is marked.
    """
    from mergewise.extend import split_specs

    index = common.open_index(scorer=common.scorer)
    timed: list[tuple[Context, float]] = []
    # a first question loads the models, so that no strategy's time includes loading
    index.context(question, budget=1, where=query.where)
    for spec in split_specs(strategies):
        started = perf_counter()
        context = index.context(replace(query, question=question, strategy=spec))
        timed.append((context, perf_counter() - started))
    locations = locations_in(index)
    contexts = [context for context, _ in timed]
    unshared = [
        [span for span, _ in unshared_texts(context, others, locations.text)]
        for context, others in zip(contexts, other_spans(contexts), strict=True)
    ]
    common.write_page(timed, index)
    if common.as_json:
        say_json(comparison_json(timed, unshared))
    else:
        from rich.table import Table

        several = len(timed) > 1
        table = Table(
            show_lines=True, expand=True, caption=f"{OPENS}…{CLOSES} only this strategy shows it" if several else None
        )
        cells = []
        for (context, seconds), spans in zip(timed, unshared, strict=True):
            only = f", {sum(map(len, spans))} characters only here" if several else ""
            counts = f"{context.tokens} tokens, {len(context.passages)} passages, {1000 * seconds:.0f} ms"
            table.add_column(f"{context.strategy}\n{counts}{only}", ratio=1, overflow="fold")
            cells.append(_cell(context, spans if several else (), locations))
        table.add_row(*cells)
        say_drawn(table)
        for context in contexts if common.trace else ():
            say(f"\n{context.strategy}", style="bold")
            say_trace(context.trace, locations)
    if not any(context.passages for context in contexts):
        raise typer.Exit(1)


def _cell(context: Context, unshared: Sequence[Span], locations: Locations) -> Text:
    from rich.text import Text

    cell = Text()
    for number, passage in enumerate(context.passages, 1):
        cell.append("\n\n" if number > 1 else "")
        cell.append(f"[{number}] {heading_path(passage.title, passage.headings)}\n")
        cell.append(f"{locations.of(passage.spans)}\n", style="dim")
        for text, marked in _marked_pieces(passage, unshared):
            cell.append(f"{OPENS}{text}{CLOSES}" if marked else text, style="bold" if marked else "")
    return cell


def _marked_pieces(passage: Passage, unshared: Sequence[Span]) -> Iterator[tuple[str, bool]]:
    """Split the passage into pieces. True marks a piece that no other strategy shows."""
    if not passage.verbatim:
        yield passage.text, False
        return
    for i, (span, text) in enumerate(passage.parts()):
        if i:
            yield GAP, False
        position = 0
        for part in unshared:
            if span.contains(part):
                start, end = part.start - span.start, part.end - span.start
                yield text[position:start], False
                yield text[start:end], True
                position = end
        yield text[position:], False
