"""Chunks of the slice view, for strategies that search slices and continue with their chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, NamedTuple

from mergewise.designs.macrag.slices import SliceParts, SliceReader
from mergewise.models.record import Models
from mergewise.protocols import IndexReader
from mergewise.types import Context, Reading, Span, Step, frozen


class ScoredChunk(NamedTuple):
    """A chunk of C', by its id, with r(q, c)."""

    id: int
    doc_id: str
    score: float


@frozen
class ChunkReading:
    """The `Reading` of a context of chunks. The filter judges each of them as a whole. `chunks` are their spans."""

    chunks: tuple[tuple[Span, ...], ...]

    def after_merge(self, merged: Context, parts: Sequence[Context]) -> Reading:
        known = (part.reading.chunks for part in parts if isinstance(part.reading, ChunkReading))
        return ChunkReading(tuple(chunk for chunks in known for chunk in chunks))


@frozen
class SliceSearch:
    """A search of the slices for one question, with its trace so far."""

    question: str
    reader: IndexReader
    models: Models
    trace: list[Step] = field(default_factory=list)

    @property
    def slices(self) -> SliceReader:
        view: SliceReader = self.reader.view("slice")
        return view

    def parents(self, k1: int, by: Literal["hybrid", "vectors"]) -> dict[int, ScoredChunk]:
        """Search the `k1` best slices. Return C', the chunks that hold them."""
        hits = self.slices.search(self.question, k1, by)
        spans = tuple(span for found, _ in hits for span in found.spans)
        self.trace.append(Step("search", f"{len(hits)} slices", spans))
        return parents(hits)

    def rerank(self, scored: Mapping[int, ScoredChunk]) -> list[ScoredChunk]:
        """Sort chunks by r(q, c) = ReRank(q, c) of their whole text, or by their own scores without a reranker."""
        chunks, reranker = list(scored.values()), self.models.reranker
        if reranker is not None and chunks:
            texts = self.slices.chunks([chunk.id for chunk in chunks])
            chunks = [chunk for chunk in chunks if chunk.id in texts]
            below_titles = [f"{texts[chunk.id].title}\n{texts[chunk.id].text}".strip() for chunk in chunks]
            scores = reranker.score(self.question, below_titles)
            chunks = [chunk._replace(score=float(score)) for chunk, score in zip(chunks, scores, strict=True)]
            self.trace.append(Step("rerank", f"{len(chunks)} chunks by {reranker.spec}"))
        return sorted(chunks, key=lambda chunk: (-chunk.score, chunk.doc_id, chunk.id))


def parents(hits: Sequence[tuple[SliceParts, float]]) -> dict[int, ScoredChunk]:
    """Return C' = unique(c_i | l_ij in top-k1): the chunks of the slices, each once, with the score of its best slice."""
    chunks: dict[int, ScoredChunk] = {}
    for found, score in hits:
        known = chunks.get(found.chunk)
        if known is None or score > known.score:
            chunks[found.chunk] = ScoredChunk(found.chunk, found.doc_id, score)
    return chunks
