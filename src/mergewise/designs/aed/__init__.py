"""AED-RAG: separate streams for passages, triplets and the model's own background, decoded together.

`triplets` is its view, `strategy` selects the inputs of each stream, and `ensemble` decodes.
"""

from __future__ import annotations

from mergewise.designs.design import Design, later

_MODES = ("aed", "aed-best", "naive", "recomp", "replug", "short")
DESIGN = Design(
    later(f"{__name__}.triplets", "VIEW", "triplet"),
    later(f"{__name__}.strategy", "STRATEGIES", "aed"),
    later(f"{__name__}.ensemble", "MODES", *_MODES),
    later(f"{__name__}.ensemble.prompts", "PROMPTS", "triplets", "background", "summary"),
)
