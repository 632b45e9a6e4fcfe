"""Passage selection of Self-RAG (Asai et al. 2024, section 3.3): the best passages of the search.

The mode `self-rag` answers from each passage separately. It reads its parameters from the context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from mergewise.assemble.budget import pack
from mergewise.assemble.passages import SEARCHED, search_passages
from mergewise.defaults import PASSAGE_TOKENS
from mergewise.designs.design import Strategy
from mergewise.models.record import Models
from mergewise.protocols import IndexReader
from mergewise.ranges import MOST_ROWS, SHARE, CheckedFields, Range
from mergewise.store.views import Presets
from mergewise.types import Context, Reading, Step, frozen


@frozen
class SelfRAG(CheckedFields):
    k: Annotated[int, Range(1, MOST_ROWS // SEARCHED), "Passages, each with its own answer"] = 5
    threshold: Annotated[
        float, SHARE, "Minimum probability that the model wants documents, 0 for always (causal models)"
    ] = 0.2
    relevance: Annotated[float, Range(0, 100), "Weight of the grade for a relevant passage"] = 1.0
    support: Annotated[float, Range(0, 100), "Weight of the grade for a supported answer"] = 1.0
    use: Annotated[float, Range(0, 100), "Weight of the grade for a useful answer"] = 0.5
    closed: Annotated[bool, "Sum of scores over equal answers"] = True


PRESETS: Presets = {"paper": {}}
"""`paper`: section 3.3. The defaults equal its weights, its threshold and its five passages."""


@frozen
class GradedReading:
    """The `Reading` of a context with a separate answer per passage."""

    parameters: SelfRAG

    def after_merge(self, merged: Context, parts: Sequence[Context]) -> Reading:
        return self


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: SelfRAG) -> Context:
    trace: list[Step] = []
    found = search_passages(question, reader, parameters.k, PASSAGE_TOKENS, trace)
    context = pack(question, [one.candidate for one in found], budget, models, "score", trace)
    return replace(context, reading=GradedReading(parameters))


STRATEGIES = {
    "self-rag": Strategy(
        assemble,
        SelfRAG(),
        "the best passages of the search, for one answer per passage (Self-RAG); without a model, a plain search",
        mode="self-rag",
        presets=PRESETS,
    )
}
