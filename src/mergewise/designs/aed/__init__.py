"""AED-RAG: passages, triplets and the model's own background, each read in a stream of its own and decoded together.

`triplets` is its view, `strategy` chooses what each stream reads, `ensemble` decodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mergewise.designs.aed import triplets
from mergewise.designs.design import Design, Lazy, Strategy
from mergewise.types import PromptTemplate

if TYPE_CHECKING:
    from mergewise.generate.mode import Mode


def _strategies() -> dict[str, Strategy]:
    from mergewise.designs.aed.strategy import AED, PRESETS, assemble

    summary = "the most useful passages, to be read in streams of their own (AED-RAG)"
    return {"aed": Strategy(assemble, AED(), summary, mode="aed", presets=PRESETS)}


def _modes() -> dict[str, Mode[Any]]:
    from mergewise.designs.aed.ensemble import MODES

    return MODES


def _prompts() -> dict[str, PromptTemplate]:
    from mergewise.designs.aed.triplets.extract import RULES

    return {one.name: one for one in (RULES,)}


DESIGN = Design({"triplet": triplets.VIEW}, Lazy(_strategies), Lazy(_modes), Lazy(_prompts))
