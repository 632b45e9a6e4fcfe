"""RAPTOR (Sarthi et al. 2024), the baseline of MergeRAG and MacRAG: chunks are clustered and summarised, again and again.

`chunks` is its view. `tree` grows the tree over all chunks. `clusters` and `mixture` group the nodes of a layer.
"""

from __future__ import annotations

from mergewise.designs.design import Design, Lazy, Strategy
from mergewise.designs.raptor import chunks
from mergewise.designs.raptor.tree import RaptorReader
from mergewise.store.views import View
from mergewise.types import PromptTemplate

VIEW = View(
    name="raptor",
    settings=chunks.RaptorSettings,
    tables=lambda settings: (chunks.CHUNKS,),
    build=chunks.build,
    problems=chunks.problems,
    reader=RaptorReader,
    with_chat={"summary": "abstractive"},
    needs_embedder=True,
    presets=chunks.PRESETS,
)


def _strategies() -> dict[str, Strategy]:
    from mergewise.designs.raptor.strategy import PRESETS, Raptor, assemble
    from mergewise.generate.mode import EMBEDDER

    summary = "the nearest nodes of a tree of summaries (RAPTOR)"
    return {"raptor": Strategy(assemble, Raptor(), summary, views=("raptor",), presets=PRESETS, needs=EMBEDDER)}


def _prompts() -> dict[str, PromptTemplate]:
    from mergewise.designs.raptor.summaries import INSTRUCTIONS

    return {INSTRUCTIONS.name: INSTRUCTIONS}


DESIGN = Design({"raptor": VIEW}, Lazy(_strategies), prompts=Lazy(_prompts))
