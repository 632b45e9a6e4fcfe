"""Why each stretch of a context is there, and what was left out: read from the steps of a trace.

A step covers spans. What a stretch is marked as is the most telling of the steps that cover it (`KINDS` in order): a
sentence that a hop led to is a hop, a hit in a merged section is a hit, and the rest of that section is merged. A step of
another cause keeps the name of its action.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mergewise.page.source_texts import Overlaps
from mergewise.types import Cause, Context, Span, Step

LEFT_OUT = {
    Cause.LEFT: "left out",
    Cause.SKIP: "did not fit",
    Cause.DROP: "dropped",
    Cause.STOP: "not worth its tokens",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A reason for being taken: its CSS class, its name in the legend, what it means, and the causes of steps that give it."""

    name: str
    label: str
    meaning: str
    causes: tuple[Cause, ...] = ()


KINDS = {
    kind.name: kind
    for kind in (
        Kind("hop", "hop", "a name in the evidence led here", (Cause.HOP,)),
        Kind("named", "named", "the question names what this section defines", (Cause.NAMED,)),
        Kind("cut", "cut", "the first sentences of a piece that did not fit whole", (Cause.CUT,)),
        Kind("fused", "fused", "sentences kept when chunks were fused", (Cause.FUSION,)),
        Kind("hit", "hit", "found by the search", (Cause.SEARCH, Cause.TAKE)),
        Kind("neighbour", "neighbour", "came with what stands beside it", (Cause.NEIGHBOUR,)),
        Kind("merged", "merged", "the rest of a section whose parts were found", (Cause.MERGE,)),
        Kind("round", "later round", "found by a further round of search", (Cause.ROUND,)),
        Kind("other", "other", "another step of the strategy", (Cause.OTHER,)),
        Kind("taken", "taken", "no step of the trace says why"),
        Kind("written", "written", "a model wrote this; it is no text of a document"),
    )
}
RANK = {name: rank for rank, name in enumerate(KINDS)}
_KINDS_OF_CAUSES = {cause: kind.name for kind in KINDS.values() for cause in kind.causes}


def kind_of(step: Step) -> str:
    """Return the kind of what a step took; empty if it took nothing."""
    return _KINDS_OF_CAUSES.get(step.cause, "")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a step took the text that it covers, or left it out ("left"). `label` is the action where the kind does not tell."""

    span: Span
    kind: str
    label: str
    why: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of a passage's text, marked as one kind; `kind` is empty where it is white space or marks alone."""

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
        spans = [span for passage in context.passages for span in passage.spans]
        self.taken = Overlaps(spans, lambda span: span)
        self._reasons = Overlaps(dict.fromkeys(reasons(context.trace)), lambda reason: reason.span)
        self._stretches: dict[tuple[Span, str], list[Stretch]] = {}
        self.left_out = self._left_out(context.trace)
        self.left = Overlaps(self.left_out, lambda out: out.span)

    def stretches(self, span: Span, text: str) -> list[Stretch]:
        """The text of a span in pieces, each with what is said of it."""
        if (span, text) in self._stretches:
            return self._stretches[span, text]
        covering = self._reasons.at(span)
        pieces = [
            _stretch(piece, text[piece.start - span.start : piece.end - span.start], covering)
            for piece in pieces_of(span, [reason.span for reason in covering])
        ]
        found = any(piece.reasons for piece in pieces)
        self._stretches[span, text] = _unite_alike([_with_kind(piece, found) for piece in pieces])
        return self._stretches[span, text]

    def _left_out(self, trace: Sequence[Step]) -> list[Reason]:
        """Candidates of which nothing is in the context, the best first, and of those that overlap the best alone."""
        out: dict[Span, Reason] = {}
        for step in trace:
            if step.cause in LEFT_OUT:
                for span in step.inputs:
                    out.setdefault(span, Reason(span, "left", LEFT_OUT[step.cause], step.reason, step.score))
        absent = [left for left in out.values() if not self.taken.at(left.span)]
        ranked = sorted(absent, key=lambda left: 1.0 if left.score is None else -left.score)
        shown: dict[str, list[Span]] = {}  # of each document, in order
        return [left for left in ranked if _is_new(left.span, shown.setdefault(left.span.doc_id, []))]


def _is_new(span: Span, others: list[Span]) -> bool:
    """Whether the span has text and overlaps none of the others, which do not overlap either; it then joins them."""
    at = bisect_left(others, span)
    if not span or any(span.overlaps(other) for other in others[max(0, at - 1) : at + 1]):
        return False
    others.insert(at, span)
    return True


def reasons(trace: Iterable[Step]) -> list[Reason]:
    """What the steps say of the text that they cover. A merge that was later passed over as a whole says nothing."""
    steps = list(trace)
    passed = Overlaps(
        (span for step in steps if step.cause in (Cause.SKIP, Cause.DROP) for span in step.inputs), lambda span: span
    )
    found: list[Reason] = []
    for step in steps:
        at = None if step.cause is Cause.CUT else step.output
        over = at is not None and any(span.contains(at) for span in passed.at(at))
        if not over and (name := kind_of(step)):
            kind = KINDS[name]
            label = step.action if kind.name == "other" else kind.label
            why = kind.meaning if step.cause is Cause.SEARCH else step.reason
            found += [Reason(span, kind.name, label, why, step.score) for span in step.covers]
    return found


def pieces_of(span: Span, bounds: Iterable[Span]) -> list[Span]:
    """The span cut wherever one of the others begins or ends."""
    inner = {at for other in bounds for at in (other.start, other.end) if span.start < at < span.end}
    cuts = [span.start, *sorted(inner), span.end]
    return [Span(span.doc_id, start, end) for start, end in pairwise(cuts)]


def _stretch(piece: Span, text: str, covering: Sequence[Reason]) -> Stretch:
    own = sorted((r for r in covering if r.span.contains(piece)), key=lambda r: (RANK[r.kind], -(r.score or 0.0)))
    return Stretch(piece, text, own[0].kind if own else "", tuple(own))


def _with_kind(piece: Stretch, found: bool) -> Stretch:
    """With a kind, unless it has no word: beside a hit it is a neighbour, and alone nobody says why it was taken."""
    if not any(map(str.isalnum, piece.text)):
        return Stretch(piece.span, piece.text)
    return piece if piece.kind else Stretch(piece.span, piece.text, "neighbour" if found else "taken")


def _unite_alike(pieces: Sequence[Stretch]) -> list[Stretch]:
    """Neighbours of which the same is said, as one."""
    joined: list[Stretch] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last is not None and (last.kind, _explanations(last)) == (piece.kind, _explanations(piece)):
            span = Span(last.span.doc_id, last.span.start, piece.span.end)
            joined[-1] = Stretch(span, last.text + piece.text, last.kind, last.reasons)
        else:
            joined.append(piece)
    return joined


def _explanations(piece: Stretch) -> set[str]:
    return {reason.why for reason in piece.reasons}


def kinds_in(stretches: Iterable[Stretch]) -> dict[tuple[str, str], int]:
    """How many stretches there are of each kind, with its label, in the order of `KINDS`."""
    counts = Counter((stretch.kind, stretch.label) for stretch in stretches if stretch.kind)
    return dict(sorted(counts.items(), key=lambda item: (RANK[item[0][0]], item[0][1])))
