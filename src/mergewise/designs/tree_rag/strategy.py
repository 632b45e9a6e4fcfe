"""Tree-RAG's bidirectional retrieval (Tao et al., Findings of ACL 2025) over the section tree of the index.

    root to leaves   a retrieved inner node adds all leaves below it
    leaf to root     a retrieved leaf adds its siblings, the nearest first if not all of them fit

The paper's code is not public. This follows the abstract and a summary of the paper. Differences:
- The tree is the same for every index: by headings, or by blank lines and size in a text without headings. The paper lets a model
  write an outline for such a text.
- Expansions are packed in the order of their scores until the budget is full. Both searches use the scale of the rank fusion.
- An inner node that exceeds the whole budget is not expanded: only those of its leaves count that the search returned. Otherwise
  the beginning of one long document would fill every context.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate, Fragment, Order, fragment_of
from mergewise.designs.design import Strategy
from mergewise.designs.tree_rag.outline import OutlineNode, OutlineReader
from mergewise.models.record import Models
from mergewise.protocols import IndexReader
from mergewise.ranges import MOST_ROWS, CheckedFields, Range
from mergewise.store.views import Presets
from mergewise.types import Cause, Context, Hit, Leaf, Section, Step, frozen
from mergewise.types.answers import best_first


@frozen
class TreeRAG(CheckedFields):
    k: Annotated[int, Range(1, MOST_ROWS), "Leaves to retrieve, and inner nodes"] = 20
    ways: Annotated[
        Literal["both", "down", "up"], "Directions: root to leaves (`down`), leaf to root (`up`), or both"
    ] = "both"
    order: Order = "document"


PRESETS: Presets = {"paper": {}}
"""`paper`: both directions, as in the abstract. The paper's number of nodes is not known."""


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: TreeRAG) -> Context:
    outline: OutlineReader = reader.view("outline")
    hits = [hit for hit in reader.search(question, parameters.k) if hit.row.sentences]
    nodes = outline.search(question, parameters.k) if parameters.ways != "up" else []
    parents = reader.sections(sorted({hit.row.parent for hit in hits})) if parameters.ways != "down" else {}
    leaves = _read(hits, nodes, parents, budget, reader)
    trace = [Step("search", f"{len(hits)} leaves, {len(nodes)} inner nodes", tuple(hit.row.span for hit in hits))]
    found = {hit.row.id: hit for hit in hits}
    ranked: list[Candidate] = []
    for node, score in nodes:
        own = [leaves[leaf] for leaf in node.leaves if leaf in leaves]
        if len(own) == len(node.leaves) and sum(leaf.tokens for leaf in own) <= budget:
            # Its hits replace the section if it does not fit.
            inside = best_first(found[leaf] for leaf in node.leaves if leaf in found)
            instead = tuple(_single(hit.row, score) for hit in inside)
            ranked.append(Candidate(tuple(_fragments(own)), score, instead))
            spans = ranked[-1].spans
            trace.append(Step("down", " › ".join(node.headings) or node.title, spans, score=score, cause=Cause.MERGE))
    for hit in hits:
        parent = parents.get(hit.row.parent)
        own = [leaves[leaf] for leaf in parent.leaves if leaf in leaves] if parent is not None else [hit.row]
        # the leaf and then its nearest siblings replace the section if it does not fit
        near = sorted(own, key=lambda leaf: (abs(leaf.id - hit.row.id), leaf.id))
        instead = tuple(_single(leaf, hit.score) for leaf in near) if len(near) > 1 else ()
        ranked.append(Candidate(tuple(_fragments(own)), hit.score, instead))
        if len(own) > 1:
            trace.append(Step("up", "a leaf's section", ranked[-1].spans, score=hit.score, cause=Cause.MERGE))
    ranked.sort(key=lambda one: -one.score)
    return pack(question, ranked, budget, models, parameters.order, trace)


def _read(
    hits: Sequence[Hit],
    nodes: Sequence[tuple[OutlineNode, float]],
    parents: Mapping[int, Section],
    budget: int,
    reader: IndexReader,
) -> dict[int, Leaf]:
    """Read all leaves that may fit in one call: at most `budget` leaves of a section, since each has a token."""
    wanted = {leaf for node, _ in nodes if len(node.leaves) <= budget for leaf in node.leaves}
    for hit in hits:
        parent = parents.get(hit.row.parent)
        if parent is not None:
            near = range(hit.row.id - budget, hit.row.id + budget + 1)
            wanted.update(leaf for leaf in parent.leaves if leaf in near)
    known = {hit.row.id: hit.row for hit in hits}
    return known | reader.leaves(sorted(wanted - known.keys()))


def _single(leaf: Leaf, score: float) -> Candidate:
    return Candidate((fragment_of([leaf]),), score)


def _fragments(leaves: Sequence[Leaf]) -> Iterator[Fragment]:
    return (fragment_of([leaf]) for leaf in leaves if leaf.sentences)


STRATEGIES = {
    "tree-rag": Strategy(
        assemble,
        TreeRAG(),
        "whole sections that match the question, and the sections around matching leaves (Tree-RAG)",
        views=("outline",),
        presets=PRESETS,
    )
}
