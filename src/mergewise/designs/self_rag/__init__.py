"""Self-RAG (Asai et al. 2024), a baseline of MacRAG: the model writes an answer per passage and grades its own answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mergewise.designs.design import Design, Lazy, Strategy

if TYPE_CHECKING:
    from mergewise.generate.mode import Mode


def _strategies() -> dict[str, Strategy]:
    from mergewise.designs.self_rag.strategy import PRESETS, SelfRAG, assemble

    summary = "the best passages of the search, for one answer per passage (Self-RAG); without a model, a plain search"
    return {"self-rag": Strategy(assemble, SelfRAG(), summary, mode="self-rag", presets=PRESETS)}


def _modes() -> dict[str, Mode[Any]]:
    from mergewise.designs.self_rag.answering import MODE

    return {"self-rag": MODE}


DESIGN = Design(strategies=Lazy(_strategies), modes=Lazy(_modes))
