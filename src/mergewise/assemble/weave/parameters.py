"""What weave can be told."""

from __future__ import annotations

from dataclasses import dataclass

MOST_HOPS = 3


@dataclass(frozen=True, slots=True)
class Weave:
    """`k`: leaves from the search. `slices`: slices from the search, where the index has them.

    `hops`: how often evidence leads on (0 to 3). `beam`: candidates that lead on. `coverage`: weight of the question's
    aspects against relevance. `redundancy`: whether near-duplicates gain nothing. `previous`: whether a sentence that
    cannot be read without the one before it brings it along. `stop`: share of the first gain per token below which
    selection ends; 0 fills the budget.
    """

    k: int = 60
    slices: int = 0
    hops: int = 2
    beam: int = 12
    coverage: float = 0.2
    redundancy: bool = True
    previous: bool = True
    stop: float = 0.0
