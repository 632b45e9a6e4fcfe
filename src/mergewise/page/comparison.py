"""Contexts of several strategies side by side. Text that only one of them has is marked."""

from __future__ import annotations

from collections.abc import Sequence

from mergewise.page.budget import MOST, budget_bar, shares
from mergewise.page.detail import Detail
from mergewise.page.markup import Markup, join, tag
from mergewise.page.passages import GAP_SHOWN, GOES_ON, card_head, shown_path, split_space, with_styles
from mergewise.page.source_texts import Places
from mergewise.protocols import TokenCounter
from mergewise.text.context_diff import OtherSpans, other_spans, unshared_texts
from mergewise.text.markup import says_something
from mergewise.types import Context, Passage, Span


def comparison_part(
    contexts: Sequence[tuple[Context, float | None]], places: Places, count_tokens: TokenCounter | None, detail: Detail
) -> list[Markup]:
    """Draw the legend and a column for each context."""
    spans = other_spans([context for context, _ in contexts])
    sides = [
        _column(number, context, seconds, others, places, count_tokens, detail)
        for number, ((context, seconds), others) in enumerate(zip(contexts, spans, strict=True), 1)
    ]
    shown = tag("div", *sides, class_="columns", style=f"--columns:{max(1, len(sides))}", tabindex="0", role="group",
                aria_label="Strategies")  # fmt: skip
    return [_LEGEND, tag("div", shown, id="sources")]


def _column(
    number: int,
    context: Context,
    seconds: float | None,
    others: OtherSpans,
    places: Places,
    count_tokens: TokenCounter | None,
    detail: Detail,
) -> Markup:
    """Draw a context with its number and time in seconds. The text that is not in the `others` is marked."""
    kinds = []
    for passage in context.passages[:MOST]:
        # most of an only passage is in no other context
        alone = sum(len(piece) for span in passage.spans for piece, only in others.pieces(span) if only)
        is_only = not passage.verbatim or 2 * alone > sum(map(len, passage.spans))
        kinds.append("only" if is_only else "shared")

    facts = [f"{len(context.passages)} passage{'' if len(context.passages) == 1 else 's'}"]
    if seconds is not None:
        facts.append(f"{1000 * seconds:.0f} ms")
    own = [text for _, text in unshared_texts(context, others, lambda span: places.text(span) or "")]
    if count_tokens is None:
        facts.append(f"{sum(map(len, own))} characters only here")
    else:
        facts.append(f"{sum(count_tokens(own)) if own else 0} tokens only here")

    prefix = f"s{number}p"
    cards = []
    for n, passage in enumerate(context.passages[: detail.passages], 1):
        first = passage.spans[0] if passage.spans else None
        path = shown_path(passage)
        title = path or (places.location(first) if first else "")
        where = places.linked_location(first) if first else Markup()
        head = card_head(f"{prefix}{n}", n, title, where, first.doc_id if first else None)
        body = _text(passage, others, places, detail.characters)
        label = f"{context.strategy}, passage {n}: {path}"
        card = tag("article", head, body, class_="passage", id=f"{prefix}{n}", tabindex="-1", aria_label=label)
        cards.append(card)
    head = tag(
        "header",
        tag("h2", context.strategy, id=f"s{number}"),
        tag("p", " · ".join(facts), class_="where"),
        budget_bar(context, shares(context, count_tokens), kinds, len(cards), prefix),
    )
    empty = tag("p", "No passages found.", class_="notice") if not cards else None
    return tag("section", head, empty, *cards, class_="column", aria_labelledby=f"s{number}")


def _text(passage: Passage, others: OtherSpans, places: Places, most: int | None) -> Markup:
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
        words, styles = places.screen_text(span, part)
        for piece, alone in others.pieces(shown):
            lead, inner, tail = split_space(words[piece.start - span.start : piece.end - span.start])
            body = with_styles(Span(piece.doc_id, piece.start + len(lead), piece.end - len(tail)), inner, styles)
            if alone and says_something(inner):
                body = tag("mark", body, class_="k only", title="only here")
            pieces += [lead, body, tail]
        left -= len(part)
    return join([tag("div", *pieces, class_="text", dir="auto"), GOES_ON if left < 0 else ""])


_LEGEND = Markup(
    '<ul class="legend" aria-label="Legend">'
    '<li><mark class="k only">only here</mark><span>in no other strategy&#x27;s context</span></li>'
    '<li><span class="plain-word">plain</span><span>also in another context</span></li></ul>'
)
