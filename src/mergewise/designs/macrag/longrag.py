"""LongRAG's retrieval, the baseline of MacRAG: top chunks, reranked, and the documents that they come from.

`unit="document"` returns the whole parents of the top `k2` chunks, best first (the long text of mode R&L). `unit="chunk"`
returns the top `k2` chunks themselves (R&B). A document that exceeds the budget is replaced by its chunks among the top `k2`,
best first. The rest of the budget goes to the first sentences of a chunk. `macrag` starts from the same search of slices, so
that a comparison of the two compares only how they assemble.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate, Order, fragment_of
from mergewise.assemble.sentences import fragments_within
from mergewise.designs.design import Strategy
from mergewise.designs.macrag import strategy
from mergewise.designs.macrag.chunks import ChunkReading, ScoredChunk, SliceSearch
from mergewise.designs.macrag.slices import Chunk
from mergewise.grouping import group_by
from mergewise.models.record import Models
from mergewise.protocols import IndexReader
from mergewise.ranges import MOST_ROWS, CheckedFields, Range
from mergewise.types import Context, Step, frozen


@frozen
class LongRAG(CheckedFields):
    k1: Annotated[int, Range(1, MOST_ROWS), "slices retrieved"] = 100
    k2: Annotated[int, Range(1, MOST_ROWS), "chunks kept after reranking"] = 7
    unit: Annotated[Literal["document", "chunk"], "result: the chunks, or their documents if these fit"] = "document"
    search: Annotated[
        Literal["hybrid", "vectors"], "search of slices by full text and vectors, or by vectors alone"
    ] = "hybrid"
    order: Order = "document"


PRESETS = {"paper": {"search": "vectors"}}
"""`paper`: the search of MacRAG's section 4, which LongRAG uses too."""


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: LongRAG) -> Context:
    search = SliceSearch(question, reader, models)
    top = search.rerank(search.parents(parameters.k1, parameters.search))[: parameters.k2]
    chunks = search.slices.chunks([chunk.id for chunk in top])
    leaves = reader.sentences(sorted({i for chunk in chunks.values() for i in chunk.leaves}))
    top = [chunk for chunk in top if chunk.id in chunks and chunks[chunk.id].first_leaf in leaves]
    candidates: dict[int, Candidate] = {}
    for chunk in top:
        whole = chunks[chunk.id]
        own = (leaves[i] for i in whole.leaves if i in leaves)
        candidates[chunk.id] = Candidate(fragments_within(own, [(whole.start, whole.end)]), chunk.score)
    ranked = list(candidates.values())
    if parameters.unit == "document":
        ranked = _documents(search, top, chunks, candidates, budget)
    packed = pack(question, ranked, budget, models, parameters.order, search.trace)
    if parameters.unit == "document":
        return packed
    return replace(packed, reading=ChunkReading(tuple((chunks[chunk.id].span,) for chunk in top)))


def _documents(
    search: SliceSearch,
    top: Sequence[ScoredChunk],
    chunks: Mapping[int, Chunk],
    candidates: Mapping[int, Candidate],
    budget: int,
) -> list[Candidate]:
    """Rank each parent document by its best chunk. A document that exceeds the budget is replaced by its chunks in `top`."""
    firsts = search.reader.leaves(sorted({chunks[chunk.id].first_leaf for chunk in top}))
    families = group_by(top, lambda chunk: firsts[chunks[chunk.id].first_leaf].ancestors[0])
    roots = search.reader.sections(list(families))
    fitting = {root: section for root, section in roots.items() if section.tokens <= budget}
    texts = search.reader.leaves([i for section in fitting.values() for i in section.leaves])
    reason = f"{len(families)} documents of {len(top)} chunks, {len(fitting)} within the budget"
    search.trace.append(Step("parents", reason))
    ranked: list[Candidate] = []
    for root, family in families.items():
        inside = tuple(candidates[chunk.id] for chunk in family)
        if root in fitting:
            fragments = tuple(fragment_of([texts[i]]) for i in fitting[root].leaves if i in texts)
            ranked.append(Candidate(fragments, family[0].score, inside))
        else:
            ranked += inside
    return ranked


STRATEGIES = {
    "macrag": Strategy(
        strategy.assemble,
        strategy.MacRAG(),
        "slices, their chunks, and the neighbourhoods in the best documents",
        views=("slice",),
        presets=strategy.PRESETS,
    ),
    "longrag": Strategy(
        assemble, LongRAG(), "the documents of the best chunks (LongRAG)", views=("slice",), presets=PRESETS
    ),
}
