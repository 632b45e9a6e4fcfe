"""Parameters of weave."""

from __future__ import annotations

from typing import Annotated, Literal

from mergewise.ranges import ROWS, SHARE, CheckedFields, Range
from mergewise.types import frozen

MOST_HOPS = 3


@frozen
class Weave(CheckedFields):
    """Parameters of weave. `docs/reference/strategies.md` is generated from the help texts."""

    k: Annotated[int, ROWS, "leaves from the search"] = 60
    hops: Annotated[int, Range(0, MOST_HOPS), "maximum hops from the evidence to further sections"] = 2
    beam: Annotated[int, Range(0, 1000), "candidates per hop whose names are followed"] = 12
    onward: Annotated[int, ROWS, "leaves from a second search for missing facts; 0 disables it"] = 20
    coverage: Annotated[
        float, Range(0, 100), "weight of the question's aspects (terms, compared things) against relevance"
    ] = 0.2
    redundancy: Annotated[bool, "near-duplicates gain nothing"] = True
    previous: Annotated[
        bool, "a list item, table row or sentence that points back is selected with the sentence before it"
    ] = True
    price: Annotated[
        float, SHARE, "minimum gain, in the probability to be complete, of the whole budget; 0 fills the budget"
    ] = 0.0
    asked: Annotated[int, ROWS, "most relevant sentences scored by the reranker; 0 disables it"] = 100
    select: Annotated[
        Literal["scores", "point"],
        "selection by weave's scores alone, or with a chat model that points at needed sentences",
    ] = "scores"
    shown: Annotated[int, Range(2, 200), "point: candidates shown to the chat model"] = 60
    trust: Annotated[
        float, Range(1, 1_000_000), "point: factor on a sentence's odds, divided by its place in the model's order"
    ] = 60.0
    first: Annotated[bool, "point: the model's sentences come first; costly with a weak model and a small budget"] = (
        False
    )
