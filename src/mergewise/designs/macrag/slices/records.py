"""The rows of the slice view, its tables, and the forms in which they are read."""

from __future__ import annotations

from dataclasses import dataclass

from mergewise.designs.macrag.slices.settings import SliceSettings
from mergewise.index.tree.tables import KEY
from mergewise.store.tables import Table
from mergewise.types import LeafId, RowId, Span


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of whole sentences, overlapping the next one (MacRAG section 3.1.1), with its summary.

    Ids follow document order: `id - 1` and `id + 1` are the neighbours, where they have the same `doc_id`. `parts` are the
    spans (start, end) of the sentences that an extractive summary consists of; a model's summary has none.
    """

    id: RowId
    doc_id: str
    title: str
    headings: tuple[str, ...]
    ordinal: int
    start: int
    end: int
    first_leaf: LeafId
    leaf_count: int  # leaves that the chunk touches
    tokens: int
    text: str  # document.text[start:end]
    summary: str
    parts: tuple[tuple[int, int], ...] = ()

    @property
    def span(self) -> Span:
        return Span(self.doc_id, self.start, self.end)


SLICE_GAP = " "
"""Stands between the parts of a slice that do not touch in the document."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A piece of a chunk's summary (MacRAG section 3.1.3), the finest thing that is searched.

    `parts` are spans (start, end) of the document: exactly the slice's text, joined by `SLICE_GAP`, or the whole
    chunk where a model wrote the summary.
    """

    id: RowId
    doc_id: str
    chunk: RowId
    parts: tuple[tuple[int, int], ...]
    title: str
    headings: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class SliceParts:
    """A slice without its text."""

    id: int
    doc_id: str
    chunk: int
    parts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SliceHit:
    """A slice that a search found, without its text; `score` as in `Hit`, `parts` as in `Slice`."""

    id: int
    doc_id: str
    chunk: int
    parts: tuple[tuple[int, int], ...]
    score: float

    @property
    def spans(self) -> tuple[Span, ...]:
        return tuple(Span(self.doc_id, start, end) for start, end in self.parts)


@dataclass(frozen=True, slots=True)
class ChunkBounds:
    """Where a chunk stands: what neighbours are merged by. `document` is the number of its document."""

    id: int
    document: int
    start: int
    end: int
    first_leaf: int
    leaf_count: int
    tokens: int

    @property
    def leaves(self) -> range:
        return range(self.first_leaf, self.first_leaf + self.leaf_count)


def tables(settings: SliceSettings) -> tuple[Table, Table]:
    """The chunks' text is searched where chunks or summaries have vectors."""
    of_chunks = tuple(column for name, column in CHUNK_VECTORS.items() if name in settings.vectors)
    text = "key" if of_chunks else None
    return (
        Table("chunk", Chunk, (KEY,), vectors=of_chunks, text=text, mapped=True),
        Table("slice", Slice, (KEY,), vectors=("vector",), text="key", mapped=True),
    )


CHUNK_VECTORS = {"chunk": "vector", "summary": "summary_vector"}
"""The columns of the chunks' own vectors and of their summaries', by what the settings call them."""
