"""The passages that Self-RAG answers from (Asai et al. 2024, section 3.3): the best of the search, each for itself.

How they are answered from is the mode `self-rag`; the parameters go with the context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from mergewise.assemble.budget import pack
from mergewise.assemble.passages import SEARCHED, search_passages
from mergewise.defaults import PASSAGE_TOKENS
from mergewise.models.record import Models
from mergewise.protocols import IndexReader
from mergewise.ranges import MOST_ROWS, SHARE, CheckedFields, Range
from mergewise.types import Context, Reading, Step


@dataclass(frozen=True, slots=True)
class SelfRAG(CheckedFields):
    k: Annotated[int, Range(1, MOST_ROWS // SEARCHED), "passages, of which each is answered from"] = 5
    threshold: Annotated[
        float,
        SHARE,
        "probability from which on the model is taken to want documents; 0: always. A causal model tells it",
    ] = 0.2
    relevance: Annotated[float, Range(0, 100), "weight of whether the passage is relevant"] = 1.0
    support: Annotated[float, Range(0, 100), "weight of whether the passage supports the answer"] = 1.0
    use: Annotated[float, Range(0, 100), "weight of whether the answer is useful"] = 0.5
    closed: Annotated[bool, "whether the scores of equal answers are added up"] = True


@dataclass(frozen=True, slots=True)
class GradedReading:
    """The `Reading` of a context whose passages are answered from one by one."""

    parameters: SelfRAG

    def after_merge(self, merged: Context, parts: Sequence[Context]) -> Reading:
        return self


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: SelfRAG) -> Context:
    trace: list[Step] = []
    found = search_passages(question, reader, parameters.k, PASSAGE_TOKENS, trace)
    context = pack(question, [one.candidate for one in found], budget, models, "score", trace)
    return replace(context, reading=GradedReading(parameters))
