"""MacRAG: retrieve slices, rise to their chunks, scale up, rank documents, merge neighbours (Algorithm 1).

Steps (2.1) to (2.5) are the paper's. (2.2) and (2.3) are `parents` and `SliceSearch.rerank` in `chunks`, the others are below.
The result, C_final, has up to k2 merged chunks. All k2 alpha chunks may lie in kept documents, so it is merged from up to k2
alpha (2h + 1) chunks of 400 tokens, and not from k2 (2h + 1): the paper bounds it by k2 alpha and the size of chunks (section
3.4). If the budget holds all of it, C_final is the context. A smaller budget gets its sentences, best first
(`ranked_sentences`).

Where we differ from the paper, and why:
- A budget in tokens applies on top of the paper's bounds (k2, h and the sizes of chunks).
- Without a reranker r(q, c) is the hybrid score of the chunk's best slice.
- c_merge(q, d) is the union of all neighbourhoods of one document, so that k2 documents give k2 merged chunks.
- k2 x alpha above |C'| is not an error: all chunks are taken, and the trace notes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Annotated, Literal, NamedTuple, TypeAlias

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate, Order
from mergewise.assemble.sentences import fragments_within
from mergewise.concurrency import run
from mergewise.designs.macrag.chunks import ChunkReading, ScoredChunk, SliceSearch
from mergewise.designs.macrag.ranked_sentences import ranked_sentences, sentences_in
from mergewise.designs.macrag.slices import ChunkBounds
from mergewise.designs.macrag.slices.summaries import INSTRUCTIONS
from mergewise.errors import UsageError
from mergewise.grouping import group_by
from mergewise.models.record import Models
from mergewise.prompting.quoting import code_for, quotation, turn, warning
from mergewise.prompting.replies import json_in, object_schema
from mergewise.protocols import IndexReader
from mergewise.ranges import MOST_ROWS, CheckedFields, Range
from mergewise.text.spans import spans_in, union
from mergewise.types import Context, Part, PromptTemplate, Span, Step, Usage, frozen

DocumentRank: TypeAlias = Literal["max", "mean", "sum", "llm"]


@frozen
class MacRAG(CheckedFields):
    k1: Annotated[int, Range(1, MOST_ROWS), "slices retrieved"] = 100
    k2: Annotated[int, Range(1, MOST_ROWS), "documents kept, each with its merged chunks"] = 7
    alpha: Annotated[float, Range(1, 100), "factor on `k2` for the chunks kept before documents are ranked"] = 4.0
    h: Annotated[int, Range(0, 100), "neighbours on either side of a chunk"] = 1
    documents: Annotated[
        DocumentRank, "a document's score from its chunks' scores; `llm` is one call of the chat model"
    ] = "max"
    views: Annotated[Literal["slice", "all"], "`all` also ranks by the vectors of chunks and summaries"] = "slice"
    search: Annotated[
        Literal["hybrid", "vectors"], "search of slices by full text and vectors, or by vectors alone"
    ] = "hybrid"
    narrow: Annotated[
        Literal["sentences", "chunks"],
        "selection within a small budget: the best sentences of the merged chunks, or the first merged chunks",
    ] = "sentences"
    reach: Annotated[float, Range(1, 1000), "maximum text to read, as a multiple of the budget"] = 4.0
    order: Order = "document"


PRESETS = {"paper": {"search": "vectors", "narrow": "chunks", "reach": 1000.0}}
"""`paper`: sections 3.2 and 4.1 of MacRAG, in which C_final is the context."""


class MergedChunks(NamedTuple):
    """c_merge(q, d): parts of one document (start, end) without overlaps, and the leaves that they touch."""

    doc_id: str
    parts: tuple[Part, ...]
    leaves: tuple[int, ...]
    tokens: int
    score: float
    rank: float  # r(q, d)

    @property
    def spans(self) -> tuple[Span, ...]:
        return spans_in(self.doc_id, self.parts)


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: MacRAG) -> Context:
    # (2.1), by r(q, l) = Rel(q, l): the hybrid of BM25 and cosine, or cosine alone
    search = SliceSearch(question, reader, models)
    scored = search.parents(parameters.k1, parameters.search)
    if parameters.views == "all":
        # The mean of a chunk's scores by slices, chunks and summaries: multi-view retrieval (section 3.1.3).
        views = [dict(search.slices.rank_chunks(question, parameters.k1, view)) for view in ("chunk", "summary")]
        new = search.slices.chunks(sorted({chunk for view in views for chunk in view} - scored.keys())).values()
        known = scored | {chunk.id: ScoredChunk(chunk.id, chunk.doc_id, 0.0) for chunk in new}
        scored = {
            i: chunk._replace(score=(chunk.score + sum(view.get(i, 0.0) for view in views)) / 3)
            for i, chunk in known.items()
        }
    scaled = scale_up(search, search.rerank(scored), parameters)
    documents, usage = rank_documents(search, scaled, parameters)
    final = merge_neighbours(search, scaled, documents, parameters.h)
    candidates = within_reach(search, final, budget, parameters)
    packed = pack(question, candidates, budget, models, parameters.order, search.trace)
    return replace(packed, usage=usage, reading=ChunkReading(tuple(merged.spans for merged in final)))


def scale_up(search: SliceSearch, ranked: Sequence[ScoredChunk], parameters: MacRAG) -> list[ScoredChunk]:
    """Return (2.4) C'_(q,k2) = TopK_(k2 x alpha)(r(q, c))."""
    wanted = int(parameters.k2 * parameters.alpha)
    lacking = f"k2 x alpha = {wanted}, only {len(ranked)} chunks found: all are taken"
    search.trace.append(Step("scale", lacking if wanted > len(ranked) else f"{wanted} of {len(ranked)} chunks"))
    return list(ranked[:wanted])


