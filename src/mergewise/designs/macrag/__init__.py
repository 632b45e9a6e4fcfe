"""MacRAG: slices are searched, their chunks are scaled up, documents are ranked, and neighbouring chunks are merged.

`strategy` is the paper's Algorithm 1. `document_rank` asks a chat model for the order of documents. `ranked_sentences` is our
own, for budgets below the size of the merged chunks. `generation` has the modes of Table 4. `longrag` is the baseline: it
returns the whole documents of the best chunks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mergewise.designs.design import Design, Lazy, Strategy
from mergewise.designs.macrag import slices
from mergewise.types import PromptTemplate

if TYPE_CHECKING:
    from mergewise.generate.mode import Mode


def _strategies() -> dict[str, Strategy]:
    from mergewise.designs.macrag import longrag, strategy

    return {
        "macrag": Strategy(
            strategy.assemble,
            strategy.MacRAG(),
            "slices, their chunks, and the neighbourhoods in the best documents",
            views=("slice",),
            presets=strategy.PRESETS,
        ),
        "longrag": Strategy(
            longrag.assemble,
            longrag.LongRAG(),
            "the documents of the best chunks (LongRAG)",
            views=("slice",),
            presets=longrag.PRESETS,
        ),
    }


def _modes() -> dict[str, Mode[Any]]:
    from mergewise.designs.macrag.generation import MODES

    return MODES


def _prompts() -> dict[str, PromptTemplate]:
    from mergewise.designs.macrag.slices.summaries import INSTRUCTIONS

    return {one.name: one for one in (INSTRUCTIONS,)}


DESIGN = Design({"slice": slices.VIEW}, Lazy(_strategies), Lazy(_modes), Lazy(_prompts))
