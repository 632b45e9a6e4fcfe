"""CRAG (Yan et al. 2024), a baseline of MacRAG: an evaluator decides whether to refine the retrieved passages or search again."""

from __future__ import annotations

from mergewise.designs.design import Design, later

DESIGN = Design(
    strategies=later(f"{__name__}.strategy", "STRATEGIES", "crag"),
    prompts=later(f"{__name__}.keywords", "PROMPTS", "keywords"),
)
