"""Settings, row, tables and reader of the three views, the conversion of bounds to rows, and the checks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

from mergewise.index.tree.tables import SPANNED_KEY
from mergewise.index.views import PromptHash, search_rows, with_vectors
from mergewise.models.record import Models
from mergewise.protocols import RowReader, TokenCounter
from mergewise.ranges import CheckedFields, Range
from mergewise.store.tables import Table
from mergewise.store.views import ViewRows
from mergewise.text.sections import shared_headings, short_name
from mergewise.text.spans import texts_at
from mergewise.types import DocumentRows, Part, RowId, Rows, Spanned, frozen

_SIZE = Range(1, 1_000_000)
_Most = Annotated[int, _SIZE, "Maximum size of a chunk in tokens; longer ones are split between sentences"]


@frozen
class FixedSettings(CheckedFields):
    """Settings of the view `fixed`. M-RAG's Fixed-Size RAG has 128 tokens."""

    size: Annotated[int, _SIZE, "Tokens of a chunk; the last chunk of a document may be shorter"] = 128


@frozen
class SemanticSettings(CheckedFields):
    """Settings of the view `semantic`. Defaults are Kamradt's: a neighbour on each side, the 95th percentile."""

    neighbours: Annotated[int, Range(0, 10), "Neighbours on each side to embed with a sentence"] = 1
    percentile: Annotated[float, Range(0, 100), "Percentile of the document's distances for a breakpoint"] = 95.0
    most: _Most = 2000


SEMANTIC_PRESETS = {"paper": {"most": 1_000_000}}
PIC_PRESETS = {"paper": {"summary": "abstractive", "most": 1_000_000}}
"""`paper`: Kamradt's rule does not split long chunks, and a chat model writes PIC's summaries."""


@frozen
class PICSettings(CheckedFields):
    """Settings of the view `pic`, after Wang et al. 2025. In the paper a chat model writes the summaries."""

    summary: Annotated[
        Literal["extractive", "abstractive"], "Summary of the document: its own sentences, or written by the chat model"
    ] = "extractive"
    sentences: Annotated[int, Range(1, 100), "Sentences of an extractive summary"] = 5
    group: Annotated[
        Literal["mean", "points"],
        "Grouping of consecutive sentences: same side of the `mean` similarity with the summary, or same nearest sentence of "
        "the summary (`points`)",
    ] = "mean"
    most: _Most = 2000
    prompt: PromptHash = ""


@frozen
class TextChunk(Spanned):
    """A part of a document. The chunks of a view tile the document, without gaps or overlaps.

    `headings` are the headings of all its text, `body` is the offset after them, and `cut` is the rule that split it.
    """

    id: RowId
    doc_id: str
    title: str
    headings: tuple[str, ...]
    start: int
    end: int
    body: int
    tokens: int  # by the built-in tokenizer
    cut: str
    text: str  # document.text[start:end]


FIXED, SEMANTIC, PIC = (
    Table(name, TextChunk, (SPANNED_KEY,), vectors=("vector",), text="key", mapped=True)
    for name in ("fixed", "semantic", "pic")
)

BY_SIZE, BY_DISTANCE = "size", "distance"
BY_EXTRACT, BY_WRITTEN = "extractive summary", "written summary"


@frozen
class ChunkReader:
    """Access to one of the three views for the duration of a question."""

    table: str
    stored: RowReader

    def search(
        self, question: str, k: int, by: Literal["hybrid", "vectors"] = "hybrid"
    ) -> list[tuple[TextChunk, float]]:
        """Return the `k` best chunks with their scores, best first. Search by full text and vectors, or by vectors only."""
        return search_rows(self.stored, self.table, TextChunk, question, k, by)


# -- from bounds to rows


def rows_from(
    table: Table,
    documents: Sequence[DocumentRows],
    bounds: Sequence[Sequence[Part]],
    cuts: Sequence[str],
    models: Models,
) -> list[ViewRows]:
    """Build the chunks of each document from bounds, and embed all of them in one call. `cuts` are the rules that split them."""
    views = [
        {table.name: Rows(_chunks(rows, parts, cut, models.count_tokens))}
        for rows, parts, cut in zip(documents, bounds, cuts, strict=True)
    ]
    return with_vectors(views, table.name, models.embedder)


def _chunks(rows: DocumentRows, bounds: Sequence[Part], cut: str, count_tokens: TokenCounter) -> tuple[TextChunk, ...]:
    text, leaves = rows.document.text, rows["leaf"]
    starts = [leaf.start for leaf in leaves]
    counts = count_tokens(texts_at(text, bounds))
    chunks = []
    for number, ((start, end), tokens) in enumerate(zip(bounds, counts, strict=True)):
        touched = leaves[bisect_right(starts, start) - 1 : bisect_left(starts, end)]
        headings = shared_headings(touched)
        body = max(start, touched[0].body) if headings == touched[0].headings else start
        chunks.append(
            TextChunk(
                id=number,
                doc_id=rows.document.id,
                title=short_name(rows.document.title),
                headings=headings,
                start=start,
                end=end,
                body=min(body, end),
                tokens=tokens,
                cut=cut,
                text=text[start:end],
            )
        )
    return tuple(chunks)


# -- checks: the chunks tile the document and have the texts of their spans


def problems(table: str, rows: DocumentRows, settings: Any, dimension: int) -> Iterator[str]:
    """Yield the problems of one document's chunks in this table."""
    text = rows.document.text
    chunks: Sequence[TextChunk] = rows[table]
    if not chunks:
        yield f"missing {table} chunks"
        return
    ends = [0, *(chunk.end for chunk in chunks)]
    tiling = [chunk.start for chunk in chunks] == ends[:-1] and ends[-1] == len(text)
    if not tiling or any(a >= b for a, b in pairwise(ends)):
        yield f"{table} chunks do not tile the document"
    if any(text[chunk.start : chunk.end] != chunk.text for chunk in chunks):
        yield f"text of a {table} chunk differs from its span"
    if any(not chunk.start <= chunk.body <= chunk.end for chunk in chunks):
        yield f"body of a {table} chunk is outside the chunk"
