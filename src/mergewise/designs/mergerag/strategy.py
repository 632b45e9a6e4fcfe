"""The strategy MergeRAG: weak chunks are fused, pair by pair, until the rest fits the budget.

Algorithms 1 to 4 (`merging`) form the pairs, and an operator (`fusion_operators`) fuses a pair. S(c; q) of a chunk is the
relevance of its best sentence, which depends on the scores of the search, or the reranker's score. L_NLL comes from the
built-in model of words (`lm`), or from a given scorer. l(c) counts the tokens of a chunk in the context, heading lines
included.

Where we differ from the paper, and why:
- The paper's S(c; q) is the score of the search, computed again for a fused chunk. No search has seen that chunk, so
  `scores=chunk` can only use the score of its best part. The default, the relevance of the best sentence, depends on the
  sentences
  that are left. With the extractive fusion both kept the same evidence in every measured cell.
- A chunk here is a leaf of the index (47 tokens on average), or neighbouring leaves up to `chunk_tokens`.
- Without a model, nothing tells which sentences the question does not need, so the extractive operator prunes down to the
  budget (`relevance.Floors`).
- `guard`: the last round merges no more pairs than the budget needs.
- `refill`: the rest of the budget goes to the most relevant sentences that the extractive operator dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate, Fragment, Order
from mergewise.designs.design import Strategy
from mergewise.designs.mergerag.fusion_operators import ASK, Extractive, Fusion, Modelled, Operator
from mergewise.designs.mergerag.lm import WordModel, corpus_words
from mergewise.designs.mergerag.merging import (
    Fused,
    Merge,
    MergeChunk,
    MergeResult,
    Pair,
    Rows,
    Schedule,
    asymmetric,
    merge,
    symmetric,
)
from mergewise.designs.mergerag.notes import MergeNode, MergeNote, TreeNote
from mergewise.designs.mergerag.pieces import (
    ChunkLengths,
    ChunkSentence,
    ChunkSource,
    Content,
    fragments_of,
    sentences_of,
    sources_of,
    spans_of,
    text_of,
)
from mergewise.designs.mergerag.relevance import Floors, relevance
from mergewise.errors import UsageError
from mergewise.models.record import Models
from mergewise.protocols import FloatArray, IndexReader, NLLScorer
from mergewise.ranges import AT_ONCE, SHARE, CheckedFields, Range
from mergewise.types import Context, Step, Usage, frozen

# Maximum sentences to try.
REFILL = 40


@frozen
class MergeRAG(CheckedFields):
    pairs: Annotated[
        Literal["symmetric", "asymmetric"],
        "how the weakest chunk is fused: with the next weakest, or onto the anchor that predicts it best",
    ] = "symmetric"
    k: Annotated[int, Range(0, 1000), "leaves from the search"] = 50
    chunk_tokens: Annotated[
        int, Range(0, 1_000_000), "maximum tokens of a chunk of touching leaves; 0: each leaf is a chunk"
    ] = 0
    fusion: Annotated[
        Literal["auto", "extractive", "point", "copy"],
        "operator for a pair; `auto` is `point` with a chat model, else `extractive`",
    ] = "auto"
    scores: Annotated[
        Literal["sentence", "chunk"],
        "S(c; q) without a reranker: the relevance of the best sentence, or the search score of the chunk",
    ] = "sentence"
    schedule: Annotated[Schedule, "all pairs of a round, or one after another"] = "hierarchical"
    at_once: Annotated[int, AT_ONCE, "merges requested from a chat model at the same time (B)"] = 8
    guard: Annotated[bool, "the last round takes no more pairs than the budget needs"] = True
    keep: Annotated[float, SHARE, "extractive: share of the tokens kept at each level of the tree"] = 0.5
    refill: Annotated[bool, "extractive: fill the rest of the budget with the best dropped sentences"] = True
    widen: Annotated[int, Range(0, 100), "with `--merge-with`: factor on the budget of the first strategy"] = 4
    order: Order = "document"


PRESETS = {"paper": {"fusion": "copy", "scores": "chunk", "guard": False, "refill": False}}
"""`paper`: sections 3 and 4.1 of MergeRAG, whose chat model fuses every pair."""


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: MergeRAG) -> Context:
    """Search, and merge the leaves that the search returns."""
    hits = reader.search(question, parameters.k, by="reranker")
    sources = sources_of(hits, parameters.chunk_tokens)
    search = Step("search", f"{len(hits)} leaves, {len(sources)} chunks", tuple(hit.row.span for hit in hits))
    return merge_sources(question, sources, budget, models, parameters, [search])


def merge_context(context: Context, budget: int, models: Models, parameters: MergeRAG) -> Context:
    """Merge what another strategy selected. Each part of its passages is a chunk.

    Text written by a model is left out, since its sentences are in no document.
    """
    sources = [
        ChunkSource(Fragment(span.doc_id, p.title, p.headings, span.start, span.end, span.start, text), p.score)
        for p in context.passages
        if p.verbatim
        for span, text in p.parts()
    ]
    generated = [span for p in context.passages if not p.verbatim for span in p.spans]
    given = tuple(source.fragment.span for source in sources)
    steps = [*context.trace, Step("given", f"{len(sources)} chunks of {context.strategy}", given)]
    if generated:
        steps.append(Step("skip", "generated text cannot be merged", tuple(generated)))
    merged = merge_sources(context.question, sources, budget, models, parameters, steps)
    return replace(merged, usage=context.usage + merged.usage)


def merge_sources(
    question: str,
    sources: Sequence[ChunkSource],
    budget: int,
    models: Models,
    parameters: MergeRAG,
    trace: Sequence[Step],
) -> Context:
    chunks = Chunks(question, sources, budget, models, parameters)
    merged = merge(
        chunks.first,
        budget,
        symmetric if parameters.pairs == "symmetric" else asymmetric(nll_rows(models.scorer)),
        chunks.fuse,
        parameters.schedule,
        parameters.at_once,
        parameters.guard,
    )
    notes = [chunks.note(done) for done in merged.merges]
    depth = max((chunk.depth for chunk in merged.chunks), default=0)
    reason = (
        f"{len(chunks.first)} chunks to {len(merged.chunks)}: {merged.rounds} rounds, depth {depth}, "
        f"{len(merged.merges)} fusions in {merged.batches} batches, {chunks.usage.calls} calls of a model"
    )
    # Calls beyond the first for a pair, each because the previous answer was unusable.
    repairs = sum(max(0, note.calls - 1) for note in notes)
    reason += f", {repairs} of them repairs" if repairs else ""
    steps = [*trace, *map(MergeNote.step, notes), Step("merged", reason, note=TreeNote(tuple(notes)))]
    context = pack(question, chunks.candidates(merged), budget, models, parameters.order, steps)
    return replace(context, usage=chunks.usage)


class Chunks:
    """The chunks of one question: sentences, relevance, and fusions. `first` are the retrieved chunks."""

    def __init__(
        self, question: str, sources: Sequence[ChunkSource], budget: int, models: Models, parameters: MergeRAG
    ) -> None:
        by_chunk = sentences_of(sources, models.count_tokens)
        self.sentences = [sentence for sentences in by_chunk for sentence in sentences]
        self.lengths = ChunkLengths(self.sentences, models.count_tokens)
        self.usage = Usage()
        self._question, self._models, self._parameters = question, models, parameters
        contents = [tuple(sentences) for sentences in by_chunk]
        reranked = self._reranker_scores(contents)
        self._found = reranked or [source.score for source in sources]
        self.relevance = relevance(question, self.sentences, self._found)
        floor = Floors(self.relevance, self.lengths, budget, parameters.keep)
        extractive = Extractive(self.relevance, floor, parameters.pairs == "asymmetric")
        self._operator: Operator = extractive
        fusion = parameters.fusion
        if fusion == "auto":
            fusion = "extractive" if models.chat is None else "point"
        if fusion != "extractive":
            if models.chat is None:
                raise UsageError(f"fusion={fusion} needs a chat model", "name one (--chat), or use fusion=extractive")
            self._operator = Modelled(ASK[fusion], question, models, extractive)
        self._fusions: list[Fusion] = []
        self._nodes: dict[int, MergeNode] = {}
        scores = reranked or self._own_scores(contents)
        self.first = [
            MergeChunk(number, scores[number], self.lengths(content), content)
            for number, content in enumerate(contents)
            if content
        ]

    def fuse(self, pairs: Sequence[Pair]) -> list[Fused]:
        fusions = self._operator(pairs)
        self._fusions += fusions
        self.usage = sum((fusion.usage for fusion in fusions), self.usage)
        contents = [fusion.kept for fusion in fusions]
        scores = self._reranker_scores(contents) or self._own_scores(contents)
        return [Fused(score, self.lengths(kept), kept) for score, kept in zip(scores, contents, strict=True)]

    def _own_scores(self, contents: Sequence[Content]) -> list[float]:
        """Return S(c; q) without a reranker: the score of the best sentence, or of the best first chunk of its sentences."""
        of_chunks = self._parameters.scores == "chunk"
        return [
            max((self._found[one.chunk] if of_chunks else self.relevance[one] for one in content), default=0.0)
            for content in contents
        ]

    def _reranker_scores(self, contents: Sequence[Content]) -> list[float]:
        if self._models.reranker is None or not contents:
            return []
        scores = self._models.reranker.score(self._question, [text_of(content) for content in contents])
        return [float(score) for score in scores]

    def note(self, done: Merge) -> MergeNote:
        fusion = self._fusions[done.number]
        return MergeNote(
            round=done.round,
            source=self._node(done.pair.source),
            host=self._node(done.pair.host),
            result=self._node(done.result),
            how=fusion.how,
            nll=done.pair.nll,
            calls=fusion.usage.calls,
            unsupported=fusion.unsupported,
            taken=done.taken,
            problem=fusion.problem,
        )

    def _node(self, chunk: MergeChunk) -> MergeNode:
        if chunk.number not in self._nodes:
            self._nodes[chunk.number] = MergeNode(chunk.number, chunk.score, chunk.length, spans_of(chunk.content))
        return self._nodes[chunk.number]

    def candidates(self, merged: MergeResult) -> list[Candidate]:
        """Return the remaining chunks, best first, and then the sentences that the extractive operator dropped."""
        chunks = sorted((c for c in merged.chunks if c.content), key=lambda c: (-c.score, c.number))
        left = {sentence for chunk in chunks for sentence in chunk.content}
        candidates = [Candidate(fragments_of(c.content), c.score, tuple(self._singles(c.content))) for c in chunks]
        if self._parameters.refill and (not left or all(fusion.how == "extractive" for fusion in self._fusions)):
            candidates += self._singles([sentence for sentence in self.sentences if sentence not in left])[:REFILL]
        return candidates

    def _singles(self, sentences: Iterable[ChunkSentence]) -> list[Candidate]:
        """Return these sentences as candidates, the most relevant first."""
        ranked = sorted(sentences, key=lambda s: -self.relevance[s])
        return [Candidate((sentence.fragment,), self.relevance[sentence]) for sentence in ranked]


def nll_rows(scorer: NLLScorer | None) -> Rows:
    """Return a function for rows of the NLL matrix that scores no pair twice.

    The built-in scorer computes the rows of all anchors at once, which is cheaper.
    """
    known: dict[int, dict[int, float]] = defaultdict(dict)
    embedded = scorer is None
    made: dict[int, str] = {}

    def texts(chunks: Sequence[MergeChunk]) -> list[str]:
        """Return the texts of the chunks, each built once, since chunks never change."""
        made.update((chunk.number, text_of(chunk.content)) for chunk in chunks if chunk.number not in made)
        return [made[chunk.number] for chunk in chunks]

    def rows(source: MergeChunk, anchors: Sequence[MergeChunk]) -> list[float]:
        nonlocal scorer
        if scorer is None:
            scorer = WordModel(corpus_words(texts([source, *anchors])))
        row = known[source.number]
        missing = [anchor for anchor in anchors if anchor.number not in row]
        if missing:
            whole = embedded and len(missing) > len(anchors) / 2
            sources, columns = ([source, *anchors],) * 2 if whole else ([source], missing)
            values: FloatArray = scorer.nll(texts(sources), texts(columns))
            numbers = [column.number for column in columns]
            for chunk, scores in zip(sources, values.tolist(), strict=True):
                known[chunk.number].update(zip(numbers, scores, strict=True))
        return [row[anchor.number] for anchor in anchors]

    return rows


STRATEGIES = {
    "mergerag-sym": Strategy(
        assemble,
        MergeRAG(),
        "the weakest chunks are fused with each other until the rest fits the budget",
        merge_context,
        presets=PRESETS,
    ),
    "mergerag-asym": Strategy(
        assemble,
        MergeRAG(pairs="asymmetric"),
        "the weakest chunk is fused onto the chunk that predicts it best, until the rest fits the budget",
        merge_context,
        presets=PRESETS,
    ),
}
