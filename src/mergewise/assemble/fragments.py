"""Fragments of documents, the candidates made of them that strategies select from, and their passages in reading order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import is_
from typing import Annotated, Literal, Self, TypeAlias, TypeVar

from mergewise.text.blocks import shown_levels
from mergewise.text.markup import readable, says_something
from mergewise.text.sections import shared_headings
from mergewise.text.sentences import split_sentences
from mergewise.text.spans import indent_of
from mergewise.types import GAP, Leaf, Passage, Span, Step, frozen
from mergewise.types.answers import best_first
from mergewise.types.documents import Spanned

T = TypeVar("T")

SectionKey: TypeAlias = tuple[str, tuple[str, ...]]
"""A document id and the headings in force. Fragments with the same key share a heading line in the context."""
HeadingParts: TypeAlias = tuple[Hashable, tuple[str, ...], bool]
"""The parts of a heading line: the place, the levels, and whether a model wrote the text below.

Passages of one place, such as a document, follow each other in the context. So each level is shown once.
"""


@frozen
class Fragment(Spanned):
    """A part of a document, `document.text[start:end]`.

    Attributes:
        doc_id: The document's id.
        title: The document's title.
        headings: The headings in force, outermost first.
        start: Offset of the first character.
        end: Offset after the last character.
        body: Offset where the text begins after leading headings, which the rendering repeats.
        text: The text.
    """

    doc_id: str
    title: str
    headings: tuple[str, ...]
    start: int
    end: int
    body: int
    text: str

    @property
    def section(self) -> SectionKey:
        return self.doc_id, self.headings

    @property
    def visible(self) -> tuple[int, int, str]:
        """The start, the end and the text, without leading headings and without white space at the ends."""
        text = self.text[self.body - self.start :]
        start = self.body + indent_of(text)
        text = text.strip()
        return start, start + len(text), text

    def cut(self, start: int, end: int) -> Fragment:
        """Return the part of the fragment between two offsets of the document."""
        body, text = min(max(start, self.body), end), self.text[start - self.start : end - self.start]
        return Fragment(self.doc_id, self.title, self.headings, start, end, body, text)

    def beginnings(self) -> Iterator[Fragment]:
        """Yield the fragment cut off after each sentence but the last, longest first. Skip pieces that hold only mark-up."""
        first, _, text = self.visible
        plain = readable(text)
        for _, end in reversed(split_sentences(text)[:-1]):
            if says_something(plain[:end]):
                yield self.cut(self.start, first + end)


@frozen
class Candidate:
    """A unit that is selected or skipped as a whole, such as a leaf, a merged parent or a cluster.

    Attributes:
        fragments: The parts of documents that it consists of.
        score: The score that candidates are ranked by.
        instead: Smaller candidates to try if this one does not fit, best first, such as the hits below a parent.
    """

    fragments: tuple[Fragment, ...]
    score: float
    instead: tuple[Self, ...] = ()

    @property
    def documents(self) -> set[str]:
        return {fragment.doc_id for fragment in self.fragments}

    @property
    def spans(self) -> tuple[Span, ...]:
        return tuple(fragment.span for fragment in self.fragments)

    @property
    def texts(self) -> list[str]:
        """The visible texts of the fragments."""
        return [fragment.visible[2] for fragment in self.fragments]

    @property
    def headings(self) -> dict[Hashable, HeadingParts]:
        """The heading lines, by section. Fragments of one section share a line."""
        firsts = {fragment.section: fragment for fragment in reversed(self.fragments)}
        return {
            section: (first.doc_id, shown_levels(first.title, first.headings, first.visible[2]), False)
            for section, first in firsts.items()
        }

    def without_headings(self) -> Self:
        bare = (replace(fragment, title="", headings=()) for fragment in self.fragments)
        return replace(self, fragments=tuple(bare), instead=tuple(one.without_headings() for one in self.instead))

    def beyond(self, taken: Sequence[Self]) -> Self | None:
        """Return the candidate without the text of others.

        Args:
            taken: The candidates whose text is left out.

        Returns:
            The rest of the candidate, or None if nothing is left.
        """
        held = [fragment for other in taken for fragment in other.fragments]
        parts: list[Fragment] = []
        for fragment in self.fragments:
            parts += uncovered_parts(fragment, [*held, *parts])
        if len(parts) == len(self.fragments) and all(map(is_, parts, self.fragments)):
            return self
        return replace(self, fragments=tuple(parts)) if parts else None

    def beginnings(self, taken: Sequence[Self]) -> Iterator[Self]:
        """Yield the first sentences of its first new part, longest piece first.

        Args:
            taken: The candidates whose text does not count as new.
        """
        new = self.beyond(taken)
        for piece in new.fragments[0].beginnings() if new is not None else ():
            yield replace(self, fragments=(piece,), instead=())

    def cut_step(self, beginning: Self) -> Step:
        """Return the trace step for taking this beginning."""
        return Step("cut", "first sentences", self.spans, beginning.fragments[0].span, self.score)


def fragment_of(leaves: Sequence[Leaf]) -> Fragment:
    """Join neighbouring leaves of one document, in order, into one fragment under their shared headings.

    If their headings differ, the heading lines stay in the text.
    """
    first, last = leaves[0], leaves[-1]
    shared = shared_headings(leaves) if len(leaves) > 1 else first.headings
    body = first.body if shared == first.headings else first.start
    text = "".join(leaf.text for leaf in leaves)
    return Fragment(first.doc_id, first.title, shared, first.start, last.end, body, text)


def split_runs(items: Iterable[T], joins: Callable[[T, T], bool]) -> list[list[T]]:
    """Split the items into runs. An item continues the run of the item before it if `joins` holds for the two."""
    runs: list[list[T]] = []
    for item in items:
        if runs and joins(runs[-1][-1], item):
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs


def join_touching(fragments: Iterable[Fragment]) -> list[Fragment]:
    """Join fragments of one section that follow each other without a gap."""
    return [
        run[0] if len(run) == 1 else replace(run[0], end=run[-1].end, text="".join(one.text for one in run))
        for run in split_runs(fragments, lambda left, right: left.end == right.start and left.section == right.section)
    ]


def uncovered_parts(fragment: Fragment, taken: Sequence[Fragment]) -> list[Fragment]:
    """Return the parts of the fragment that none of `taken` covers, in order."""
    parts: list[Fragment] = []
    position, stop, doc_id = fragment.start, fragment.end, fragment.doc_id
    overlapping = [
        (other.start, other.end)
        for other in taken
        if other.start < stop and position < other.end and other.doc_id == doc_id
    ]
    if not overlapping:
        return [fragment] if fragment.visible[2] else []
    for start, end in sorted(overlapping):
        if start > position:
            parts.append(fragment.cut(position, start))
        position = max(position, end)
    if position < fragment.end:
        parts.append(fragment.cut(position, fragment.end))
    return [part for part in parts if part.visible[2]]


# -- passages: fragments of one section that touch are joined, and a gap between them is marked

Order: TypeAlias = Annotated[
    Literal["document", "score"], "`document` keeps the order of the documents, `score` shows the best first"
]


def passages_of(selected: Sequence[Candidate], order: Order) -> list[Passage]:
    """Arrange the selected candidates as passages in reading order.

    "score": best candidate first, a passage for each candidate. "document": documents by their best candidate, and within a
    document by position, so that each heading line appears once above all of its text.
    """
    if order == "score":
        ranked = best_first(selected)
        return [passage for candidate in ranked for passage in _passages(_pieces(candidate))]
    best: dict[str, float] = {}
    pieces = [piece for candidate in selected for piece in _pieces(candidate)]
    for score, fragment in pieces:
        best[fragment.doc_id] = max(score, best.get(fragment.doc_id, score))
    return _passages(sorted(pieces, key=lambda p: (-best[p[1].doc_id], p[1].doc_id, p[1].start)))


def _pieces(candidate: Candidate) -> list[tuple[float, Fragment]]:
    return [(candidate.score, fragment) for fragment in candidate.fragments]


def _passages(pieces: Sequence[tuple[float, Fragment]]) -> list[Passage]:
    passages = []
    for (doc_id, headings), group in groupby(pieces, key=lambda p: p[1].section):
        members = sorted(group, key=lambda p: p[1].start)
        runs = [fragment.visible for fragment in join_touching(fragment for _, fragment in members)]
        text, score = GAP.join(text for _, _, text in runs), max(score for score, _ in members)
        spans = tuple(Span(doc_id, start, end) for start, end, _ in runs)
        passages.append(Passage(text, score, spans, title=members[0][1].title, headings=headings))
    return passages
