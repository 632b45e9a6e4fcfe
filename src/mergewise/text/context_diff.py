"""The text that only one of several contexts holds, for tables, JSON and pages.

A character of a document is unique to a context if no span of another context covers it. Pieces without a letter or a digit do
not count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

from mergewise.grouping import group_by
from mergewise.text.markup import says_something
from mergewise.text.sentences import strip_span
from mergewise.text.spans import spans_of, union
from mergewise.types import Context, Span


class OtherSpans:
    """The spans of all contexts but one."""

    def __init__(self, spans: Iterable[Span]) -> None:
        by_document = group_by(spans, lambda span: span.doc_id)
        self._parts = {doc_id: union((s.start, s.end) for s in own) for doc_id, own in by_document.items()}

    def pieces(self, span: Span) -> Iterator[tuple[Span, bool]]:
        """Yield pieces that tile the span, each with true if no other context holds it."""
        parts = self._parts.get(span.doc_id, [])
        position = span.start
        for start, end in parts[bisect_right(parts, span.start, key=lambda part: part[1]) :]:
            if start >= span.end:
                break
            if start > position:
                yield Span(span.doc_id, position, start), True
            yield Span(span.doc_id, max(start, position), min(end, span.end)), False
            position = min(end, span.end)
        if position < span.end:
            yield Span(span.doc_id, position, span.end), True


def other_spans(contexts: Sequence[Context]) -> list[OtherSpans]:
    """Return, for each context, the spans of all others."""
    own = list(map(spans_of, contexts))
    return [OtherSpans(span for j, spans in enumerate(own) if j != i for span in spans) for i in range(len(own))]


def unshared_texts(context: Context, others: OtherSpans, text_of: Callable[[Span], str]) -> list[tuple[Span, str]]:
    """Return the spans that only this context holds, with their texts, in document order and stripped of white space.

    `text_of` returns the text of a span that a written passage was made from, or "" if its document is gone.
    """
    texts: dict[Span, str] = {}
    for passage in context.passages:
        texts.update(passage.parts() if passage.verbatim else ((span, text_of(span)) for span in passage.spans))
    own = ((span, piece) for span in sorted(texts) for piece, alone in others.pieces(span) if alone)
    bounds = ((s, *strip_span(texts[s], piece.start - s.start, piece.end - s.start)) for s, piece in own)
    pieces = ((Span(s.doc_id, s.start + a, s.start + b), texts[s][a:b]) for s, a, b in bounds)
    return [(span, text) for span, text in pieces if says_something(text)]
