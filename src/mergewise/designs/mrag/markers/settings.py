"""How markers are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from mergewise.ranges import SHARE, Range, check_fields


@dataclass(frozen=True, slots=True)
class MarkerSettings:
    """Sizes and shares as in M-RAG section 2.1. Where a chat model is named, it writes the markers."""

    made: Annotated[Literal["rules", "model"], "who makes the markers: rules, or the chat model"] = "rules"
    segment: Annotated[int, Range(16, 4096), "tokens of a numbered paragraph"] = 128
    most: Annotated[int, Range(1, 10), "paragraphs that a marker may name"] = 3
    coverage: Annotated[float, SHARE, "share of the paragraphs below which the model is asked further"] = 0.95
    attempts: Annotated[int, Range(1, 10), "times in all that the model is asked about a paragraph"] = 3
    policy: Annotated[
        Literal["rest", "again"],
        "further attempts: about what no marker names, joined to what came, or the same once more, of which the best is kept",
    ] = "rest"
    examples: Annotated[str, "shown to the model: built-in, none, or the path of a JSON file with a list of them"] = (
        "none"
    )
    window: Annotated[
        int,
        Range(64, 1_000_000),
        "tokens of a document that the model is shown at once, where its own window holds them",
    ] = 2048
    overlap: Annotated[int, Range(0, 100), "paragraphs that neighbouring windows share"] = 2
    ungrounded: Annotated[
        Literal["replace", "drop", "keep"],
        "what becomes of a sentence of a value that its paragraphs do not support: the nearest of their sentences stands "
        "for it, it is left out, or it is kept and marked",
    ] = "replace"

    def __post_init__(self) -> None:
        check_fields(self)
