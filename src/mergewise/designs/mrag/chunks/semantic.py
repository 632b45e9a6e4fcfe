"""Chunks that end where the topic changes: the baseline Semantic of M-RAG (section 3.1).

The rule is that of Greg Kamradt, "5 Levels of Text Splitting" (2023), level 4: each sentence is embedded together with its
neighbours, and wherever the distance between two that follow each other exceeds the 95th percentile of the document's distances,
a chunk ends. So of every twenty sentences about one ends a chunk, whatever the document.

Where we differ, and why:
- sentences are those that the tree cut, which know abbreviations, lists, tables and code; a heading goes with the sentence
  below it;
- a chunk above `most` tokens is divided between sentences: without that, a text whose distances are all the same would be one
  chunk of any length;
- title and headings are searched and embedded with a chunk, as for every other view. An embedder sees what its window holds:
  `minilm` the first 254 word pieces of a chunk, where the paper's bge-m3 sees 8,192.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from mergewise.designs.mrag.chunks.records import BY_DISTANCE, SEMANTIC, SemanticSettings, rows_from
from mergewise.designs.mrag.chunks.sentences import EXACT, bounds_of, embedder_of, sentences_of
from mergewise.models.record import Models, embed_groups
from mergewise.protocols import FloatArray
from mergewise.store.views import ViewRows
from mergewise.text.spans import Part
from mergewise.types import DocumentRows


def build(documents: Sequence[DocumentRows], settings: SemanticSettings, models: Models) -> list[ViewRows]:
    """The chunks of each document. The sentences of all of them are embedded in one call."""
    cut = [sentences_of(rows) for rows in documents]
    windowed = [
        with_neighbours(rows.document.text, sentences, settings.neighbours)
        for rows, sentences in zip(documents, cut, strict=True)
    ]
    vectors = embed_groups(embedder_of(models, "semantic"), windowed)
    bounds = [
        bounds_of(
            rows.document.text,
            sentences,
            between(breakpoints(distances(own), settings.percentile), len(sentences)),
            settings.most,
            models.count_tokens,
        )
        for rows, sentences, own in zip(documents, cut, vectors, strict=True)
    ]
    return rows_from(SEMANTIC, documents, bounds, [BY_DISTANCE] * len(documents), models)


def with_neighbours(text: str, sentences: Sequence[Part], neighbours: int) -> list[str]:
    """Each sentence with so many on each side of it."""
    last = len(sentences) - 1
    return [
        text[sentences[max(0, i - neighbours)][0] : sentences[min(last, i + neighbours)][1]].strip()
        for i in range(len(sentences))
    ]


def distances(vectors: FloatArray) -> FloatArray:
    """1 - cosine of each vector with the next one."""
    gaps: FloatArray = np.round(1 - np.einsum("ij,ij->i", vectors[:-1], vectors[1:]), EXACT)
    return gaps


def breakpoints(gaps: FloatArray, percentile: float) -> list[int]:
    """The numbers of the sentences that end a chunk: those with a distance to the next one above the percentile."""
    if not len(gaps):
        return []
    ends: list[int] = np.flatnonzero(gaps > np.percentile(gaps, percentile)).tolist()
    return ends


def between(ends: Sequence[int], count: int) -> list[Part]:
    """Ranges (first, end) of `count` sentences, of which those numbered in `ends` are the last of their range."""
    return list(pairwise([0, *(end + 1 for end in ends), count])) if count else []
