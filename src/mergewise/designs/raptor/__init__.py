"""RAPTOR (Sarthi et al. 2024), the baseline of MergeRAG and MacRAG: chunks are clustered and summarised, again and again.

`chunks` is its view. `tree` grows the tree over all chunks. `clusters` and `mixture` group the nodes of a layer.
"""

from __future__ import annotations

from mergewise.designs.design import Design, lazy
from mergewise.designs.raptor import chunks
from mergewise.designs.raptor.tree import RaptorReader
from mergewise.store.views import View

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


DESIGN = Design(
    {"raptor": VIEW}, lazy(f"{__name__}.strategy", "STRATEGIES"), prompts=lazy(f"{__name__}.summaries", "PROMPTS")
)
