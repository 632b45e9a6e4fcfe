"""MacRAG: slices are searched, their chunks rise, documents are ranked, and neighbouring chunks merge.

`strategy` is the paper's Algorithm 1; `document_rank` asks a chat model for the order of documents; `ranked_sentences` is
ours, for budgets that cannot hold the merged chunks whole. `generation` has the modes of Table 4. Beside it stands `longrag`,
which gives the whole documents of the best chunks.
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
            "slices, their chunks, the best documents' neighbourhoods",
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
