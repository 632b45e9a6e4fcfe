"""CRAG (Yan et al. 2024), a baseline of MacRAG: an evaluator decides whether to refine the retrieved passages or search again."""

from __future__ import annotations

from mergewise.designs.design import Design, Lazy, Strategy
from mergewise.types import PromptTemplate


def _strategies() -> dict[str, Strategy]:
    from mergewise.designs.crag.strategy import CRAG, PRESETS, assemble

    summary = "the best strips of passages, chosen by an evaluator (CRAG)"
    return {"crag": Strategy(assemble, CRAG(), summary, presets=PRESETS)}


def _prompts() -> dict[str, PromptTemplate]:
    from mergewise.designs.crag.keywords import INSTRUCTIONS

    return {INSTRUCTIONS.name: INSTRUCTIONS}


DESIGN = Design(strategies=Lazy(_strategies), prompts=Lazy(_prompts))
