"""Where documents are cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from mergewise.ranges import Range, check_fields

_SIZE = Range(1, 1_000_000)
_Most = Annotated[int, _SIZE, "tokens; a chunk above this size is divided between sentences"]


@dataclass(frozen=True, slots=True)
class FixedSettings:
    """M-RAG's Fixed-Size RAG has 128 tokens."""

    size: Annotated[int, _SIZE, "tokens of a chunk; the last one of a document has what is left"] = 128

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class SemanticSettings:
    """As Kamradt proposed it: a neighbour on each side, the 95th percentile."""

    neighbours: Annotated[int, Range(0, 10), "sentences on each side that a sentence is embedded with"] = 1
    percentile: Annotated[float, Range(0, 100), "of the document's distances: above it lies a breakpoint"] = 95.0
    most: _Most = 2000

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class PICSettings:
    """As in Wang et al. 2025, whose summaries a chat model writes."""

    summary: Annotated[
        Literal["extractive", "abstractive"], "of the document: by its own sentences, or by the chat model"
    ] = "extractive"
    sentences: Annotated[int, Range(1, 100), "of an extractive summary"] = 5
    group: Annotated[
        Literal["mean", "points"],
        "what a chunk is: a run of sentences on one side of the mean similarity with the summary, or a run of sentences that "
        "are nearest to the same sentence of the summary",
    ] = "mean"
    most: _Most = 2000

    def __post_init__(self) -> None:
        check_fields(self)
