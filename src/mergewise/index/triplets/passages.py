"""What a passage of AED-RAG is here: the outermost section of at most `longest` tokens around a leaf, or the leaf alone.

The paper's passages have a hundred words. The same rule tells the strategy what it retrieves and the view what its rows are
about, so that every passage has its own set of triplets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from mergewise.index.writing.segments import Segment
from mergewise.types import DocumentRows, Leaf, Section

LONGEST = 256


def extent(leaf: Leaf, sections: Mapping[int, Section], longest: int) -> range:
    """The leaves of the passage around this one."""
    around = (sections[section] for section in leaf.ancestors if section in sections)
    passage = next((section for section in around if section.tokens <= longest), None)
    if passage is None:
        return range(leaf.id, leaf.id + 1)
    return range(passage.first_leaf, passage.first_leaf + passage.leaf_count)


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
