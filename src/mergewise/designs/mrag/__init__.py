"""M-RAG: search by keys, contexts from values.

`markers` is its view. `strategy` searches and takes values by rank, `pieces` are the parts of a context, and `notes` are the
trace notes of the selected markers. The paper's baselines split documents into `chunks` in three ways and take the best
(`chunked`).
"""

from __future__ import annotations

from functools import partial

from mergewise.designs.design import Design, Lazy, Strategy
from mergewise.designs.mrag import chunks, markers
from mergewise.types import PromptTemplate


def _strategies() -> dict[str, Strategy]:
    from mergewise.designs.mrag import strategy
    from mergewise.designs.mrag.chunked import PRESETS, Chunked, assemble

    chunked = {
        "fixed": "the best chunks of a fixed size until the budget is full",
        "semantic": "the best chunks, split at changes of topic, until the budget is full",
        "pic": "the best chunks, grouped by similarity to a summary (PIC), until the budget is full",
    }
    return {
        "mrag": Strategy(
            strategy.assemble,
            strategy.MRAG(),
            "the values of the markers with the best keys",
            views=("marker",),
            presets=strategy.PRESETS,
        ),
        **{
            name: Strategy(partial(assemble, name), Chunked(), summary, views=(name,), presets=PRESETS)
            for name, summary in chunked.items()
        },
    }


def _prompts() -> dict[str, PromptTemplate]:
    from mergewise.designs.mrag.chunks.summaries import INSTRUCTIONS
    from mergewise.designs.mrag.markers.extract import RULES

    return {one.name: one for one in (RULES, INSTRUCTIONS)}


DESIGN = Design({**chunks.VIEWS, "marker": markers.VIEW}, Lazy(_strategies), prompts=Lazy(_prompts))
