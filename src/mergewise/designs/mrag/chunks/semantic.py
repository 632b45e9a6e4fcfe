"""Chunks that end at a change of topic: the baseline Semantic of M-RAG (section 3.1).

The rule is from Greg Kamradt, "5 Levels of Text Splitting" (2023), level 4. Each sentence is embedded together with its
neighbours. A chunk ends if the distance to the next sentence exceeds the 95th percentile of the document's distances. So in any
document, about one sentence in twenty ends a chunk.

Differences from the paper:
- Sentences are split as in the tree, which handles abbreviations, lists, tables and code. A heading belongs to the sentence
  below.
- A chunk above `most` tokens is split between sentences. Otherwise a text with equal distances would be a single chunk of any
  length.
- Title and headings are searched and embedded with a chunk, as in every other view. An embedder reads only its window: `minilm`
  reads the first 254 word pieces of a chunk, the paper's bge-m3 8,192.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import groupby, pairwise

import numpy as np

from mergewise.designs.mrag.chunks.records import BY_DISTANCE, SEMANTIC, SemanticSettings, rows_from
from mergewise.errors import UsageError
from mergewise.index.windows import windows
from mergewise.models.record import Models, embed_groups
from mergewise.protocols import Embedder, FloatArray, TokenCounter
from mergewise.store.views import ViewRows
from mergewise.text.spans import texts_at
from mergewise.types import DocumentRows, Part


def build(documents: Sequence[DocumentRows], settings: SemanticSettings, models: Models) -> list[ViewRows]:
    """Split each document into chunks. All sentences are embedded in one call."""
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
    """Return each sentence with `neighbours` sentences on each side."""
    last = len(sentences) - 1
    return [
        text[sentences[max(0, i - neighbours)][0] : sentences[min(last, i + neighbours)][1]].strip()
        for i in range(len(sentences))
    ]


def distances(vectors: FloatArray) -> FloatArray:
    """Return 1 - cosine of each vector with the next."""
    gaps: FloatArray = np.round(1 - np.einsum("ij,ij->i", vectors[:-1], vectors[1:]), EXACT)
    return gaps


def breakpoints(gaps: FloatArray, percentile: float) -> list[int]:
    """Return the numbers of the sentences that end a chunk, with a distance to the next above the percentile."""
    if not len(gaps):
        return []
    return np.flatnonzero(gaps > np.percentile(gaps, percentile)).tolist()


def between(ends: Sequence[int], count: int) -> list[Part]:
    """Split `count` sentences into ranges (first, end). `ends` are the numbers of the last sentences of ranges."""
    return list(pairwise([0, *(end + 1 for end in ends), count])) if count else []


EXACT = 6  # reliable decimals of a similarity; the rest is rounding in the embedder


def sentences_of(rows: DocumentRows) -> list[Part]:
    """Return the sentences of the tree, each up to the start of the next. Headings belong to the sentence below."""
    starts = [
        leaf.start if number == 0 else sentence.start
        for leaf in rows["leaf"]
        for number, sentence in enumerate(leaf.sentences)
    ]
    end = len(rows.document.text)
    return list(pairwise([0, *starts[1:], end])) if end else []


def runs(labels: Sequence[Hashable]) -> list[Part]:
    """Return the ranges (first, end) of consecutive equal labels."""
    ranges, first = [], 0
    for _, group in groupby(labels):
        end = first + sum(1 for _ in group)
        ranges.append((first, end))
        first = end
    return ranges


def bounds_of(
    text: str, sentences: Sequence[Part], ranges: Sequence[Part], most: int, count_tokens: TokenCounter
) -> list[Part]:
    """Return the offsets of runs of sentences. A run above `most` tokens is split between sentences."""
    sizes = count_tokens(texts_at(text, sentences))
    divided = [
        (first + a, first + b) for first, end in ranges for a, b in windows(sizes[first:end], most, 0)
    ]  # a sentence above the limit is a chunk
    return [(sentences[first][0], sentences[end - 1][1]) for first, end in divided]


def embedder_of(models: Models, view: str) -> Embedder:
    if models.embedder is None:
        raise UsageError(f"the view {view!r} needs an embedder", "index into another directory with one")
    return models.embedder
