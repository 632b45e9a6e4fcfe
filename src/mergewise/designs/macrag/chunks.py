"""Chunks of the slice view, for the strategies that search slices and continue with the chunks that hold these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mergewise.assemble.fragments import Candidate
from mergewise.assemble.sentences import leaf_fragment
from mergewise.designs.macrag.slices import SliceHit, SliceReader
from mergewise.models.record import Models
from mergewise.protocols import IndexReader
from mergewise.text.spans import Part
from mergewise.types import LeafSentences, Step


@dataclass(frozen=True, slots=True)
class ScoredChunk:
    """A chunk of C', by its id, with r(q, c)."""

    id: int
    doc_id: str
    score: float


def slice_view(reader: IndexReader) -> SliceReader:
    view: SliceReader = reader.view("slice")
    return view


def parents(hits: Sequence[SliceHit]) -> dict[int, ScoredChunk]:
    """C' = unique(c_i | l_ij in top-k1): the chunks of the slices, each once, at the score of its best slice."""
    chunks: dict[int, ScoredChunk] = {}
    for hit in hits:
        standing = chunks.get(hit.chunk)
        if standing is None or hit.score > standing.score:
            chunks[hit.chunk] = ScoredChunk(hit.chunk, hit.doc_id, hit.score)
    return chunks


def rerank(
    question: str, scored: Mapping[int, ScoredChunk], reader: IndexReader, models: Models, trace: list[Step]
) -> list[ScoredChunk]:
    """The chunks by r(q, c) = ReRank(q, c) of their whole text, best first; without a reranker, by the scores they have."""
    chunks = list(scored.values())
    if models.reranker is not None and chunks:
        texts = slice_view(reader).chunks([chunk.id for chunk in chunks])
        chunks = [chunk for chunk in chunks if chunk.id in texts]
        below_titles = [f"{texts[chunk.id].title}\n{texts[chunk.id].text}".strip() for chunk in chunks]
        scores = models.reranker.score(question, below_titles)
        chunks = [replace(chunk, score=float(score)) for chunk, score in zip(chunks, scores, strict=True)]
        trace.append(Step("rerank", f"{len(chunks)} chunks by {models.reranker.spec}"))
    return sorted(chunks, key=lambda chunk: (-chunk.score, chunk.id))


def whole(leaves: Sequence[LeafSentences], parts: Sequence[Part], score: float) -> Candidate:
    """The parts of a document as one candidate, with a fragment for each leaf, since headings may change between leaves."""
    fragments = (
        leaf_fragment(leaf).cut(max(start, leaf.start), min(end, leaf.end))
        for leaf in sorted(leaves, key=lambda leaf: leaf.start)
        for start, end in parts
        if start < leaf.end and leaf.start < end
    )
    return Candidate(tuple(fragment for fragment in fragments if fragment.visible[2]), score)
