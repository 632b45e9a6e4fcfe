"""Chunks made of single lines of text."""

from __future__ import annotations

from mergewise.assemble.fragments import Fragment
from mergewise.designs.mergerag.pieces import ChunkSentence, ChunkSource, sentences_of
from mergewise.models.tokens import count_tokens


def source(doc: str, text: str, score: float = 0.5, headings: tuple[str, ...] = ()) -> ChunkSource:
    return ChunkSource(Fragment(doc, doc.title(), headings, 0, len(text), 0, text), score)


def sentences(*sources: ChunkSource) -> list[ChunkSentence]:
    return [s for chunk in sentences_of(sources, count_tokens) for s in chunk]
