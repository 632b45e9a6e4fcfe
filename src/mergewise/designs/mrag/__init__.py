"""M-RAG: search by keys, contexts from values.

`markers` is its view. `strategy` searches and takes values by rank, `pieces` are the parts of a context, and `notes` are the
trace notes of the selected markers. The paper's baselines split documents into `chunks` in three ways and take the best
(`chunked`).
"""

from __future__ import annotations

from mergewise.designs.design import Design, lazy
from mergewise.designs.mrag import chunks, markers

DESIGN = Design(
    {**chunks.VIEWS, "marker": markers.VIEW},
    lazy(f"{__name__}.chunked", "STRATEGIES"),
    prompts=lazy(f"{__name__}.markers.extract", "PROMPTS"),
)
