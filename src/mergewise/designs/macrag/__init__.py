"""MacRAG: slices are searched, their chunks are scaled up, documents are ranked, and neighbouring chunks are merged.

`strategy` is the paper's Algorithm 1. It may ask a chat model for the order of documents. `ranked_sentences` is our
own, for budgets below the size of the merged chunks. `generation` has the modes of Table 4. `longrag` is the baseline: it
returns the whole documents of the best chunks.
"""

from __future__ import annotations

from mergewise.designs.design import Design, lazy
from mergewise.designs.macrag import slices

DESIGN = Design(
    {"slice": slices.VIEW},
    lazy(f"{__name__}.longrag", "STRATEGIES"),
    lazy(f"{__name__}.generation", "MODES"),
    lazy(f"{__name__}.slices.summaries", "PROMPTS"),
)
