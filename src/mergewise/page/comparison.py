"""Contexts of several strategies side by side. Text that only one of them has is marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mergewise.page.budget import MOST, budget_bar, shares
from mergewise.page.detail import Detail
from mergewise.page.markup import Markup, join, tag
from mergewise.page.passages import GAP_SHOWN, GOES_ON, card_head, shown_path, split_space, with_styles
from mergewise.page.source_texts import Places
from mergewise.protocols import TokenCounter
from mergewise.text.context_diff import OtherSpans, other_spans, unshared_texts
from mergewise.text.markup import says_something
from mergewise.types import Context, Passage, Span


@dataclass(frozen=True, slots=True)
class ContextColumn:
    """A column of the comparison: a context with its number and time in seconds, the other contexts' spans, and the rendering."""

    number: int
    context: Context
    seconds: float | None
    others: OtherSpans
    places: Places
    count_tokens: TokenCounter | None
    detail: Detail


def comparison_part(
    contexts: Sequence[tuple[Context, float | None]], places: Places, count_tokens: TokenCounter | None, detail: Detail
) -> list[Markup]:
    """Draw the legend and a column for each context."""
    others = other_spans([context for context, _ in contexts])
    sides = [
        _column(ContextColumn(number, context, seconds, spans, places, count_tokens, detail))
        for number, ((context, seconds), spans) in enumerate(zip(contexts, others, strict=True), 1)
    ]
    shown = tag("div", *sides, class_="columns", style=f"--columns:{max(1, len(sides))}", tabindex="0", role="group",
                aria_label="Strategies")  # fmt: skip
    return [_LEGEND, tag("div", shown, id="sources")]


def _column(side: ContextColumn) -> Markup:
    context = side.context
    kinds = []
    for passage in context.passages[:MOST]:
        # most of an only passage is in no other context
        alone = sum(len(piece) for span in passage.spans for piece, only in side.others.pieces(span) if only)
        is_only = not passage.verbatim or 2 * alone > sum(map(len, passage.spans))
        kinds.append("only" if is_only else "shared")
    prefix = f"s{side.number}p"
    cards = [_card(prefix, n, passage, side) for n, passage in enumerate(context.passages[: side.detail.passages], 1)]
    head = tag(
        "header",
        tag("h2", context.strategy, id=f"s{side.number}"),
        tag("p", " · ".join(_facts(side)), class_="where"),
        budget_bar(context, shares(context, side.count_tokens), kinds, len(cards), prefix),
    )
    empty = tag("p", "No passages found.", class_="notice") if not cards else None
    return tag("section", head, empty, *cards, class_="column", aria_labelledby=f"s{side.number}")


def _facts(side: ContextColumn) -> list[str]:
    number = len(side.context.passages)
    facts = [f"{number} passage{'' if number == 1 else 's'}"]
    if side.seconds is not None:
        facts.append(f"{1000 * side.seconds:.0f} ms")
    own = [text for _, text in unshared_texts(side.context, side.others, lambda span: side.places.text(span) or "")]
    if side.count_tokens is None:
        return [*facts, f"{sum(map(len, own))} characters only here"]
    own_tokens = sum(side.count_tokens(own)) if own else 0
    return [*facts, f"{own_tokens} tokens only here"]


def _card(prefix: str, number: int, passage: Passage, side: ContextColumn) -> Markup:
    path = shown_path(passage)
    where = side.places.linked_location(passage.spans[0]) if passage.spans else Markup()
    anchor = f"{prefix}{number}"
    title = path or (side.places.location(passage.spans[0]) if passage.spans else "")
    head = card_head(anchor, number, title, where, passage.spans[0].doc_id if passage.spans else None)
    body = _text(passage, side)
    label = f"{side.context.strategy}, passage {number}: {path}"
    return tag("article", head, body, class_="passage", id=anchor, tabindex="-1", aria_label=label)


def _text(passage: Passage, side: ContextColumn) -> Markup:
    most = side.detail.characters
    if not passage.verbatim:
        return tag("div", tag("mark", passage.text[:most], class_="k only"), class_="text", dir="auto")
    pieces: list[str] = []
    left = len(passage.text) if most is None else most
    for i, (span, part) in enumerate(passage.parts()):
        if left <= 0:
            break
        if i:
            pieces.append(GAP_SHOWN)
        shown = Span(span.doc_id, span.start, min(span.end, span.start + left))
        words, styles = side.places.screen_text(span, part)
        for piece, alone in side.others.pieces(shown):
            lead, inner, tail = split_space(words[piece.start - span.start : piece.end - span.start])
            body = with_styles(Span(piece.doc_id, piece.start + len(lead), piece.end - len(tail)), inner, styles)
            if alone and says_something(inner):
                body = tag("mark", body, class_="k only", title="only here")
            pieces += [lead, body, tail]
        left -= len(part)
    return join([tag("div", *pieces, class_="text", dir="auto"), GOES_ON if left < 0 else ""])


_LEGEND = tag(
    "ul",
    tag("li", tag("mark", "only here", class_="k only"), tag("span", "in no other strategy's context")),
    tag("li", tag("span", "plain", class_="plain-word"), tag("span", "also in another context")),
    class_="legend",
    aria_label="Legend",
)
