"""Self-RAG (Asai et al. 2024), the baseline of MacRAG: an answer from each passage apart, graded by the model that wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mergewise.designs.design import Design, Lazy, Strategy

if TYPE_CHECKING:
    from mergewise.generate.mode import Mode


def _strategies() -> dict[str, Strategy]:
    from mergewise.designs.self_rag.strategy import SelfRAG, assemble

    summary = (
        "the best passages of the search, to be answered from apart by a model (Self-RAG); without one, a plain search"
    )
    return {"self-rag": Strategy(assemble, SelfRAG(), summary, mode="self-rag")}


def _modes() -> dict[str, Mode[Any]]:
    from mergewise.designs.self_rag.answering import MODE

    return {"self-rag": MODE}


DESIGN = Design(strategies=Lazy(_strategies), modes=Lazy(_modes))
