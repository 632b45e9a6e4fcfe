"""Chunks out of single lines of text."""

from __future__ import annotations

from mergewise.assemble.fragments import Fragment
from mergewise.designs.mergerag.pieces import Sentence, Source, sentences_of
from mergewise.models.tokens import count_tokens


def source(doc: str, text: str, score: float = 0.5, headings: tuple[str, ...] = ()) -> Source:
    return Source(Fragment(doc, doc.title(), headings, 0, len(text), 0, text), score)


def sentences(*sources: Source) -> list[Sentence]:
    return [s for chunk in sentences_of(sources, count_tokens) for s in chunk]
