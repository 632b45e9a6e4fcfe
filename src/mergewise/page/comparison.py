"""Contexts of several strategies side by side. What only one of them has is marked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mergewise.page.budget import MOST, budget_bar, shares
from mergewise.page.detail import Detail
from mergewise.page.marks import pieces_of, verbatim_parts
from mergewise.page.markup import Markup, join, tag
from mergewise.page.overlaps import Overlaps
from mergewise.page.passages import GAP_SHOWN, apart, with_code
from mergewise.page.places import Places
from mergewise.protocols import TokenCounter
from mergewise.text.keys import heading_path
from mergewise.text.spans import union
from mergewise.types import Context, Passage, Span


@dataclass(frozen=True, slots=True)
class Compared:
    """A context beside others: what the others hold, by document."""

    number: int
    context: Context
    seconds: float | None
    others: Overlaps[Span]

    def only_here(self, span: Span) -> list[tuple[Span, bool]]:
        """The span in pieces, each with whether no other context holds it."""
        others = self.others.at(span)
        return [(piece, not any(o.contains(piece) for o in others)) for piece in pieces_of(span, others)]


def compared(contexts: Sequence[tuple[Context, float | None]]) -> list[Compared]:
    spans = [[span for passage in context.passages for span in passage.spans] for context, _ in contexts]
    return [
        Compared(i, context, seconds, _by_document(s for j, own in enumerate(spans, 1) if j != i for s in own))
        for i, (context, seconds) in enumerate(contexts, 1)
    ]


def _by_document(spans: Iterable[Span]) -> Overlaps[Span]:
    """The spans of each document, those that overlap as one."""
    ranges: dict[str, list[tuple[int, int]]] = {}
    for span in spans:
        ranges.setdefault(span.doc_id, []).append((span.start, span.end))
    joined = (Span(doc, start, end) for doc, found in ranges.items() for start, end in union(found))
    return Overlaps(joined, lambda span: span)


def columns(
    contexts: Sequence[tuple[Context, float | None]], places: Places, count_tokens: TokenCounter | None, detail: Detail
) -> Markup:
    sides = [_column(side, places, count_tokens, detail) for side in compared(contexts)]
    return tag("div", *sides, class_="columns", style=f"--columns:{max(1, len(sides))}")


def _column(side: Compared, places: Places, count_tokens: TokenCounter | None, detail: Detail) -> Markup:
    context = side.context
    kinds = [_kind(passage, side) for passage in context.passages[:MOST]]
    prefix = f"s{side.number}p"
    cards = [
        _card(prefix, n, passage, side, places, detail)
        for n, passage in enumerate(context.passages[: detail.passages], 1)
    ]
    head = tag(
        "header",
        tag("h2", context.strategy, id=f"s{side.number}"),
        tag("p", " · ".join(_facts(side, count_tokens)), class_="where"),
        budget_bar(context, shares(context, count_tokens), kinds, len(cards), prefix),
    )
    empty = tag("p", "Nothing was found.", class_="notice") if not cards else None
    return tag("section", head, empty, *cards, class_="column", aria_labelledby=f"s{side.number}")


def _kind(passage: Passage, side: Compared) -> str:
    """Whether most of the passage stands only here."""
    if not passage.verbatim:
        return "only"
    alone = sum(len(piece) for span in passage.spans for piece, only in side.only_here(span) if only)
    return "only" if 2 * alone > sum(map(len, passage.spans)) else "shared"


def _facts(side: Compared, count_tokens: TokenCounter | None) -> list[str]:
    number = len(side.context.passages)
    facts = [f"{number} passage{'' if number == 1 else 's'}"]
    if side.seconds is not None:
        facts.append(f"{1000 * side.seconds:.0f} ms")
    return [*facts, _alone(side, count_tokens)]


def _alone(side: Compared, count_tokens: TokenCounter | None) -> str:
    """How much only this context has: in tokens, or without a counter in characters."""
    only = [
        part[piece.start - span.start : piece.end - span.start]
        for passage in side.context.passages
        for span, part in verbatim_parts(passage)
        for piece, alone in side.only_here(span)
        if alone
    ]
    only = [words for words in only if _has_words(words)]
    if count_tokens is not None:
        return f"{sum(count_tokens(only)) if only else 0} tokens only here"
    return f"{sum(map(len, only))} characters only here"


def _has_words(words: str) -> bool:
    return any(map(str.isalnum, words))


def _card(prefix: str, number: int, passage: Passage, side: Compared, places: Places, detail: Detail) -> Markup:
    path = heading_path(passage.title, passage.headings)
    where = places.spelled(passage.spans[0]) if passage.spans else ""
    head = tag(
        "header",
        tag("a", str(number), class_="number", href=f"#{prefix}{number}", aria_label=f"Passage {number}"),
        tag("h3", path or where, dir="auto"),
        tag("p", where, class_="where", title=passage.spans[0].doc_id if passage.spans else None),
    )
    body = _text(passage, side, places, detail.characters)
    label = f"{side.context.strategy}, passage {number}: {path}"
    return tag("article", head, body, class_="passage", id=f"{prefix}{number}", tabindex="-1", aria_label=label)


def _text(passage: Passage, side: Compared, places: Places, most: int | None) -> Markup:
    if not passage.verbatim:
        words = passage.text if most is None else passage.text[:most]
        return tag("div", tag("mark", words, class_="k only"), class_="text", dir="auto")
    pieces: list[str] = []
    left = len(passage.text) if most is None else most
    for i, (span, part) in enumerate(passage.parts()):
        if left <= 0:
            break
        if i:
            pieces.append(GAP_SHOWN)
        shown = Span(span.doc_id, span.start, min(span.end, span.start + left))
        words, code = places.shown(span, part)
        for piece, alone in side.only_here(shown):
            pieces.append(_piece(piece, words[piece.start - span.start : piece.end - span.start], code, alone))
        left -= len(part)
    cut = tag("p", "The passage goes on.", class_="notice") if left < 0 else None
    return join(filter(None, [tag("div", *pieces, class_="text", dir="auto"), cut]))


def _piece(piece: Span, words: str, code: Sequence[Span], alone: bool) -> Markup:
    lead, inner, tail = apart(words)
    body = with_code(Span(piece.doc_id, piece.start + len(lead), piece.end - len(tail)), inner, code)
    if alone and _has_words(inner):
        body = tag("mark", body, class_="k only", title="only here")
    return join([lead, body, tail])


def comparison_legend() -> Markup:
    return tag(
        "ul",
        tag("li", tag("mark", "only here", class_="k only"), tag("span", "no other strategy has this")),
        tag("li", tag("span", "plain", class_="plain"), tag("span", "another one has it too")),
        class_="legend",
        aria_label="Legend",
    )
