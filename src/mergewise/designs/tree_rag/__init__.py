"""Tree-RAG (Tao et al., Findings of ACL 2025), a baseline of MergeRAG: search at every level of the section tree."""

from __future__ import annotations

from mergewise.designs.design import Design, Lazy, Strategy
from mergewise.designs.tree_rag import outline
from mergewise.store.views import View

VIEW = View(
    name="outline",
    settings=outline.OutlineSettings,
    tables=lambda settings: (outline.OUTLINE,),
    build=outline.build,
    problems=outline.problems,
    reader=outline.OutlineReader,
)


def _strategies() -> dict[str, Strategy]:
    from mergewise.designs.tree_rag.strategy import PRESETS, TreeRAG, assemble

    summary = "whole sections that match the question, and the sections around matching leaves (Tree-RAG)"
    return {"tree-rag": Strategy(assemble, TreeRAG(), summary, views=("outline",), presets=PRESETS)}


DESIGN = Design({"outline": VIEW}, Lazy(_strategies))
