"""Passages of similar size: the outermost section of at most `longest` tokens around a leaf, or the leaf alone.

The papers' passages have a hundred words. Strategies retrieve by this rule, and the triplet view builds its rows by it, so that
every passage has its own set of triplets.
"""

from __future__ import annotations

from typing import NamedTuple

from mergewise.assemble.fragments import Candidate
from mergewise.assemble.leads import Antecedents
from mergewise.index.tree.reader import extent
from mergewise.protocols import IndexReader, OrderedBy
from mergewise.types import Hit, Step

# Leaves to search for each passage. Several of them may lie in one passage.
SEARCHED = 4


class LeafRun(NamedTuple):
    """A passage as its leaves, which have consecutive ids, and as a candidate for the context."""

    leaves: range
    candidate: Candidate


def search_leaves(question: str, reader: IndexReader, k: int, trace: list[Step], by: OrderedBy = "both") -> list[Hit]:
    """Return the hits that have sentences. Other leaves hold only mark-up."""
    hits = [hit for hit in reader.search(question, k, by) if hit.row.sentences]
    trace.append(Step("search", f"{len(hits)} leaves", tuple(hit.row.span for hit in hits)))
    return hits


def search_passages(
    question: str, reader: IndexReader, k: int, longest: int, trace: list[Step] | None, by: OrderedBy = "both"
) -> list[LeafRun]:
    """Return the first `k` passages that hold a hit of the search, ordered by their best hits."""
    hits = search_leaves(question, reader, k * SEARCHED, [] if trace is None else trace, by)
    sections = reader.sections(sorted({section for hit in hits for section in hit.row.ancestors}))
    held: dict[range, float] = {}
    for hit in hits:
        held.setdefault(extent(hit.row, sections, longest), hit.score)
    kept = dict(list(held.items())[:k])
    leaves = reader.leaves(sorted({leaf for one in kept for leaf in one}))
    leads = Antecedents(leaves, reader)
    return [
        LeafRun(one, leads.candidate(rows, score))
        for one, score in kept.items()
        if (rows := [leaves[leaf] for leaf in one if leaf in leaves])
    ]
