"""Tree-RAG (Tao et al., Findings of ACL 2025), a baseline of MergeRAG: search at every level of the section tree."""

from __future__ import annotations

from mergewise.designs.design import Design, lazy
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


DESIGN = Design({"outline": VIEW}, lazy(f"{__name__}.strategy", "STRATEGIES"))
