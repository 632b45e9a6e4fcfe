"""The settings, rows, tables and reader of the slice view, and the checks of `mergewise check`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Annotated, Literal, TypeAlias

from mergewise.errors import UsageError
from mergewise.index.tree.tables import KEY
from mergewise.index.views import PromptHash, search_rows
from mergewise.protocols import RowReader
from mergewise.ranges import Range, check_fields, short_repr
from mergewise.store.tables import Table
from mergewise.text.spans import spans_in, texts_at
from mergewise.types import DocumentRows, LeafId, OverLeaves, Part, RowId, Span, Spanned, frozen

Unit: TypeAlias = Literal["tokens", "characters"]

VECTORS = {
    "slice": ("slice", "vector", "text"),
    "chunk": ("chunk", "vector", "text"),
    "summary": ("chunk", "summary_vector", "summary"),
}
"""Table, column and embedded field of the vectors, by their name in the settings."""

_SIZE, _SHARED = Range(1, 1_000_000), Range(0, 1_000_000)


@frozen
class SliceSettings:
    """Settings of the slice view. The default sizes are those of MacRAG's appendix A.5.

    These are chunks of 400 tokens (or 1500 characters), and slices of 450 characters that share 300. The paper's summaries have
    800 to 1000 of 1500 characters. `summary="none"` is its ablation.
    """

    chunk: Annotated[int, _SIZE, "size of a chunk"] = 400
    overlap: Annotated[int, _SHARED, "overlap of neighbouring chunks"] = 100
    unit: Annotated[Unit, "unit of both sizes"] = "tokens"
    summary: Annotated[
        Literal["extractive", "abstractive", "none"],
        "from the chunk's own sentences, by the chat model, or none: the chunk itself is sliced",
    ] = "extractive"
    summary_share: Annotated[
        float,
        Range(0, 1, above=True),
        "share of the characters in an extractive summary; chunks shorter than this share of a full one stay whole",
    ] = 0.6
    slice: Annotated[int, _SIZE, "size of a slice"] = 450
    slice_overlap: Annotated[int, _SHARED, "overlap of neighbouring slices"] = 300
    slice_unit: Annotated[Unit, "unit of both sizes"] = "characters"
    vectors: Annotated[
        tuple[str, ...], "embedded texts: `slice`, and for `macrag(views=all)` also `chunk` and `summary`"
    ] = ("slice",)
    prompt: PromptHash = ""

    def __post_init__(self) -> None:
        check_fields(self)
        for name, size, overlap in (("chunk", self.chunk, self.overlap), ("slice", self.slice, self.slice_overlap)):
            if not 0 <= overlap < size:
                raise UsageError(f"invalid overlap of a {name} of {size}: {overlap}", "overlap by less than the size")
        if "slice" not in self.vectors or not set(self.vectors) <= VECTORS.keys():
            raise UsageError(
                f"invalid vectors: {short_repr(self.vectors)}", "name slice, and optionally chunk and summary"
            )


PRESETS = {"paper": {"summary": "abstractive"}}
"""`paper`: section 3.1.2 of MacRAG. The default sizes already equal the paper's."""


