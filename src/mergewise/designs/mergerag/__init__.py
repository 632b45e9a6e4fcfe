"""MergeRAG (Guo et al., "Rethinking Retrieval-Augmentation as Synthesis"): weak chunks are fused until the rest fits the
budget.

`strategy` runs the whole design, and `merging` is its Algorithms 1 to 4. Chunks are sentences (`pieces`) with a `relevance`.
`fusion_operators` fuse two chunks into one, some with a model (`fusion_prompts`). `notes` records each merge in the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mergewise.designs.design import Design, Lazy, Strategy
from mergewise.lazy import lazy_names

if TYPE_CHECKING:
    from mergewise.designs.mergerag.pieces import chunk_texts as chunk_texts


def _strategies() -> dict[str, Strategy]:
    from mergewise.designs.mergerag.strategy import PRESETS, MergeRAG, assemble, merge_context

    return {
        "mergerag-sym": Strategy(
            assemble,
            MergeRAG(),
            "the weakest chunks are fused with each other until the rest fits the budget",
            merge_context,
            presets=PRESETS,
        ),
        "mergerag-asym": Strategy(
            assemble,
            MergeRAG(pairs="asymmetric"),
            "the weakest chunk is fused onto the chunk that predicts it best, until the rest fits the budget",
            merge_context,
            presets=PRESETS,
        ),
    }


DESIGN = Design(strategies=Lazy(_strategies))
__getattr__ = lazy_names(__name__, {"pieces": "chunk_texts"})
