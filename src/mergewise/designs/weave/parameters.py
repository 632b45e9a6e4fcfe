"""Parameters of weave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from mergewise.ranges import ROWS, SHARE, CheckedFields, Range

MOST_HOPS = 3


@dataclass(frozen=True, slots=True)
class Weave(CheckedFields):
    """The help texts make docs/reference.md."""

    k: Annotated[int, ROWS, "leaves from the search"] = 60
    hops: Annotated[int, Range(0, MOST_HOPS), "how often the evidence leads on to further sections, 0 to 3"] = 2
    beam: Annotated[int, Range(0, 1000), "candidates whose names are followed"] = 12
    onward: Annotated[
        int, ROWS, "leaves from a second search, for what the best evidence leaves open; 0 makes none"
    ] = 20
    coverage: Annotated[
        float,
        Range(0, 100),
        "weight of the question's aspects (its terms; in comparisons the things compared) against relevance",
    ] = 0.2
    redundancy: Annotated[bool, "near-duplicates gain nothing"] = True
    previous: Annotated[
        bool,
        'a list item, a table row, or a sentence that begins with "This", "However" or the like brings the one before it '
        'along, at its price; one that begins with "It" or "She" too, where no heading names what is meant',
    ] = True
    stop: Annotated[
        float,
        SHARE,
        "selection ends where the gain per token falls below this share of the first one's; 0 fills the budget",
    ] = 0.0
    asked: Annotated[int, ROWS, "sentences that a reranker is asked about, the most relevant ones; 0 asks none"] = 100
    select: Annotated[
        Literal["scores", "point"],
        "by weave's own scores, or a chat model points at the sentences that are needed and weave fills the rest of the budget",
    ] = "scores"
    shown: Annotated[int, Range(2, 200), "point: candidates that the chat model is shown"] = 60
    trust: Annotated[
        float,
        Range(1, 1_000_000),
        "point: the odds that a sentence is needed are multiplied by this, divided by its place in the model's order",
    ] = 60.0
    first: Annotated[
        bool,
        "point: what the model pointed at comes before all else, in its order; a weak model then costs much at small budgets",
    ] = False
