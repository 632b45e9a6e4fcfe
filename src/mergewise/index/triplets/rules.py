"""Triplets made by rules, without a model: what stands in for the paper's extractor, and says so (`made="rules"`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mergewise.index.triplets.records import Triplet
from mergewise.types import Leaf

_IS = re.compile(r"\b(is|was|are|were)\s+(.{2,200}?)[.;]?\s*\Z", re.DOTALL)


def triplets_by_rules(text: str, title: str, leaves: Sequence[Leaf]) -> list[Triplet]:
    """The triplets of one passage, in the order of its sentences."""
    return [one for leaf in leaves for start, end, _ in leaf.sentences for one in _of(text, title, start, end)]


def _of(text: str, title: str, start: int, end: int) -> Iterator[Triplet]:
    match = _IS.search(text[start:end])
    if match is not None and title:
        yield Triplet(title, match[1], " ".join(match[2].split()), start, end)
