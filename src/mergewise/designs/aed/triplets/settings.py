"""How triplets are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from mergewise.index.tree.reader import LONGEST
from mergewise.ranges import SHARE, Range, check_fields


@dataclass(frozen=True, slots=True)
class TripletSettings:
    """Where a chat model is named, it writes the triplets. AED-RAG gives no figures but one: a passage has a hundred words."""

    made: Annotated[Literal["rules", "model"], "who makes the triplets: rules, or the chat model"] = "rules"
    longest: Annotated[int, Range(1, 10_000), "tokens of a section up to which it is one passage, as in `aed`"] = (
        LONGEST
    )
    most: Annotated[int, Range(1, 1000), "triplets that a passage has at most"] = 32
    coverage: Annotated[float, SHARE, "share of the passages below which the model is asked about the others again"] = (
        0.9
    )
    attempts: Annotated[int, Range(1, 10), "times in all that the model is asked about a passage"] = 2
    window: Annotated[
        int,
        Range(64, 1_000_000),
        "tokens of a document that the model is shown at once, where its own window holds them",
    ] = 1024
    overlap: Annotated[int, Range(0, 10_000), "tokens that neighbouring windows share"] = 0

    def __post_init__(self) -> None:
        check_fields(self)
