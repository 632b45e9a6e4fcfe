"""The check of a document's tree: ids, texts, tiling, parents, sentences and vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from mergewise.index.tree.build import TreeSettings
from mergewise.text.markup import readable, says_something
from mergewise.types import DocumentRows, Leaf, Section

# maximum deviation of a stored float16 vector's length from 1
_UNIT = 0.01


def problems(rows: DocumentRows, settings: TreeSettings, dimension: int) -> Iterator[str]:
    """Yield the problems of one document's tree."""
    text = rows.document.text
    leaves: Sequence[Leaf] = rows["leaf"]
    sections: Sequence[Section] = rows["section"]
    if not leaves or not sections:
        yield "missing leaves or sections"
        return
    first, end = leaves[0].id, leaves[0].id + len(leaves)
    if "".join(leaf.text for leaf in leaves) != text:
        yield "the leaves do not add up to the text of the document"
    if any(text[leaf.start : leaf.end] != leaf.text or not leaf.start <= leaf.body <= leaf.end for leaf in leaves):
        yield "the text of a leaf differs from the document's text at its offsets"
    yield from _tree_problems(leaves, sections, len(text))
    yield from _sentence_problems(rows, dimension)
    if any(name.first_leaf < first or name.first_leaf + name.leaf_count > end for name in rows["name"]):
        yield "a name refers to leaves of another document"
    vectors = rows.column("leaf", "vector")
    lengths = np.empty(0) if vectors is None else np.linalg.norm(vectors, axis=1)
    # a missing vector is a row of NaN
    if not np.allclose(lengths[~np.isnan(lengths)], 1.0, atol=_UNIT):
        yield "a vector does not have unit length"


def _tree_problems(leaves: Sequence[Leaf], sections: Sequence[Section], length: int) -> Iterator[str]:
    by_id = {section.id: section for section in sections}
    children: dict[int, list[tuple[int, int, int]]] = {section.id: [] for section in sections}
    orphans = False
    for section in sections:
        if section.parent is not None:
            orphans |= section.parent not in by_id
            children.setdefault(section.parent, []).append((section.ordinal, section.start, section.end))
    for leaf in leaves:
        orphans |= any(ancestor not in by_id for ancestor in leaf.ancestors)
        children.setdefault(leaf.parent, []).append((leaf.ordinal, leaf.start, leaf.end))
    if orphans:
        yield "a parent is missing"
    roots = [section for section in sections if section.parent is None]
    if [(root.start, root.end) for root in roots] != [(0, length)]:
        yield "the root section does not cover the whole document"
    for section in sections:
        spans = [(start, end) for _, start, end in sorted(children[section.id])]
        tiled = bool(spans) and spans[0][0] == section.start and spans[-1][1] == section.end
        if not tiled or any(left[1] != right[0] for left, right in pairwise(spans)):
            yield f"the children of section {section.id} do not tile it"
        if len(spans) != section.children:
            yield f"section {section.id} has {len(spans)} children (expected {section.children})"


def _sentence_problems(rows: DocumentRows, dimension: int) -> Iterator[str]:
    plain = readable(rows.document.text)
    for leaf in rows["leaf"]:
        bounds = [leaf.body, *(at for sentence in leaf.sentences for at in (sentence.start, sentence.end)), leaf.end]
        between = zip(bounds[::2], bounds[1::2], strict=True)
        if bounds != sorted(bounds) or any(says_something(plain[start:end]) for start, end in between):
            yield "the sentences do not add up to their leaf"
            break
    by_id = {leaf.id: leaf for leaf in rows["leaf"]}
    for own, lead in [(leaf, lead) for leaf in rows["leaf"] for lead in leaf.leads or ()]:
        target = by_id.get(own.id - lead.back)
        before = lead.back > 0 or (lead.back == 0 and lead.of < lead.number)
        exists = target is not None and 0 <= lead.of < len(target.sentences)
        if not before or not exists or lead.number >= len(own.sentences):
            yield "a sentence refers to a missing earlier sentence"
            break
    packed = rows.column("leaf", "sentence_vectors") or ()
    sizes = [len(leaf.sentences) * dimension for leaf in rows["leaf"]]
    if any(vectors is not None and len(vectors) != size for vectors, size in zip(packed, sizes, strict=False)):
        yield "vectors of sentences are missing or have the wrong dimension"
