"""RAPTOR's retrieval (Sarthi et al. 2024, section 3): nodes of a tree of summaries by their cosine with the question.

    collapsed   the k nearest of all nodes, chunks and summaries alike (the paper's default)
    traverse    the k nearest nodes of the highest layer, the k nearest of their children, and so on; all of them are returned

Where we differ, and why:
- The budget works as in every strategy: nodes that do not fit are skipped. The code ends at the first such node.
- An extractive summary is returned as its sentences, under their own headings, and none twice. A summary by a model
  is a passage of its own, with the spans of its sources.
- Under a condition (`where`) a summary counts only if all of its documents meet the condition.
- `traverse` returns the best first, and begins in the highest layer that has such a summary.
- A reranker, if set, orders the nodes, as MacRAG does for this baseline.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from mergewise.assemble.budget import Packer
from mergewise.assemble.fragments import Candidate, HeadingParts, Order, passages_of
from mergewise.assemble.sentences import fragment_at, fragments_within
from mergewise.concurrency import check_time
from mergewise.designs.design import Strategy
from mergewise.designs.raptor.tree import RaptorReader, SummaryTree
from mergewise.generate.mode import EMBEDDER
from mergewise.models.record import Models
from mergewise.protocols import FloatArray, IndexReader
from mergewise.ranges import MOST_ROWS, CheckedFields, Range
from mergewise.text.sentences import split_sentences
from mergewise.types import Cause, Context, Passage, Span, Step, frozen
from mergewise.types.answers import best_first


@frozen
class Raptor(CheckedFields):
    tree: Annotated[Literal["collapsed", "traverse"], "all nodes at once, or from the highest layer downward"] = (
        "collapsed"
    )
    k: Annotated[int, Range(1, MOST_ROWS), "nodes to retrieve; of each layer if the tree is traversed"] = 40
    keep: Annotated[int, Range(0, MOST_ROWS), "nodes kept of these, after reranking; 0: all"] = 0
    order: Order = "document"


PRESETS = {"paper": {"k": 10}}
"""`paper`: ten nodes of the collapsed tree. A traversal takes five of each layer."""


@frozen
class WrittenSummary(Candidate):
    """A summary written by a model. `sources` are the spans that it was written from."""

    text: str = ""
    sources: tuple[Span, ...] = ()

    @property
    def documents(self) -> set[str]:
        return set()

    @property
    def spans(self) -> tuple[Span, ...]:
        return self.sources

    @property
    def texts(self) -> list[str]:
        return [self.text]

    @property
    def headings(self) -> dict[Hashable, HeadingParts]:
        return {("summary", self.text): ("summary", (), True)}

    def beyond(self, taken: Sequence[Candidate]) -> WrittenSummary:
        return self

    def beginnings(self, taken: Sequence[Candidate]) -> Iterator[WrittenSummary]:
        for _, end in reversed(split_sentences(self.text)[:-1]):
            yield replace(self, text=self.text[:end])

    def cut_step(self, beginning: Candidate) -> Step:
        return Step("cut", "first sentences of a summary", self.spans, score=self.score)


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: Raptor) -> Context:
    raptor: RaptorReader = reader.view("raptor")
    tree = raptor.tree(models)
    assert models.embedder is not None
    check_time()
    vector = models.embedder.embed_queries([question])[0]
    find = _nearest_of_all_layers if parameters.tree == "collapsed" else _nearest_downwards
    chunks, nodes = find(question, vector, raptor, tree, parameters)
    ranked = best_first(_candidates(chunks, nodes, tree, raptor, reader))
    if models.reranker is not None and ranked:
        scores = models.reranker.score(question, ["\n".join(one.texts) for one in ranked])
        rescored = [replace(one, score=float(score)) for one, score in zip(ranked, scores, strict=True)]
        ranked = best_first(rescored)
    ranked = ranked[: parameters.keep or None]
    found = f"{len(chunks)} chunks, {len(nodes)} summaries"
    trace = [
        Step("tree", f"{len(tree.nodes)} nodes in {tree.layers} layers over {len(tree.numbers)} chunks, {tree.made}"),
        Step("search", f"{parameters.tree}: {found}", tuple(span for one in ranked for span in one.spans)),
    ]
    for node, score in sorted(nodes.items(), key=lambda pair: -pair[1]):
        below = f"{len(tree.chunks_below[node])} chunks of {len(tree.documents[node])} documents"
        trace.append(Step("summary", f"layer {tree.nodes[node].layer}, {below}", score=score, cause=Cause.SEARCH))
    packer: Packer[Candidate] = Packer(budget, models.count_tokens, "cut", parameters.order == "document")
    packer.fill(ranked)

    def passages(chosen: Sequence[Candidate]) -> list[Passage]:
        # Summaries by a model, best first, and then passages of documents.
        written = best_first(one for one in chosen if isinstance(one, WrittenSummary))
        verbatim = [one for one in chosen if not isinstance(one, WrittenSummary)]
        shown = [Passage(one.text, one.score, one.sources, False) for one in written]
        return shown + passages_of(verbatim, parameters.order)

    return packer.context(question, passages, trace)


def _nearest_of_all_layers(
    question: str, vector: FloatArray, raptor: RaptorReader, tree: SummaryTree, parameters: Raptor
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the nearest of all nodes: ids of chunks and positions of summaries, with their cosines."""
    searchable = raptor.searchable(tree)
    cosines = (tree.vectors @ vector).tolist() if searchable else []
    both = [(score, 0, row) for row, score in raptor.nearest_chunks(question, vector, parameters.k).items()]
    both += [(cosines[node], 1, node) for node in searchable]
    best = sorted(both, key=lambda one: (-one[0], one[1:]))[: parameters.k]
    return {i: score for score, kind, i in best if not kind}, {i: score for score, kind, i in best if kind}


