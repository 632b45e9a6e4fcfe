"""MergeRAG (Guo et al., "Rethinking Retrieval-Augmentation as Synthesis"): weak chunks are fused until the rest fits the
budget.

`strategy` runs the whole design, and `merging` is its Algorithms 1 to 4. Chunks are sentences (`pieces`) with a `relevance`.
`fusion_operators` fuse two chunks into one, some with a model (`fusion_prompts`). `notes` records each merge in the trace.
"""

from __future__ import annotations

from mergewise.designs.design import Design, later

DESIGN = Design(
    strategies=later(f"{__name__}.strategy", "STRATEGIES", "mergerag-sym", "mergerag-asym"),
    prompts=later(f"{__name__}.fusion_prompts", "PROMPTS", "merge", "enrich"),
)
