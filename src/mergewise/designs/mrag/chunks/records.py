"""The row of a chunk, the tables of the three views, and how bounds become rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from mergewise.index.tree.tables import SPANNED_KEY
from mergewise.models.record import Models
from mergewise.protocols import TokenCounter
from mergewise.store.tables import Table
from mergewise.store.views import ViewRows
from mergewise.text.keys import search_key, short_name
from mergewise.text.sections import shared_path
from mergewise.text.spans import Part
from mergewise.types import DocumentRows, Leaf, RowId, Rows, Span


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


def rows_from(
    table: Table,
    documents: Sequence[DocumentRows],
    bounds: Sequence[Sequence[Part]],
    cuts: Sequence[str],
    models: Models,
) -> list[ViewRows]:
    """The chunks of each document at these bounds, with `cuts` saying how they were found. All are embedded in one call."""
    chunks = [
        _chunks(rows, parts, cut, models.count_tokens) for rows, parts, cut in zip(documents, bounds, cuts, strict=True)
    ]
    if models.embedder is None:
        return [{table.name: Rows(own)} for own in chunks]
    keys = [search_key(row.title, row.headings, row.text).strip() for own in chunks for row in own]
    vectors = models.embedder.embed_documents(keys)
    ends = list(accumulate(map(len, chunks), initial=0))
    return [
        {table.name: Rows(own, {"vector": vectors[first:end]})}
        for own, (first, end) in zip(chunks, pairwise(ends), strict=True)
    ]


def _chunks(rows: DocumentRows, bounds: Sequence[Part], cut: str, count_tokens: TokenCounter) -> tuple[TextChunk, ...]:
    text, leaves = rows.document.text, rows["leaf"]
    starts = [leaf.start for leaf in leaves]
    counts = count_tokens([text[start:end] for start, end in bounds])
    chunks = []
    for number, ((start, end), tokens) in enumerate(zip(bounds, counts, strict=True)):
        touched = leaves[bisect_right(starts, start) - 1 : bisect_left(starts, end)]
        headings, body = _headed(touched, start, end)
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


def _headed(touched: Sequence[Leaf], start: int, end: int) -> tuple[tuple[str, ...], int]:
    """The headings that these leaves share, and where `start .. end` begins after them."""
    shared = shared_path([leaf.headings for leaf in touched])
    body = max(start, touched[0].body) if shared == touched[0].headings else start
    return shared, min(body, end)
