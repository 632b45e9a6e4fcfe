"""Sentences that tile a document, and runs of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import groupby, pairwise

from mergewise.errors import UsageError
from mergewise.index.windows import windows
from mergewise.models.record import Models
from mergewise.protocols import Embedder, TokenCounter
from mergewise.text.spans import Part
from mergewise.types import DocumentRows

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
    sizes = count_tokens([text[start:end] for start, end in sentences])
    divided = [
        (first + a, first + b) for first, end in ranges for a, b in windows(sizes[first:end], most, 0)
    ]  # a sentence above the limit is a chunk
    return [(sentences[first][0], sentences[end - 1][1]) for first, end in divided]


def embedder_of(models: Models, view: str) -> Embedder:
    if models.embedder is None:
        raise UsageError(f"the view {view!r} needs an embedder", "index into another directory with one")
    return models.embedder
