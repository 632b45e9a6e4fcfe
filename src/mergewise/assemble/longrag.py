"""LongRAG's retrieval, the baseline of MacRAG: top chunks, reranked, and the documents that they come from.

`unit="document"` gives the whole parents of the top `k2` chunks, best first (the long text of mode R&L);
`unit="chunk"` the top `k2` chunks themselves (R&B). A document above the budget gives the chunks that were found in it
instead, best first, and what is left of the budget goes to the first sentences of a chunk. The chunks are those of the
slice view, found by its search: the ranking that `macrag` starts from too, so that a comparison is one of assembly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mergewise.assemble.macrag.ranked_sentences import whole
from mergewise.assemble.macrag.strategy import Scored, parents, rerank, retrieve
from mergewise.assemble.shared.budget import Models, fill
from mergewise.assemble.shared.fragments import Candidate, fragment_of
from mergewise.assemble.shared.render import Order
from mergewise.errors import UsageError
from mergewise.protocols import IndexReader
from mergewise.types import Chunk, Context, LeafSentences, Step


@dataclass(frozen=True, slots=True)
class LongRAG:
    """`k1` slices lead to chunks, of which `k2` are kept. `unit`: what of each is given."""

    k1: int = 100
    k2: int = 7
    unit: Literal["document", "chunk"] = "document"
    order: Order = "document"


def assemble(
    question: str, reader: IndexReader, budget: int, models: Models, parameters: LongRAG, name: str
) -> Context:
    if parameters.k1 < 1 or parameters.k2 < 1:
        raise UsageError(f"longrag: k1={parameters.k1}, k2={parameters.k2}", "give 1 or more")
    hits = retrieve(reader, question, parameters.k1)
    trace = [Step("search", f"{len(hits)} slices", tuple(span for hit in hits for span in hit.spans))]
    top = rerank(question, parents(hits), reader, models, trace)[: parameters.k2]
    chunks = reader.chunks([chunk.id for chunk in top])
    leaves = reader.sentences(sorted({i for chunk in chunks.values() for i in _leaves(chunk)}))
    top = [chunk for chunk in top if chunk.id in chunks and chunks[chunk.id].first_leaf in leaves]
    singles = {chunk.id: _candidate(chunks[chunk.id], chunk.score, leaves) for chunk in top}
    whole_chunks = parameters.unit == "chunk"
    candidates = list(singles.values()) if whole_chunks else _documents(top, chunks, singles, reader, budget, trace)
    return fill(question, name, candidates, budget, models, parameters.order, trace)


def _leaves(chunk: Chunk) -> range:
    return range(chunk.first_leaf, chunk.first_leaf + chunk.leaf_count)


def _candidate(chunk: Chunk, score: float, leaves: Mapping[int, LeafSentences]) -> Candidate:
    return whole([leaves[i] for i in _leaves(chunk) if i in leaves], [(chunk.start, chunk.end)], score)


def _documents(
    top: Sequence[Scored],
    chunks: Mapping[int, Chunk],
    singles: Mapping[int, Candidate],
    reader: IndexReader,
    budget: int,
    trace: list[Step],
) -> list[Candidate]:
    """Each parent document once, at the place of its best chunk; the chunks found in one that cannot fit."""
    firsts = reader.leaves(sorted({chunks[chunk.id].first_leaf for chunk in top}))
    families: dict[int, list[Scored]] = {}
    for chunk in top:
        families.setdefault(firsts[chunks[chunk.id].first_leaf].ancestors[0], []).append(chunk)
    roots = reader.sections(list(families))
    fitting = {root: section for root, section in roots.items() if section.tokens <= budget}
    wanted = [i for s in fitting.values() for i in range(s.first_leaf, s.first_leaf + s.leaf_count)]
    texts = reader.leaves(wanted)
    trace.append(Step("parents", f"{len(families)} documents of {len(top)} chunks, {len(fitting)} within the budget"))
    candidates: list[Candidate] = []
    for root, family in families.items():
        inside = tuple(singles[chunk.id] for chunk in family)
        if root in fitting:
            own = range(fitting[root].first_leaf, fitting[root].first_leaf + fitting[root].leaf_count)
            fragments = tuple(fragment_of([texts[i]]) for i in own if i in texts)
            candidates.append(Candidate(fragments, family[0].score, inside))
        else:
            candidates += inside
    return candidates
