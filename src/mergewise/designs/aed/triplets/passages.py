"""Passages as the triplet view reads them: a document divided by the rule by which strategies retrieve them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from mergewise.index.tree.reader import extent
from mergewise.index.writing.segments import Segment
from mergewise.types import DocumentRows, Leaf


def passages_of(document: DocumentRows, longest: int) -> list[list[Leaf]]:
    """The passages of a document as their leaves, in order. Together they hold every leaf once."""
    sections = {section.id: section for section in document["section"]}
    grouped = groupby(document["leaf"], key=lambda leaf: extent(leaf, sections, longest))
    return [list(leaves) for _, leaves in grouped]


def segments_of(passages: Sequence[Sequence[Leaf]]) -> list[Segment]:
    """The passages as the numbered paragraphs that a model is shown."""
    return [
        Segment(
            number,
            leaves[0].start,
            leaves[-1].end,
            sum(leaf.tokens for leaf in leaves),
            leaves[0].headings,
            tuple(sentence for leaf in leaves for sentence in leaf.sentences),
        )
        for number, leaves in enumerate(passages)
    ]
