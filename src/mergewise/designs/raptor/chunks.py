"""The view `raptor`: the leaves of the tree of summaries, chunks of whole sentences of at most 100 tokens, without overlap.

The tree covers all documents, so it cannot be stored in the rows of one document. It is computed from all chunks (`tree`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Literal

from mergewise.designs.raptor.clusters import Reduce
from mergewise.index.tree.tables import KEY
from mergewise.index.views import with_vectors
from mergewise.index.windows import windows
from mergewise.models.record import Models
from mergewise.ranges import CheckedFields, Range
from mergewise.store.tables import Table
from mergewise.store.views import ViewRows
from mergewise.text.sections import shared_headings
from mergewise.types import DocumentRows, Leaf, LeafId, OverLeaves, RowId, Rows, Spanned, frozen


@frozen
class RaptorSettings(CheckedFields):
    """Settings of the view `raptor`. The defaults equal RAPTOR's code, except that they need no further package and no model."""

    chunk: Annotated[int, Range(1, 1_000_000), "tokens of a chunk; a longer sentence is a chunk of its own"] = 100
    layers: Annotated[int, Range(1, 20), "maximum layers of summaries; a layer of up to eleven nodes is the last"] = 5
    summary: Annotated[
        Literal["extractive", "abstractive"],
        "summary of a cluster: its sentences nearest to the mean, or a text by the chat model",
    ] = "extractive"
    summary_tokens: Annotated[int, Range(1, 10_000), "tokens of a summary"] = 100
    reduce: Annotated[Reduce, "projection of vectors before clustering; `umap` needs the extra `raptor`"] = "pca"


PRESETS = {"paper": {"summary": "abstractive", "reduce": "umap"}}
"""`paper`: UMAP and summaries by a model, as in RAPTOR's code. The default sizes already equal RAPTOR's."""


@frozen
class RaptorChunk(Spanned, OverLeaves):
    """A stretch of whole sentences, a leaf of the tree. It touches `leaf_count` leaves of the index from `first_leaf` on."""

    id: RowId
    doc_id: str
    title: str
    headings: tuple[str, ...]
    start: int
    end: int
    first_leaf: LeafId
    leaf_count: int
    tokens: int
    text: str  # document.text[start:end]


CHUNKS = Table("raptor", RaptorChunk, (KEY,), vectors=("vector",), text="key", mapped=True)


def build(documents: Sequence[DocumentRows], settings: RaptorSettings, models: Models) -> list[ViewRows]:
    """Build the chunks of each document. All chunks are embedded in one call."""
    chunks = [{CHUNKS.name: Rows(_chunks(rows, settings.chunk))} for rows in documents]
    return with_vectors(chunks, CHUNKS.name, models.embedder)


def _chunks(rows: DocumentRows, size: int) -> tuple[RaptorChunk, ...]:
    text = rows.document.text
    leaves: Sequence[Leaf] = rows["leaf"]
    units = [(n, leaf, at) for n, leaf in enumerate(leaves) for at in range(len(leaf.sentences))]
    # The first sentence of a leaf includes the headings before it, so that chunks tile the text.
    starts = [leaf.start if at == 0 else leaf.sentences[at].start for _, leaf, at in units]
    ends = [*starts[1:], leaves[-1].end] if units else []
    tokens = [leaf.sentences[at].tokens for _, leaf, at in units]
    chunks: list[RaptorChunk] = []
    for first, end in windows(tokens, size, 0):
        touched = leaves[units[first][0] : units[end - 1][0] + 1]
        chunks.append(
            RaptorChunk(
                id=len(chunks),
                doc_id=rows.document.id,
                title=leaves[0].title,
                headings=shared_headings(touched),
                start=starts[first],
                end=ends[end - 1],
                first_leaf=units[first][0],
                leaf_count=len(touched),
                tokens=sum(tokens[first:end]),
                text=text[starts[first] : ends[end - 1]],
            )
        )
    return tuple(chunks)


def problems(rows: DocumentRows, settings: RaptorSettings, dimension: int) -> Iterator[str]:
    """Yield the problems of one document's chunks."""
    text = rows.document.text
    chunks: Sequence[RaptorChunk] = rows[CHUNKS.name]
    sentences = [sentence for leaf in rows["leaf"] for sentence in leaf.sentences]
    if sentences and not chunks:
        yield "has no raptor chunks"
        return
    if any(text[chunk.start : chunk.end] != chunk.text for chunk in chunks):
        yield "a raptor chunk's text is not the text of its span"
    tiling = all(a.end == b.start for a, b in pairwise(chunks))
    if not tiling or (sentences and not chunks[0].start <= sentences[0].start <= sentences[-1].end <= chunks[-1].end):
        yield "the raptor chunks do not cover the document"
    leaves = {leaf.id for leaf in rows["leaf"]}
    if any(not leaves.issuperset(chunk.leaves) for chunk in chunks):
        yield "a raptor chunk names leaves of another document"
