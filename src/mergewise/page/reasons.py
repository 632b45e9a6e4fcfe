"""The reason of each stretch of a context, and the left-out candidates, read from the steps of a trace.

A step covers spans. If several steps cover a stretch, the most specific one gives the mark (the first in `KINDS`): a sentence
reached by a hop is a hop, a hit in a merged section is a hit, and the rest of that section is merged. A step of another cause
keeps the name of its action.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from mergewise.page.source_texts import Overlaps
from mergewise.text.spans import spans_of
from mergewise.types import Cause, Context, Span

LEFT_OUT = {
    Cause.LEFT: "left out",
    Cause.SKIP: "did not fit",
    Cause.DROP: "dropped",
    Cause.STOP: "not worth its tokens",
}


class Kind(NamedTuple):
    """A reason for taking a text: its CSS class (`name`), its label and meaning in the legend, and the causes of its steps."""

    name: str
    label: str
    meaning: str
    causes: tuple[Cause, ...] = ()


KINDS = {
    kind.name: kind
    for kind in (
        Kind("hop", "hop", "reached over a name in the evidence", (Cause.HOP,)),
        Kind("named", "named", "defines a name in the question", (Cause.NAMED,)),
        Kind("cut", "cut", "first sentences of a piece that did not fit", (Cause.CUT,)),
        Kind("fused", "fused", "sentences kept when chunks were fused", (Cause.FUSION,)),
        Kind("hit", "hit", "found by the search", (Cause.SEARCH, Cause.TAKE)),
        Kind("neighbour", "neighbour", "next to a hit", (Cause.NEIGHBOUR,)),
        Kind("merged", "merged", "rest of a section with several hits", (Cause.MERGE,)),
        Kind("round", "later round", "found in a later round of search", (Cause.ROUND,)),
        Kind("other", "other", "another step of the strategy", (Cause.OTHER,)),
        Kind("taken", "taken", "not explained by the trace"),
        Kind("written", "written", "written by a model, not quoted from a document"),
    )
}
RANK = {name: rank for rank, name in enumerate(KINDS)}
# of the text that a step took
KIND_OF_CAUSE = {cause: kind.name for kind in KINDS.values() for cause in kind.causes}


class Reason(NamedTuple):
    """The reason why a step took a text or left it out (kind "left"). `label` is the step's action for the kind "other"."""

    span: Span
    kind: str
    label: str
    why: str
    score: float | None = None


class Stretch(NamedTuple):
    """A piece of a passage's text with one kind. `kind` is empty for a piece without letters and digits."""

    span: Span
    text: str
    kind: str = ""
    reasons: tuple[Reason, ...] = ()

    @property
    def label(self) -> str:
        return self.reasons[0].label if self.reasons else KINDS[self.kind].label

    @property
    def score(self) -> float | None:
        return next((reason.score for reason in self.reasons if reason.score is not None), None)


class Marks:
    """The reasons of one context, by document."""

    def __init__(self, context: Context) -> None:
        self.taken = Overlaps(spans_of(context), lambda span: span)
        # the reasons of all steps, except merges whose result was later skipped or dropped as a whole
        passed = Overlaps(
            (span for step in context.trace if step.cause in (Cause.SKIP, Cause.DROP) for span in step.inputs),
            lambda span: span,
        )
        found: list[Reason] = []
        for step in context.trace:
            at = None if step.cause is Cause.CUT else step.output
            over = at is not None and any(span.contains(at) for span in passed.at(at))
            if not over and (name := KIND_OF_CAUSE.get(step.cause)):
                kind = KINDS[name]
                label = step.action if kind.name == "other" else kind.label
                why = kind.meaning if step.cause is Cause.SEARCH else step.reason
                found += [Reason(span, kind.name, label, why, step.score) for span in step.covers]
        self._reasons = Overlaps(dict.fromkeys(found), lambda reason: reason.span)
        self._stretches: dict[tuple[Span, str], list[Stretch]] = {}
        # candidates without any text in the context, best first; of overlapping candidates, only the best
        out: dict[Span, Reason] = {}
        for step in context.trace:
            if step.cause in LEFT_OUT:
                for span in step.inputs:
                    out.setdefault(span, Reason(span, "left", LEFT_OUT[step.cause], step.reason, step.score))
        absent = [left for left in out.values() if not self.taken.at(left.span)]
        ranked = sorted(absent, key=lambda left: 1.0 if left.score is None else -left.score)
        shown: dict[str, list[Span]] = {}  # sorted spans by document
        self.left_out = [left for left in ranked if _insert_disjoint(left.span, shown.setdefault(left.span.doc_id, []))]
        self.left = Overlaps(self.left_out, lambda out: out.span)

    def stretches(self, span: Span, text: str) -> list[Stretch]:
        """Split the text of a span into stretches with their reasons. Adjacent pieces with the same reasons are joined."""
        if (span, text) in self._stretches:
            return self._stretches[span, text]
        covering = self._reasons.at(span)
        pieces = [
            (
                Stretch(piece, words),
                sorted(
                    (r for r in covering if r.span.contains(piece)), key=lambda r: (RANK[r.kind], -(r.score or 0.0))
                ),
            )
            for piece, words in pieces_of(span, [reason.span for reason in covering], text)
        ]
        # an unexplained piece with words is a neighbour if its span has reasons elsewhere
        other = "neighbour" if any(own for _, own in pieces) else "taken"
        found: list[Stretch] = []
        for piece, own in pieces:
            if any(map(str.isalnum, piece.text)):
                piece = piece._replace(kind=own[0].kind if own else other, reasons=tuple(own))
            last = found[-1] if found else None
            if last is not None and (last.kind, _explanations(last)) == (piece.kind, _explanations(piece)):
                whole = replace(last.span, end=piece.span.end)
                found[-1] = last._replace(span=whole, text=last.text + piece.text)
            else:
                found.append(piece)
        self._stretches[span, text] = found
        return found


def _insert_disjoint(span: Span, others: list[Span]) -> bool:
    """Insert a span into a sorted list of disjoint spans. Return False, and leave the list, if it is empty or overlaps."""
    at = bisect_left(others, span)
    if not span or any(span.overlaps(other) for other in others[max(0, at - 1) : at + 1]):
        return False
    others.insert(at, span)
    return True


def pieces_of(span: Span, bounds: Iterable[Span], text: str) -> list[tuple[Span, str]]:
    """Split the span and its text at the bounds of the other spans."""
    inner = {at for other in bounds for at in (other.start, other.end) if span.start < at < span.end}
    return [
        (Span(span.doc_id, start, end), text[start - span.start : end - span.start])
        for start, end in pairwise([span.start, *sorted(inner), span.end])
    ]


def _explanations(piece: Stretch) -> set[str]:
    return {reason.why for reason in piece.reasons}


def kinds_in(stretches: Iterable[Stretch]) -> dict[tuple[str, str], int]:
    """Count the stretches by kind and label, in the order of `KINDS`."""
    counts = Counter((stretch.kind, stretch.label) for stretch in stretches if stretch.kind)
    return dict(sorted(counts.items(), key=lambda item: (RANK[item[0][0]], item[0][1])))