def rank_documents(
    search: SliceSearch, scaled: Sequence[ScoredChunk], parameters: MacRAG
) -> tuple[dict[str, float], Usage]:
    """Return (2.4) D_(q,k2): the k2 documents of the best r(q, d) = ReRankDoc({c in d, c in C'_(q,k2)}), best first."""
    families = group_by(scaled, lambda chunk: chunk.doc_id)
    usage = Usage()
    if parameters.documents == "llm":
        best = {doc: family[0].id for doc, family in families.items()}
        chunks = search.slices.chunks(list(best.values()))
        ranks, usage = by_chat(search.question, {doc: chunks[chunk].text for doc, chunk in best.items()}, search.models)
    else:
        ranks = {}
        for doc, family in families.items():
            scores = [chunk.score for chunk in family]
            total = max(scores) if parameters.documents == "max" else sum(scores)
            ranks[doc] = total / (len(scores) if parameters.documents == "mean" else 1)
    first = {doc: family[0].score for doc, family in families.items()}
    ordered = sorted(ranks, key=lambda doc: (-ranks[doc], -first[doc], doc))[: parameters.k2]
    reason = f"{len(ordered)} of {len(families)} by {parameters.documents}: {', '.join(ordered)}"
    search.trace.append(Step("documents", reason))
    return {doc: ranks[doc] for doc in ordered}, usage


def merge_neighbours(
    search: SliceSearch, scaled: Sequence[ScoredChunk], documents: Mapping[str, float], h: int
) -> list[MergedChunks]:
    """Return (2.5) C_final = TopK_k2 of c_merge(q, d) = Merge(N_h(c_i)), in the order of r(q, d)."""
    inside = [chunk for chunk in scaled if chunk.doc_id in documents]
    near = search.slices.bounds(sorted({i for chunk in inside for i in neighbourhood(chunk.id, h)}))
    final = []
    for doc_id, rank in documents.items():
        if not (chunks := [chunk for chunk in inside if chunk.doc_id == doc_id and chunk.id in near]):
            continue
        ids = {i for chunk in chunks for i in neighbourhood(chunk.id, h)}
        number = near[chunks[0].id].document
        members = sorted((near[i] for i in ids if i in near and near[i].document == number), key=lambda c: c.start)
        merged = merge(doc_id, members, max(chunk.score for chunk in chunks), rank)
        reason = f"{len(chunks)} chunks, {len(members)} with neighbours"
        search.trace.append(Step("merge", reason, merged.spans, score=merged.score))
        final.append(merged)
    return final


def neighbourhood(chunk: int, h: int) -> range:
    """Return N_h(c_i) = {c_(i-h), ..., c_i, ..., c_(i+h)}, as ids. Some may belong to another document."""
    return range(chunk - h, chunk + h + 1)


