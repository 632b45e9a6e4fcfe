"""Auto-Merge retrieval: leaves that cover enough of their parent are replaced by the parent. Its view is the tree of every
index.

The baselines are `topk`, the best leaves as they are (also DOS RAG, bare BM25, dense, hybrid and reranked retrieval), and
`full`, all documents in order.
"""

from __future__ import annotations

from mergewise.designs.design import Design, Lazy, Strategy


def _strategies() -> dict[str, Strategy]:
    from mergewise.designs.auto_merge import full, strategy, topk
    from mergewise.generate.mode import EMBEDDER, RERANKER

    bare = topk.BASELINES
    return {
        "auto-merge": Strategy(
            strategy.assemble,
            strategy.AutoMerge(),
            "leaves that cover enough of a section are replaced by the section",
            presets=strategy.PRESETS,
        ),
        "topk": Strategy(topk.assemble, topk.TopK(), "the best leaves until the budget is full"),
        "dos": Strategy(topk.assemble, topk.TopK(order="document"), "the best leaves in the order of their documents"),
        "bm25": Strategy(topk.assemble, bare["bm25"], "the best leaves by full text alone, best first"),
        "dense": Strategy(topk.assemble, bare["dense"], "the best leaves by vectors alone, best first", needs=EMBEDDER),
        "hybrid": Strategy(topk.assemble, bare["hybrid"], "the best leaves by full text and vectors, best first"),
        "reranker": Strategy(
            topk.assemble, bare["reranker"], "the best leaves in the order of a reranker", needs=RERANKER
        ),
        "full": Strategy(full.assemble, full.Full(), "all documents in order, cut in the middle to the budget"),
    }


DESIGN = Design(strategies=Lazy(_strategies))
