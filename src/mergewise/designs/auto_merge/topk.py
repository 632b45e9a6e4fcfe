"""The baselines of all comparisons: the k best leaves, until the budget is full.

`order="score"` shows them best first. `order="document"` is DOS RAG (document's original structure): the same leaves in the
order of their documents, each heading line once. With `longest`, each leaf is replaced by its passage, as in `aed`.

The strategies `bm25`, `dense` and `hybrid` are forms of it without a reranker, best first: by full text alone, by vectors
alone, and by both as the index fuses them. In `reranker` a reranker alone orders the results of the hybrid search.
"""

from __future__ import annotations

from typing import Annotated

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Order
from mergewise.assemble.leads import Antecedents
from mergewise.assemble.passages import SEARCHED, search_leaves, search_passages
from mergewise.models.record import Models
from mergewise.protocols import IndexReader, OrderedBy, SearchKind
from mergewise.ranges import MOST_ROWS, ROWS, CheckedFields, Range
from mergewise.types import Context, Step, frozen


@frozen
class TopK(CheckedFields):
    k: Annotated[int, ROWS, "leaves from the search; the budget usually ends the selection first"] = 100
    order: Order = "document"
    longest: Annotated[int, Range(0, 10_000), "maximum tokens of a section taken whole; k then counts passages"] = 0
    search: Annotated[SearchKind, "search by full text and vectors, by `text` alone, or by `vectors` alone"] = "hybrid"
    by: Annotated[
        OrderedBy, "order of the leaves if a reranker is set: by search and reranker, or one of them alone"
    ] = "both"


BASELINES = {
    "bm25": TopK(order="score", search="text", by="search"),
    "dense": TopK(order="score", search="vectors", by="search"),
    "hybrid": TopK(order="score", by="search"),
    "reranker": TopK(order="score", by="reranker"),
}


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: TopK) -> Context:
    reader = reader.searching_by(parameters.search)
    trace: list[Step] = []
    if parameters.longest:
        most = min(parameters.k, MOST_ROWS // SEARCHED)
        passages = search_passages(question, reader, most, parameters.longest, trace, parameters.by)
        return pack(question, [passage.candidate for passage in passages], budget, models, parameters.order, trace)
    hits = search_leaves(question, reader, parameters.k, trace, parameters.by)
    leads = Antecedents({hit.row.id: hit.row for hit in hits}, reader)
    candidates = (leads.candidate([hit.row], hit.score) for hit in hits)
    return pack(question, candidates, budget, models, parameters.order, trace)
