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

EXACT = 6  # decimals of a similarity: what lies below is the rounding of the embedder's own sums


def sentences_of(rows: DocumentRows) -> list[Part]:
    """The sentences that the tree cut, each with what follows it up to the next one; headings go with the sentence below."""
    starts = [
        leaf.start if number == 0 else sentence.start
        for leaf in rows["leaf"]
        for number, sentence in enumerate(leaf.sentences)
    ]
    end = len(rows.document.text)
    return list(pairwise([0, *starts[1:], end])) if end else []


def runs(labels: Sequence[Hashable]) -> list[Part]:
    """Ranges (first, end) of equal labels that follow each other."""
    ranges, first = [], 0
    for _, group in groupby(labels):
        end = first + sum(1 for _ in group)
        ranges.append((first, end))
        first = end
    return ranges


def bounds_of(
    text: str, sentences: Sequence[Part], ranges: Sequence[Part], most: int, count_tokens: TokenCounter
) -> list[Part]:
    """Where runs of sentences stand in the text; those above `most` tokens are divided between sentences."""
    sizes = count_tokens([text[start:end] for start, end in sentences])
    divided = [
        (first + a, first + b) for first, end in ranges for a, b in windows(sizes[first:end], most, 0)
    ]  # a sentence above the limit stands alone
    return [(sentences[first][0], sentences[end - 1][1]) for first, end in divided]


def embedder_of(models: Models, view: str) -> Embedder:
    if models.embedder is None:
        raise UsageError(
            f"the view {view!r} needs an embedder, and this index has none", "index into another directory with one"
        )
    return models.embedder
