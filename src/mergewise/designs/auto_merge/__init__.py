"""Auto-Merge retrieval: leaves that cover enough of their parent are replaced by the parent. Its view is the tree of every
index.

The baselines are `topk`, the best leaves as they are (also DOS RAG, bare BM25, dense, hybrid and reranked retrieval), and
`full`, all documents in order.
"""

from __future__ import annotations

from mergewise.designs.design import Design, later

_NAMES = "auto-merge topk dos bm25 dense hybrid reranker full".split()
DESIGN = Design(strategies=later(f"{__name__}.strategy", "STRATEGIES", *_NAMES))
