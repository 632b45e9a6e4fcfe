"""M-RAG: search by keys, contexts from values.

`markers` is its view. `strategy` searches and takes values by rank, `pieces` are the parts of a context, and `notes` are the
trace notes of the selected markers. The paper's baselines split documents into `chunks` in three ways and take the best
(`chunked`).
"""

from __future__ import annotations

from mergewise.designs.design import Design, later

_CHUNKS = ("fixed", "semantic", "pic")
DESIGN = Design(
    {**later(f"{__name__}.chunks", "VIEWS", *_CHUNKS).data, **later(f"{__name__}.markers", "VIEW", "marker").data},
    later(f"{__name__}.chunked", "STRATEGIES", "mrag", *_CHUNKS),
    prompts=later(f"{__name__}.markers.extract", "PROMPTS", "markers", "document-summaries"),
)
