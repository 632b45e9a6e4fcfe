"""The invariants of an index, checked one by one against what is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from mergewise.protocols import StoreReader
from mergewise.types import SLICE_GAP, Chunk, DocumentRows, Leaf, Problem, Section, Slice, SliceRows

_DOCUMENTS_AT_ONCE = 64
_UNIT = 0.01  # how far a stored float16 vector's length may be from 1


def audit(reader: StoreReader, dimension: int) -> list[Problem]:
    """Every broken invariant: ids, counts, texts, tiling, parents, vectors, and rows that belong to no document."""
    ids = [info.id for info in reader.documents()]
    problems = [Problem("is in the index more than once", doc_id) for doc_id, n in Counter(ids).items() if n > 1]
    seen = Counter(documents=0, leaf=0, section=0, name=0)
    unique = list(dict.fromkeys(ids))
    for first in range(0, len(unique), _DOCUMENTS_AT_ONCE):
        for rows in reader.stored(unique[first : first + _DOCUMENTS_AT_ONCE]):
            seen.update(documents=1, leaf=len(rows.leaves), section=len(rows.sections), name=len(rows.names))
            problems += [Problem(what, rows.document.id) for what in document_problems(rows, dimension)]
            if rows.slices is not None:
                seen.update(chunk=len(rows.slices.chunks), slice=len(rows.slices.slices))
                problems += [Problem(what, rows.document.id) for what in slice_problems(rows, rows.slices, dimension)]
            elif "slice" in reader.views:
                problems.append(Problem("has no slices", rows.document.id))
    problems += [
        Problem(f"{count - seen[table]} rows of the table {table!r} belong to no document")
        for table, count in reader.row_counts().items()
        if count > seen[table]
    ]
    return problems


def document_problems(rows: DocumentRows, dimension: int) -> Iterator[str]:
    """What is wrong with one document's rows."""
    text = rows.document.text
    if not rows.leaves or not rows.sections:
        yield "has no leaves or no sections"
        return
    first = rows.leaves[0].id
    if [x.id for x in rows.leaves] != list(range(first, first + len(rows.leaves))):
        yield "leaf ids are not consecutive"
    if "".join(x.text for x in rows.leaves) != text:
        yield "the leaves do not add up to the document's text"
    if any(text[x.start : x.end] != x.text or not x.start <= x.body <= x.end for x in rows.leaves):
        yield "a leaf's text is not the text of its span"
    yield from _tree_problems(rows.leaves, rows.sections, len(text))
    yield from _sentence_problems(rows, dimension)
    if any(
        name.first_leaf < first or name.first_leaf + name.leaf_count > first + len(rows.leaves) for name in rows.names
    ):
        yield "a name stands for leaves of another document"
    if dimension:
        yield from _vector_problems(rows, dimension)


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
        yield "the root section is not the whole document"
    for section in sections:
        spans = [(start, end) for _, start, end in sorted(children[section.id])]
        tiled = bool(spans) and spans[0][0] == section.start and spans[-1][1] == section.end
        if not tiled or any(left[1] != right[0] for left, right in pairwise(spans)):
            yield f"the children of section {section.id} do not tile it"
        if len(spans) != section.children:
            yield f"section {section.id} has {len(spans)} children, not {section.children}"


def _sentence_problems(rows: DocumentRows, dimension: int) -> Iterator[str]:
    if len(rows.sentences) != len(rows.leaves):
        yield "the sentences are not those of the leaves"
        return
    for leaf, sentences in zip(rows.leaves, rows.sentences, strict=True):
        bounds = [leaf.body, *(at for sentence in sentences for at in (sentence.start, sentence.end)), leaf.end]
        said = "".join(rows.document.text[sentence.start : sentence.end] for sentence in sentences)
        whole = rows.document.text[leaf.body : leaf.end]
        if bounds != sorted(bounds) or "".join(said.split()) != "".join(whole.split()):
            yield "the sentences do not add up to their leaf"
            break
    vectors = rows.sentence_vectors
    shapes = [(len(sentences), dimension) for sentences in rows.sentences]
    if vectors is not None and [own.shape for own in vectors] != shapes:
        yield "vectors of sentences are missing or of the wrong dimension"


def _vector_problems(rows: DocumentRows, dimension: int) -> Iterator[str]:
    vectors = rows.vectors
    if vectors is None or vectors.shape != (len(rows.leaves), dimension):
        yield "vectors are missing or of the wrong dimension"
    elif not np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=_UNIT):
        yield "a vector is not of unit length"


def slice_problems(rows: DocumentRows, own: SliceRows, dimension: int) -> Iterator[str]:
    """What is wrong with one document's slice view: gaps, tails, texts that are not those of their spans, parents."""
    text, chunks = rows.document.text, own.chunks
    ids = [x.id for x in chunks] + [x.id for x in own.slices]
    if ids != list(range(ids[0], ids[0] + len(ids))):
        yield "ids of chunks and slices are not consecutive"
    if chunks[0].start != 0 or chunks[-1].end != len(text) or any(a.end < b.start for a, b in pairwise(chunks)):
        yield "the chunks do not cover the document"
    if any(text[x.start : x.end] != x.text for x in chunks):
        yield "a chunk's text is not the text of its span"
    leaves = {leaf.id: leaf for leaf in rows.leaves}
    if any(x.first_leaf not in leaves or x.first_leaf + x.leaf_count - 1 not in leaves for x in chunks):
        yield "a chunk names leaves of another document"
    by_id = {x.id: x for x in chunks}
    for piece in own.slices:
        parent = by_id.get(piece.chunk)
        if parent is None or any(not parent.start <= a < b <= parent.end for a, b in piece.parts):
            yield "a slice is not in its chunk"
            break
        if parent.parts and SLICE_GAP.join(text[a:b] for a, b in piece.parts) != piece.text:
            yield "a slice's text is not the text of its spans"
            break
    if any(not _is_sliced(chunk, [x for x in own.slices if x.chunk == chunk.id]) for chunk in chunks):
        yield "the slices do not add up to the summaries"
    for vectors, count in (
        (own.vectors, len(own.slices)),
        (own.chunk_vectors, len(chunks)),
        (own.summary_vectors, len(chunks)),
    ):
        if vectors is not None and vectors.shape != (count, dimension):
            yield "vectors of slices are missing or of the wrong dimension"
    if dimension and own.vectors is None:
        yield "slices have no vectors"


def _is_sliced(chunk: Chunk, own: Sequence[Slice]) -> bool:
    """Whether the slices hold every character of a verbatim summary, or are there for one that a model wrote."""
    if not chunk.parts:
        return bool(own) or not chunk.summary.strip()
    held = {at for piece in own for start, end in piece.parts for at in range(start, end)}
    said = (at for start, end in chunk.parts for at in range(start, end))
    return all(at in held or chunk.text[at - chunk.start].isspace() for at in said)
