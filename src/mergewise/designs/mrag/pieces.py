"""Parts of a context from markers: parts of the document, or sentences that a model wrote from it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal, TypeAlias

from mergewise.assemble.fragments import (
    Candidate,
    Fragment,
    HeadingParts,
    SectionKey,
    passages_of,
    split_runs,
    uncovered_parts,
)
from mergewise.designs.mrag.markers import Marker, ValueSentence
from mergewise.grouping import group_by
from mergewise.text.blocks import shown_levels
from mergewise.text.spans import indent_of, spans_in
from mergewise.text.terms import content_terms
from mergewise.types import GAP, Passage, RowId, Span, Step
from mergewise.types.answers import best_first

ReadingOrder: TypeAlias = Literal["position", "similarity"]
PieceHeading: TypeAlias = tuple[SectionKey, bool, RowId | None]

SAME = 0.8  # minimum share of content words for a duplicate of a written sentence from the same source


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuePiece(Candidate):
    """A marker with the selected sentences of its value. `fragments` holds these sentences if they are verbatim.

    A piece with `alone` does not share its heading line with others.
    """

    marker: Marker
    sentences: tuple[ValueSentence, ...]
    alone: bool

    @property
    def documents(self) -> set[str]:
        return {self.marker.doc_id}

    @property
    def heading(self) -> PieceHeading:
        """Key of the pieces that share a heading line."""
        return (self.marker.doc_id, self.marker.headings), self.marker.written, self.marker.id if self.alone else None

    @property
    def headings(self) -> dict[Hashable, HeadingParts]:
        # Another order may show another document in between, so the lines share no levels.
        levels = shown_levels(self.marker.title, self.marker.headings, self.texts[0])
        return {self.heading: (self.heading, levels, self.marker.written)}

    @property
    def texts(self) -> list[str]:
        if self.marker.written:
            return [value_text(self.marker, self.sentences)]
        return [fragment.visible[2] for fragment in self.fragments]

    @property
    def spans(self) -> tuple[Span, ...]:
        """Spans of the piece, or the spans that it was written from."""
        if not self.marker.written:
            return tuple(fragment.span for fragment in self.fragments)
        held = dict.fromkeys(part for sentence in self.sentences for part in sentence.support)
        return spans_in(self.marker.doc_id, sorted(held or self.marker.spans))

    def beyond(self, taken: Sequence[ValuePiece]) -> ValuePiece | None:
        if not self.marker.written:
            held = [fragment for other in taken for fragment in other.fragments]
            left = [part for fragment in self.fragments for part in uncovered_parts(fragment, held)]
            if not left:
                return None
            doc_id, spans = self.marker.doc_id, [fragment.span for fragment in left]
            kept = (
                one
                for one in self.sentences
                if any(span.overlaps(Span(doc_id, start, end)) for span in spans for start, end in one.support)
            )
            return replace(self, sentences=tuple(kept), fragments=tuple(left))
        sentences = tuple(s for s in self.sentences if not any(_is_duplicate(self.marker, s, other) for other in taken))
        return replace(self, sentences=sentences) if sentences else None

    def beginnings(self, taken: Sequence[ValuePiece]) -> Iterator[ValuePiece]:
        for count in range(len(self.sentences) - 1, 0, -1):
            beginning = _piece(self.marker, self.score, self.sentences[:count], self.alone).beyond(taken)
            if beginning is not None:
                yield beginning

    def cut_step(self, beginning: ValuePiece) -> Step:
        return Step("cut", "first sentences", beginning.spans, score=self.score)


def piece_of(marker: Marker, score: float, *, headed: bool = True) -> ValuePiece:
    """Return the value of a marker as a piece. Without `headed`, it has no title and headings, and is alone."""
    shown = marker if headed else replace(marker, title="", headings=())
    return _piece(shown, score, marker.sentences, alone=not headed)


def _piece(marker: Marker, score: float, sentences: tuple[ValueSentence, ...], alone: bool) -> ValuePiece:
    fragments = () if marker.written else tuple(_fragments(marker, sentences))
    return ValuePiece(fragments, score, marker=marker, sentences=sentences, alone=alone)


def value_text(marker: Marker, sentences: Sequence[ValueSentence]) -> str:
    """Join sentences of a value, with their original gaps. A space replaces omitted sentences."""
    text = ""
    for number, sentence in enumerate(sentences):
        before = sentences[number - 1] if number else None
        gap = "" if before is None else marker.value[before.end : sentence.start]
        text += (gap if not gap.strip() else " ") + marker.value[sentence.start : sentence.end]
    return text


def _fragments(marker: Marker, sentences: Sequence[ValueSentence]) -> Iterable[Fragment]:
    """Yield the sentences of a verbatim value as fragments of the document, each with the white space after it."""

    def are_adjacent(one: ValueSentence, other: ValueSentence) -> bool:
        # The sentences have the same distance in the document as in the value.
        return other.support[0][0] - one.support[0][0] == other.start - one.start and other.start > one.start

    for run in split_runs(sentences, are_adjacent):
        first, last = run[0], run[-1]
        start, end = first.support[0][0], last.support[0][1]
        after = marker.value[last.end :]
        after = "" if after.startswith(GAP) else after[: indent_of(after)]
        text = marker.value[first.start : last.end] + after
        yield Fragment(marker.doc_id, marker.title, marker.headings, start, end + len(after), start, text)


# -- duplicates


def _is_duplicate(marker: Marker, sentence: ValueSentence, other: ValuePiece) -> bool:
    """Check whether the other piece quotes the support of the sentence, or has a similar sentence with the same support."""
    if not sentence.support:
        return False
    if not other.marker.written:
        return all(any(f.start <= start and end <= f.end for f in other.fragments) for start, end in sentence.support)
    terms = content_terms(marker.value[sentence.start : sentence.end])
    return any(
        set(sentence.support) <= set(known.support)
        and len(terms & content_terms(other.marker.value[known.start : known.end])) >= SAME * len(terms)
        for known in other.sentences
    )


# -- passages


def passages(pieces: Sequence[ValuePiece], order: ReadingOrder) -> list[Passage]:
    """Sort the pieces into reading order. Pieces with the same heading form a passage.

    "position": documents by their best marker, each in its own order. "similarity": headings by their best marker.
    """
    if order == "similarity":
        by_heading = group_by(best_first(pieces), lambda piece: piece.heading)
        return [passage for group in by_heading.values() for passage in _passages(group)]
    best: dict[str, float] = {}
    for piece in pieces:
        best[piece.marker.doc_id] = max(piece.score, best.get(piece.marker.doc_id, piece.score))
    parts: list[ValuePiece] = []
    for piece in pieces:
        # The fragments of a verbatim piece may be far apart. A piece with `alone` is not split.
        whole = piece.alone or piece.marker.written
        parts += [piece] if whole else [replace(piece, fragments=(fragment,)) for fragment in piece.fragments]
    parts.sort(key=lambda part: (-best[part.marker.doc_id], part.marker.doc_id, min(part.spans).start))
    return [p for _, group in groupby(parts, key=lambda part: part.heading) for p in _passages(list(group))]


def _passages(pieces: Sequence[ValuePiece]) -> list[Passage]:
    """Return the passages of pieces with the same heading. Either all pieces are written, or all are verbatim."""
    if not pieces[0].marker.written:
        return passages_of([Candidate(piece.fragments, piece.score) for piece in pieces], "document")
    marker = pieces[0].marker
    spans = dict.fromkeys(span for piece in pieces for span in piece.spans)
    text = "\n".join(value_text(piece.marker, piece.sentences) for piece in pieces)
    return [Passage(text, max(piece.score for piece in pieces), tuple(spans), False, marker.title, marker.headings)]