def _nearest_downwards(
    question: str, vector: FloatArray, raptor: RaptorReader, tree: SummaryTree, parameters: Raptor
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the nearest nodes of the highest layer, then of the children of the last choice, down to the chunks."""
    searchable = raptor.searchable(tree)
    if not searchable:
        return raptor.nearest_chunks(question, vector, parameters.k), {}
    cosines = (tree.vectors @ vector).tolist()
    chosen: dict[int, float] = {}
    highest = max(tree.nodes[node].layer for node in searchable)
    layer = [node for node in searchable if tree.nodes[node].layer == highest]
    while True:
        best = sorted(layer, key=lambda node: (-cosines[node], node))[: parameters.k]
        chosen |= {node: cosines[node] for node in best}
        children = sorted({child for node in best for child in tree.nodes[node].children})
        if tree.nodes[best[0]].layer == 1:
            break
        layer = children
    known = raptor.cosines(children, vector)
    nearest = sorted(known, key=lambda row: (-known[row], row))[: parameters.k]
    return {row: known[row] for row in nearest}, chosen


def _candidates(
    chunks: Mapping[int, float],
    nodes: Mapping[int, float],
    tree: SummaryTree,
    raptor: RaptorReader,
    reader: IndexReader,
) -> list[Candidate]:
    written = {chunk for node in nodes if not tree.nodes[node].sentences for chunk in tree.chunks_below[node]}
    rows = raptor.chunks(sorted(written | chunks.keys()))
    wanted = {leaf for row in chunks if row in rows for leaf in rows[row].leaves}
    leaves = reader.leaves(sorted(wanted | {leaf for node in nodes for leaf, _ in tree.nodes[node].sentences}))
    candidates: list[Candidate] = []
    for row, score in chunks.items():
        if row not in rows:
            continue
        own = (leaves[leaf] for leaf in rows[row].leaves if leaf in leaves)
        candidates.append(Candidate(fragments_within(own, [(rows[row].start, rows[row].end)]), score))
    for node, score in nodes.items():
        if sentences := tree.nodes[node].sentences:
            known = ((leaves[leaf], number) for leaf, number in sentences if leaf in leaves)
            fragments = (fragment_at(leaf, number) for leaf, number in known if 0 <= number < len(leaf.sentences))
            candidates.append(Candidate(tuple(fragments), score))
        else:
            spans = tuple(rows[chunk].span for chunk in sorted(tree.chunks_below[node]) if chunk in rows)
            candidates.append(WrittenSummary((), score, (), tree.nodes[node].text, spans))
    return [one for one in candidates if one.texts]


STRATEGIES = {
    "raptor": Strategy(
        assemble,
        Raptor(),
        "the nearest nodes of a tree of summaries (RAPTOR)",
        views=("raptor",),
        presets=PRESETS,
        needs=EMBEDDER,
    )
}
