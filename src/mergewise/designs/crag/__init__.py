"""CRAG (Yan et al. 2024), a baseline of MacRAG: an evaluator decides whether to refine the retrieved passages or search again."""

from __future__ import annotations

from mergewise.designs.design import Design, lazy

DESIGN = Design(strategies=lazy(f"{__name__}.strategy", "STRATEGIES"), prompts=lazy(f"{__name__}.keywords", "PROMPTS"))
