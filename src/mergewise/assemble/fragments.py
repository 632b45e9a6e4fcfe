"""What every strategy works with: fragments of documents, and the candidates made of them that it selects from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from mergewise.text.sections import shared_path
from mergewise.types import Leaf, Span

SectionKey: TypeAlias = tuple[str, tuple[str, ...]]
"""A document's id and the headings in force: fragments with the same key share a heading line in the context."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """`text` is `document.text[start:end]`; `body` is where it begins after headings that the rendering repeats anyway."""

    doc_id: str
    title: str
    headings: tuple[str, ...]
    start: int
    end: int
    body: int
    text: str

    @property
    def span(self) -> Span:
        return Span(self.doc_id, self.start, self.end)

    @property
    def section(self) -> SectionKey:
        return self.doc_id, self.headings

    @property
    def visible(self) -> tuple[int, int, str]:
        """Start, end and text, without leading headings and without white space at the ends."""
        text = self.text[self.body - self.start :]
        start = self.body + len(text) - len(text.lstrip())
        text = text.strip()
        return start, start + len(text), text

    def cut(self, start: int, end: int) -> Fragment:
        return replace(
            self,
            start=start,
            end=end,
            body=min(max(start, self.body), end),
            text=self.text[start - self.start : end - self.start],
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is selected or skipped as a whole: a leaf, a merged parent, a cluster.

    `instead` is tried, best first, where the whole does not fit: the hits that a parent was made of.
    """

    fragments: tuple[Fragment, ...]
    score: float
    instead: tuple[Candidate, ...] = ()


def fragment_of(leaves: Sequence[Leaf]) -> Fragment:
    """Neighbouring leaves of one document, in order, as one fragment under the headings that they share.

    Where they do not share all of them, the heading lines stay in the text.
    """
    first, last = leaves[0], leaves[-1]
    shared = shared_path([leaf.headings for leaf in leaves]) if len(leaves) > 1 else first.headings
    return Fragment(
        doc_id=first.doc_id,
        title=first.title,
        headings=shared,
        start=first.start,
        end=last.end,
        body=first.body if shared == first.headings else first.start,
        text="".join(leaf.text for leaf in leaves),
    )


def uncovered(fragment: Fragment, taken: Sequence[Fragment]) -> list[Fragment]:
    """The parts of the fragment that none of `taken` holds, in order."""
    parts: list[Fragment] = []
    position = fragment.start
    covered = sorted((other.start, other.end) for other in taken if other.span.overlaps(fragment.span))
    for start, end in covered:
        if start > position:
            parts.append(fragment.cut(position, start))
        position = max(position, end)
    if position < fragment.end:
        parts.append(fragment.cut(position, fragment.end))
    return [part for part in parts if part.visible[2]]
