"""Statistics for BM25 scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import NamedTuple

K1, B = 1.2, 0.75


class TextFrequencies(NamedTuple):
    """Statistics for the scores of a question: number of rows, their terms in all, and the number of rows with each term."""

    rows: int
    tokens: int
    counts: Mapping[str, int]

    @classmethod
    def total(cls, parts: Sequence[TextFrequencies]) -> TextFrequencies:
        """Add up the statistics of parts of an index, which were asked the same question."""
        counts = {term: sum(part.counts[term] for part in parts) for part in parts[:1] for term in part.counts}
        return cls(sum(part.rows for part in parts), sum(part.tokens for part in parts), counts)

    def weight(self, term: str) -> float:
        """Return the part of a term's scores that all rows share."""
        count = self.counts[term]
        return (K1 + 1) * log(1 + (self.rows - count + 0.5) / (count + 0.5))
