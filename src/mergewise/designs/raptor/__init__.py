"""RAPTOR (Sarthi et al. 2024), the baseline of MergeRAG and MacRAG: chunks are clustered and summarised, again and again.

`chunks` is its view. `tree` grows the tree over all chunks. `clusters` and `mixture` group the nodes of a layer.
"""

from __future__ import annotations

from mergewise.designs.design import Design, later

DESIGN = Design(
    later(f"{__name__}.tree", "VIEW", "raptor"),
    later(f"{__name__}.strategy", "STRATEGIES", "raptor"),
    prompts=later(f"{__name__}.summaries", "PROMPTS", "clusters"),
)
