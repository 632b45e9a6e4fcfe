"""Auto-Merge retrieval: leaves that cover enough of their parent become the parent. Its view is the tree that every index has.

Beside it stands `topk`, the best leaves as they are, which is also DOS RAG.
"""

from __future__ import annotations

from mergewise.designs.design import Design, Lazy, Strategy


def _strategies() -> dict[str, Strategy]:
    from mergewise.designs.auto_merge import strategy, topk

    return {
        "auto-merge": Strategy(
            strategy.assemble, strategy.AutoMerge(), "leaves that cover enough of a section become the section"
        ),
        "topk": Strategy(topk.assemble, topk.TopK(), "the best leaves until the budget is full"),
        "dos": Strategy(topk.assemble, topk.TopK(order="document"), "the best leaves in the order of their documents"),
    }


DESIGN = Design(strategies=Lazy(_strategies))
