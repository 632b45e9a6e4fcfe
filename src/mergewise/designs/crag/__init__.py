"""CRAG (Yan et al. 2024), the baseline of MacRAG: an evaluator judges what was found, which is refined, or searched for again."""

from __future__ import annotations

from mergewise.designs.design import Design, Lazy, Strategy
from mergewise.types import PromptTemplate


def _strategies() -> dict[str, Strategy]:
    from mergewise.designs.crag.strategy import CRAG, assemble

    return {"crag": Strategy(assemble, CRAG(), "the best strips of passages that an evaluator judged (CRAG)")}


def _prompts() -> dict[str, PromptTemplate]:
    from mergewise.designs.crag.keywords import INSTRUCTIONS

    return {INSTRUCTIONS.name: INSTRUCTIONS}


DESIGN = Design(strategies=Lazy(_strategies), prompts=Lazy(_prompts))