def merge(doc_id: str, members: Sequence[ChunkBounds], score: float, rank: float) -> MergedChunks:
    """Merge chunks by their spans. Shared text is taken once, and neighbours become one part."""
    parts = union((chunk.start, chunk.end) for chunk in members)
    leaves = sorted({i for chunk in members for i in chunk.leaves})
    characters = sum(chunk.end - chunk.start for chunk in members)
    tokens = sum(chunk.tokens for chunk in members) * sum(b - a for a, b in parts) // max(1, characters)
    return MergedChunks(doc_id, tuple(parts), tuple(leaves), tokens, score, rank)


def within_reach(
    search: SliceSearch, final: Sequence[MergedChunks], budget: int, parameters: MacRAG
) -> list[Candidate]:
    """Return C_final as candidates: whole if all of it fits or `narrow` is "chunks", else its sentences, best first."""
    # The first merged chunks that together reach this share of the budget.
    before = accumulate((merged.tokens for merged in final), initial=0)
    read = [merged for merged, total in zip(final, before, strict=False) if total < parameters.reach * budget]
    if len(read) < len(final):
        reason = f"{len(read)} of {len(final)} merged chunks reach {parameters.reach:g} times the budget"
        search.trace.append(Step("reach", reason))
    leaves = search.reader.sentences(sorted({leaf for merged in read for leaf in merged.leaves}))
    if parameters.narrow == "chunks" or sum(merged.tokens for merged in final) <= budget:
        own = [(fragments_within((leaves[i] for i in m.leaves if i in leaves), m.parts), m.score) for m in read]
        # If a merged chunk does not fit, the parts from its beginning are tried.
        return [Candidate(parts, score, tuple(Candidate((part,), score) for part in parts)) for parts, score in own]
    best = max(merged.rank for merged in read)
    inside = [(merged, sentences_in(leaves, merged.leaves, merged.parts)) for merged in read]
    shares = [merged.rank / best if best > 0 else 1.0 for merged, sentences in inside for _ in sentences]
    sentences = [sentence for _, sentences in inside for sentence in sentences]
    return ranked_sentences(search.question, search.reader.question_vector(search.question), sentences, shares, budget)


# -- ranking of documents by a chat model (section 3.2.4)


SCHEMA = object_schema({"ranking": {"type": "array", "items": {"type": "integer"}}})
RANK = PromptTemplate(
    "rank",
    "orders documents by how much they help (MacRAG with documents=llm)",
    """\
You order documents by how much they help to answer a question. Each document is shown by a number and an
excerpt. Answer in JSON, as {"ranking": [numbers]}: the number of every document once, the most helpful first.""",
)
PROMPTS = {one.name: one for one in (INSTRUCTIONS, RANK)}


def by_chat(question: str, excerpts: Mapping[str, str], models: Models) -> tuple[dict[str, float], Usage]:
    """Return r(q, d) in (0, 1] by rank: the documents that the model listed, in its order, then the others in the order given.

    Unknown and repeated numbers in the answer are skipped.
    """
    if models.chat is None:
        raise UsageError("documents=llm needs a chat model", "name one: --chat openai:MODEL")
    ids = list(excerpts)
    code = code_for([question, *excerpts.values()])
    shown = [quotation(f"document [{number}]", excerpts[doc].strip(), code) for number, doc in enumerate(ids, 1)]
    messages = turn(f"{models.prompts.fill(RANK)}\n\n{warning('excerpts')}", [f"Question: {question}", *shown], code)
    reply = run(models.chat.complete(messages, max_tokens=16 * len(ids) + 64, schema=SCHEMA))
    value = json_in(reply.text)
    ranking = value.get("ranking") if isinstance(value, dict) else None
    # True is no number of a document.
    numbers = [number for number in ranking if type(number) is int] if isinstance(ranking, list) else []
    named = [ids[number - 1] for number in numbers if 1 <= number <= len(ids)]
    order = list(dict.fromkeys([*named, *ids]))
    usage = reply.usage if named else reply.usage + Usage(unread=1)
    return {doc: 1 - rank / len(order) for rank, doc in enumerate(order)}, usage
