"""The settings, row and tables of the three views, their reader, how bounds become rows, and what `check` demands."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

from mergewise.index.tree.tables import SPANNED_KEY
from mergewise.index.views import PromptHash, search_rows, with_vectors
from mergewise.models.record import Models
from mergewise.protocols import RowReader, TokenCounter
from mergewise.ranges import CheckedFields, Range
from mergewise.store.tables import Table
from mergewise.store.views import Presets, ViewRows
from mergewise.text.keys import short_name
from mergewise.text.sections import shared_path
from mergewise.text.spans import Part
from mergewise.types import DocumentRows, Leaf, RowId, Rows, Span

_SIZE = Range(1, 1_000_000)
_Most = Annotated[int, _SIZE, "tokens; a chunk above this size is divided between sentences"]


@dataclass(frozen=True, slots=True)
class FixedSettings(CheckedFields):
    """M-RAG's Fixed-Size RAG has 128 tokens."""

    size: Annotated[int, _SIZE, "tokens of a chunk; the last one of a document has what is left"] = 128


@dataclass(frozen=True, slots=True)
class SemanticSettings(CheckedFields):
    """As Kamradt proposed it: a neighbour on each side, the 95th percentile."""

    neighbours: Annotated[int, Range(0, 10), "sentences on each side that a sentence is embedded with"] = 1
    percentile: Annotated[float, Range(0, 100), "of the document's distances: above it lies a breakpoint"] = 95.0
    most: _Most = 2000


SEMANTIC_PRESETS: Presets = {"paper": {"most": 1_000_000}}
PIC_PRESETS: Presets = {"paper": {"summary": "abstractive", "most": 1_000_000}}
"""`paper`: Kamradt's rule divides no chunk; PIC's summaries are a chat model's."""


@dataclass(frozen=True, slots=True)
class PICSettings(CheckedFields):
    """As in Wang et al. 2025, whose summaries a chat model writes."""

    summary: Annotated[
        Literal["extractive", "abstractive"], "of the document: by its own sentences, or by the chat model"
    ] = "extractive"
    sentences: Annotated[int, Range(1, 100), "of an extractive summary"] = 5
    group: Annotated[
        Literal["mean", "points"],
        "what a chunk is: a run of sentences on one side of the mean similarity with the summary, or a run of sentences that "
        "are nearest to the same sentence of the summary",
    ] = "mean"
    most: _Most = 2000
    prompt: PromptHash = ""


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A stretch of a document. The chunks of a view tile the document: no gap, no overlap, no lost tail.

    `headings` are those that all its text stands under, `body` is where it begins after these, and `cut` says how its bounds
    were found.
    """

    id: RowId
    doc_id: str
    title: str
    headings: tuple[str, ...]
    start: int
    end: int
    body: int
    tokens: int  # by the counter that ships with the package
    cut: str
    text: str  # document.text[start:end]

    @property
    def span(self) -> Span:
        return Span(self.doc_id, self.start, self.end)


FIXED, SEMANTIC, PIC = (
    Table(name, TextChunk, (SPANNED_KEY,), vectors=("vector",), text="key", mapped=True)
    for name in ("fixed", "semantic", "pic")
)

BY_SIZE, BY_DISTANCE = "size", "distance"
BY_EXTRACT, BY_WRITTEN = "extractive summary", "written summary"


class ChunkReader:
    """Of one of the three views, for the length of a question."""

    def __init__(self, table: str, rows: RowReader) -> None:
        self._table = table
        self._rows = rows

    def search(
        self, question: str, k: int, by: Literal["hybrid", "vectors"] = "hybrid"
    ) -> list[tuple[TextChunk, float]]:
        """The `k` best chunks with their scores, best first, by full text and vectors, or by vectors alone."""
        return search_rows(self._rows, self._table, TextChunk, question, k, by)


# -- from bounds to rows


def rows_from(
    table: Table,
    documents: Sequence[DocumentRows],
    bounds: Sequence[Sequence[Part]],
    cuts: Sequence[str],
    models: Models,
) -> list[ViewRows]:
    """The chunks of each document at these bounds, with `cuts` saying how they were found. All are embedded in one call."""
    views = [
        {table.name: Rows(_chunks(rows, parts, cut, models.count_tokens))}
        for rows, parts, cut in zip(documents, bounds, cuts, strict=True)
    ]
    return with_vectors(views, table.name, models.embedder)


def _chunks(rows: DocumentRows, bounds: Sequence[Part], cut: str, count_tokens: TokenCounter) -> tuple[TextChunk, ...]:
    text, leaves = rows.document.text, rows["leaf"]
    starts = [leaf.start for leaf in leaves]
    counts = count_tokens([text[start:end] for start, end in bounds])
    chunks = []
    for number, ((start, end), tokens) in enumerate(zip(bounds, counts, strict=True)):
        touched = leaves[bisect_right(starts, start) - 1 : bisect_left(starts, end)]
        headings, body = _headings_and_body(touched, start, end)
        chunks.append(
            TextChunk(
                id=number,
                doc_id=rows.document.id,
                title=short_name(rows.document.title),
                headings=headings,
                start=start,
                end=end,
                body=body,
                tokens=tokens,
                cut=cut,
                text=text[start:end],
            )
        )
    return tuple(chunks)


def _headings_and_body(touched: Sequence[Leaf], start: int, end: int) -> tuple[tuple[str, ...], int]:
    """The headings that these leaves share, and where `start .. end` begins after them."""
    shared = shared_path([leaf.headings for leaf in touched])
    body = max(start, touched[0].body) if shared == touched[0].headings else start
    return shared, min(body, end)


# -- what `check` demands: chunks that tile the document, with the texts of their spans


def problems(table: str, rows: DocumentRows, settings: Any, dimension: int) -> Iterator[str]:
    """What is wrong with one document's chunks in this table."""
    text = rows.document.text
    chunks: Sequence[TextChunk] = rows[table]
    if not chunks:
        yield f"has no {table} chunks"
        return
    ends = [0, *(chunk.end for chunk in chunks)]
    tiling = [chunk.start for chunk in chunks] == ends[:-1] and ends[-1] == len(text)
    if not tiling or any(a >= b for a, b in pairwise(ends)):
        yield f"the {table} chunks do not tile the document"
    if any(text[chunk.start : chunk.end] != chunk.text for chunk in chunks):
        yield f"a {table} chunk's text is not the text of its span"
    if any(not chunk.start <= chunk.body <= chunk.end for chunk in chunks):
        yield f"a {table} chunk begins outside of itself"