@frozen
class Chunk(Spanned, OverLeaves):
    """A stretch of whole sentences, overlapping the next one (MacRAG section 3.1.1), with its summary.

    Ids follow document order: `id - 1` and `id + 1` are the neighbours if they have the same `doc_id`. `parts` are the spans
    (start, end) of the sentences in an extractive summary. They are empty for a model's summary.
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
    parts: tuple[Part, ...] = ()


SLICE_GAP = " "
"""The separator of the parts of a slice that do not touch in the document."""


@frozen
class Slice:
    """A piece of a chunk's summary (MacRAG section 3.1.3), the smallest unit of the search.

    `parts` are spans (start, end) of the document: exactly the slice's text, joined by `SLICE_GAP`, or the whole chunk if a
    model wrote the summary.
    """

    id: RowId
    doc_id: str
    chunk: RowId
    parts: tuple[Part, ...]
    title: str
    headings: tuple[str, ...]
    text: str


@frozen
class SliceParts:
    """A slice without its text."""

    id: int
    doc_id: str
    chunk: RowId
    parts: tuple[Part, ...]

    @property
    def spans(self) -> tuple[Span, ...]:
        return spans_in(self.doc_id, self.parts)


@frozen
class ChunkBounds(OverLeaves):
    """The position of a chunk, by which neighbours are merged. `document` is the number of its document."""

    id: int
    document: int
    start: int
    end: int
    first_leaf: LeafId
    leaf_count: int
    tokens: int


def tables(settings: SliceSettings) -> tuple[Table, Table]:
    """Return the tables of chunks and slices. The text of chunks is searchable if chunks or summaries have vectors."""
    of_chunks = tuple(VECTORS[name][1] for name in ("chunk", "summary") if name in settings.vectors)
    return (
        Table("chunk", Chunk, (KEY,), vectors=of_chunks, text="key" if of_chunks else None, mapped=True),
        Table("slice", Slice, (KEY,), vectors=("vector",), text="key", mapped=True),
    )


@frozen
class SliceReport:
    """The numbers of chunks by the kind of their summary: written by the chat model, or the chunk's own sentences."""

    chunks: int
    written: int
    extracts: int

    def as_dict(self) -> dict[str, int]:
        """Return the JSON form of `info --view slice --json`."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Yield the lines that `info --view slice` prints."""
        yield f"{self.chunks} chunks, {self.written} summaries by the chat model, {self.extracts} by their own sentences"


@frozen
class SliceReader:
    """The reader of the slice view for one question."""

    stored: RowReader

    def search(
        self, question: str, k: int, by: Literal["hybrid", "vectors"] = "hybrid"
    ) -> list[tuple[SliceParts, float]]:
        """Return the `k` best slices with their scores, best first, by full text and vectors, or by vectors alone."""
        return search_rows(self.stored, "slice", SliceParts, question, k, by)

    def rank_chunks(self, question: str, k: int, by: str) -> list[tuple[int, float]]:
        """Rank chunks by their own vectors ("chunk") or their summaries' ("summary"), in a hybrid search."""
        if by not in self.stored.settings("slice")["vectors"]:
            raise UsageError(
                f"this index has no vectors of its {by} view",
                "create one with open(..., settings={'slice': SliceSettings(vectors=('slice', 'chunk', 'summary'))})",
            )
        return list(self.stored.rank_rows(question, k, "chunk", VECTORS[by][1]))

    def report(self) -> SliceReport:
        """Count the summaries by their kind. With a chat model, extracts stand in for unusable summaries."""
        parts = self.stored.whole("chunk", ["parts"])["parts"].to_pylist()
        extracts = sum(map(bool, parts))
        return SliceReport(len(parts), len(parts) - extracts, extracts)

    def chunks(self, ids: Sequence[int]) -> dict[int, Chunk]:
        """Return the chunks with these ids. A missing id is missing in the result."""
        return self.stored.rows("chunk", Chunk, ids)

    def bounds(self, ids: Sequence[int]) -> dict[int, ChunkBounds]:
        """Return the positions of the chunks with these ids."""
        return self.stored.rows("chunk", ChunkBounds, ids)


# -- checks: no gap, no lost tail, texts equal those of their spans, parents exist


def problems(rows: DocumentRows, settings: SliceSettings, dimension: int) -> Iterator[str]:
    """Yield the problems of one document's chunks and slices."""
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
        if parent.parts and SLICE_GAP.join(texts_at(text, piece.parts)) != piece.text:
            yield "a slice's text is not the text of its spans"
            break
    for chunk in chunks:
        # The slices cover a verbatim summary. There are some for a summary by a model.
        parts = [part for row in slices if row.chunk == chunk.id for part in row.parts]
        held = {at for start, end in parts for at in range(start, end)}
        own = (at for start, end in chunk.parts for at in range(start, end))
        if any(at not in held and not chunk.text[at - chunk.start].isspace() for at in own) or (
            not chunk.parts and chunk.summary.strip() and not any(row.chunk == chunk.id for row in slices)
        ):
            yield "the slices do not add up to the summaries"
            break
