"""MacRAG: slices are searched, their chunks are scaled up, documents are ranked, and neighbouring chunks are merged.

`strategy` is the paper's Algorithm 1. It may ask a chat model for the order of documents. `ranked_sentences` is our
own, for budgets below the size of the merged chunks. `generation` has the modes of Table 4. `longrag` is the baseline: it
returns the whole documents of the best chunks.
"""

from __future__ import annotations

from mergewise.designs.design import Design, later

_MODES = "fil full-e&f full-ext r&b r&b-e&f r&b-ext r&l".split()
DESIGN = Design(
    later(f"{__name__}.slices", "VIEW", "slice"),
    later(f"{__name__}.longrag", "STRATEGIES", "macrag", "longrag"),
    later(f"{__name__}.generation", "MODES", *_MODES),
    later(f"{__name__}.strategy", "PROMPTS", "summaries", "rank"),
)
