"""Which of many stretches overlap a given one, without a look at all of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Generic, TypeVar

from mergewise.types import Span

T = TypeVar("T")


class Overlaps(Generic[T]):
    """Things that cover spans, by document and start."""

    def __init__(self, things: Iterable[T], span_of: Callable[[T], Span]) -> None:
        by_document: dict[str, list[tuple[Span, T]]] = {}
        for thing in things:
            span = span_of(thing)
            by_document.setdefault(span.doc_id, []).append((span, thing))
        self._things = {doc: sorted(own, key=lambda pair: pair[0].start) for doc, own in by_document.items()}
        self._starts = {doc: [span.start for span, _ in own] for doc, own in self._things.items()}
        # how far the things up to each one reach: before the first that reaches a place, none does
        self._reach = {doc: list(accumulate((s.end for s, _ in own), max)) for doc, own in self._things.items()}

    def at(self, span: Span) -> list[T]:
        """The things that overlap the span, in the order of their starts."""
        if span.doc_id not in self._things:
            return []
        first = bisect_right(self._reach[span.doc_id], span.start)
        last = bisect_left(self._starts[span.doc_id], span.end)
        return [thing for own, thing in self._things[span.doc_id][first:last] if own.overlaps(span)]

    def around(self, span: Span) -> tuple[int, int | None]:
        """Where the things before the span end, and where the first one after it starts."""
        starts, reach = self._starts.get(span.doc_id, []), self._reach.get(span.doc_id, [])
        before, after = bisect_left(starts, span.start), bisect_left(starts, span.end)
        return (min(reach[before - 1], span.start) if before else 0), (starts[after] if after < len(starts) else None)
