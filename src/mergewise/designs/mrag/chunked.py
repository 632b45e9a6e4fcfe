"""Chunks by rank until the budget is full: the baselines Fixed-Size, Semantic and PIC of M-RAG (section 3.1), over their views.

The three differ only in how documents are split (`chunks`). They share the retriever, the order and the budget, as in the paper.
Differences from the paper:
- The retriever is hybrid search, as for every strategy here. `search=vectors` uses only vectors, like the paper.
- Heading lines count against the budget (`headings=off` omits them).
- The budget is never exceeded. A chunk that does not fit is skipped, as in `topk`. With `last=end` the selection ends there, as
  in the paper, with the first sentences of that chunk.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Annotated, Literal

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate, Fragment, Order
from mergewise.designs.design import Strategy
from mergewise.designs.mrag import strategy
from mergewise.designs.mrag.chunks import ChunkReader
from mergewise.models.record import Models
from mergewise.protocols import IndexReader
from mergewise.ranges import ROWS, CheckedFields
from mergewise.text.markup import readable, says_something
from mergewise.types import Context, Step, frozen


@frozen
class Chunked(CheckedFields):
    k: Annotated[int, ROWS, "Chunks to retrieve; the budget usually ends the selection first"] = 50
    order: Order = "document"
    search: Annotated[Literal["hybrid", "vectors"], "Search by full text and vectors, or by vectors only"] = "hybrid"
    headings: Annotated[bool, "Title and headings above chunks"] = True
    last: Annotated[
        Literal["cut", "end"],
        "Treatment of a chunk that does not fit: `cut` continues with chunks that fit, and fills the rest of the budget with "
        "first sentences of the others; `end` stops there, with its first sentences",
    ] = "cut"


PRESETS = {"paper": {"k": 1000, "order": "score", "search": "vectors", "headings": False, "last": "end"}}
"""`paper`: the baselines of M-RAG's section 3.1, selected like its values."""


def assemble(
    view: str, question: str, reader: IndexReader, budget: int, models: Models, parameters: Chunked
) -> Context:
    """Assemble the best chunks of one of the three views."""
    chunks: ChunkReader = reader.view(view)
    hits = chunks.search(question, parameters.k, parameters.search)
    found = [(chunk, score) for chunk, score in hits if says_something(readable(chunk.text))]
    cuts = Counter(chunk.cut for chunk, _ in found)
    ways = ", ".join(f"{count} by {cut}" if len(cuts) > 1 else f"by {cut}" for cut, count in sorted(cuts.items()))
    reason = f"{len(found)} chunks" + (f" ({ways})" if ways else "")
    trace = [Step("search", reason, tuple(chunk.span for chunk, _ in found))]
    if models.reranker is not None and found:
        scores = models.reranker.score(question, [f"{chunk.title}\n{chunk.text}".strip() for chunk, _ in found])
        rescored = [(chunk, float(score)) for (chunk, _), score in zip(found, scores, strict=True)]
        found = sorted(rescored, key=lambda pair: (-pair[1], pair[0].id))
        trace.append(Step("rerank", f"{len(found)} chunks by {models.reranker.spec}"))
    candidates = []
    for chunk, score in found:
        title, headings, body = chunk.title, chunk.headings, chunk.body
        if not parameters.headings:
            title, headings, body = "", (), chunk.start
        fragment = Fragment(chunk.doc_id, title, headings, chunk.start, chunk.end, body, chunk.text)
        candidates.append(Candidate((fragment,), score))
    return pack(question, candidates, budget, models, parameters.order, trace, last=parameters.last)


STRATEGIES = {
    "mrag": Strategy(
        strategy.assemble,
        strategy.MRAG(),
        "the values of the markers with the best keys",
        views=("marker",),
        presets=strategy.PRESETS,
    ),
    **{
        name: Strategy(partial(assemble, name), Chunked(), summary, views=(name,), presets=PRESETS)
        for name, summary in {
            "fixed": "the best chunks of a fixed size until the budget is full",
            "semantic": "the best chunks, split at changes of topic, until the budget is full",
            "pic": "the best chunks, grouped by similarity to a summary (PIC), until the budget is full",
        }.items()
    },
}
