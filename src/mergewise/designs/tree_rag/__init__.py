"""Tree-RAG (Tao et al., Findings of ACL 2025), a baseline of MergeRAG: search at every level of the section tree."""

from __future__ import annotations

from mergewise.designs.design import Design, later

DESIGN = Design(
    later(f"{__name__}.outline", "VIEW", "outline"), later(f"{__name__}.strategy", "STRATEGIES", "tree-rag")
)
