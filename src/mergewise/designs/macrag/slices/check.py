"""What `check` demands of a document's slices: no gap, no lost tail, texts that are those of their spans, parents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from mergewise.designs.macrag.slices.records import SLICE_GAP, Chunk, Slice
from mergewise.designs.macrag.slices.settings import SliceSettings
from mergewise.types import DocumentRows


def problems(rows: DocumentRows, settings: SliceSettings, dimension: int) -> Iterator[str]:
    """What is wrong with one document's chunks and slices."""
    text = rows.document.text
    chunks: Sequence[Chunk] = rows["chunk"]
    slices: Sequence[Slice] = rows["slice"]
    if not chunks or not slices:
        yield "has no slices"
        return
    if chunks[0].start != 0 or chunks[-1].end != len(text) or any(a.end < b.start for a, b in pairwise(chunks)):
        yield "the chunks do not cover the document"
    if any(text[row.start : row.end] != row.text for row in chunks):
        yield "a chunk's text is not the text of its span"
    leaves = {leaf.id for leaf in rows["leaf"]}
    if any(row.first_leaf not in leaves or row.first_leaf + row.leaf_count - 1 not in leaves for row in chunks):
        yield "a chunk names leaves of another document"
    by_id = {row.id: row for row in chunks}
    for piece in slices:
        parent = by_id.get(piece.chunk)
        if parent is None or any(not parent.start <= a < b <= parent.end for a, b in piece.parts):
            yield "a slice is not in its chunk"
            break
        if parent.parts and SLICE_GAP.join(text[a:b] for a, b in piece.parts) != piece.text:
            yield "a slice's text is not the text of its spans"
            break
    if any(not _is_sliced(chunk, [row for row in slices if row.chunk == chunk.id]) for chunk in chunks):
        yield "the slices do not add up to the summaries"


def _is_sliced(chunk: Chunk, slices: Sequence[Slice]) -> bool:
    """Whether the slices hold every character of a verbatim summary, or are there for one that a model wrote."""
    if not chunk.parts:
        return bool(slices) or not chunk.summary.strip()
    held = {at for piece in slices for start, end in piece.parts for at in range(start, end)}
    said = (at for start, end in chunk.parts for at in range(start, end))
    return all(at in held or chunk.text[at - chunk.start].isspace() for at in said)
