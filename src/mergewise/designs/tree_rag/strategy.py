"""Tree-RAG's bidirectional retrieval (Tao et al., Findings of ACL 2025), over the section tree as it stands.

    root to leaves   an inner node that was found brings all leaves below it
    leaf to root     a leaf that was found brings its parent, that is its siblings, nearest first where not all of them fit

There is no public code; this follows the abstract and a summary of the paper. Where we differ, and why:
- the tree is that of every index: by headings, and where there are none by blank lines and size. The paper has a model outline a
  text without headings;
- expansions are taken in the order of the scores until the budget is full. Both searches are on one scale, that of the fusion;
- an inner node that the whole budget cannot hold is left to its leaves that were found themselves: else the beginning of one
  long document would fill every context.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate, Fragment, fragment_of
from mergewise.assemble.render import Order
from mergewise.designs.tree_rag.outline import OutlineNode, OutlineReader
from mergewise.models.record import Models
from mergewise.protocols import IndexReader
from mergewise.ranges import MOST_ROWS, CheckedFields, Range
from mergewise.types import Cause, Context, Hit, Leaf, Section, Step


@dataclass(frozen=True, slots=True)
class TreeRAG(CheckedFields):
    k: Annotated[int, Range(1, MOST_ROWS), "leaves that are looked at, and as many inner nodes"] = 20
    ways: Annotated[Literal["both", "down", "up"], "root to leaves, leaf to root, or both"] = "both"
    order: Order = "document"


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
            ranked.append(_section(own, score, [found[leaf] for leaf in node.leaves if leaf in found]))
            spans = ranked[-1].spans
            trace.append(Step("down", " › ".join(node.headings) or node.title, spans, score=score, cause=Cause.MERGE))
    for hit in hits:
        parent = parents.get(hit.row.parent)
        own = [leaves[leaf] for leaf in _leaves(parent) if leaf in leaves] if parent is not None else [hit.row]
        ranked.append(_around(hit, own))
        if len(own) > 1:
            trace.append(Step("up", "a leaf's section", ranked[-1].spans, score=hit.score, cause=Cause.MERGE))
    ranked.sort(key=lambda one: -one.score)
    return pack(question, ranked, budget, models, parameters.order, trace)


def _leaves(section: Section) -> range:
    return range(section.first_leaf, section.first_leaf + section.leaf_count)


def _read(
    hits: Sequence[Hit],
    nodes: Sequence[tuple[OutlineNode, float]],
    parents: Mapping[int, Section],
    budget: int,
    reader: IndexReader,
) -> dict[int, Leaf]:
    """The leaves that may be needed, in one call: of a section, no more than tokens may fit."""
    wanted = {leaf for node, _ in nodes if len(node.leaves) <= budget for leaf in node.leaves}
    for hit in hits:
        parent = parents.get(hit.row.parent)
        if parent is not None:
            near = range(hit.row.id - budget, hit.row.id + budget + 1)
            wanted.update(leaf for leaf in _leaves(parent) if leaf in near)
    known = {hit.row.id: hit.row for hit in hits}
    return known | reader.leaves(sorted(wanted - known.keys()))


def _section(leaves: Sequence[Leaf], score: float, hits: Sequence[Hit]) -> Candidate:
    """All leaves of a section; the hits among them where they do not fit together."""
    ranked = sorted(hits, key=lambda hit: -hit.score)
    return Candidate(tuple(_fragments(leaves)), score, tuple(_single(hit.row, score) for hit in ranked))


def _around(hit: Hit, leaves: Sequence[Leaf]) -> Candidate:
    """A leaf with its siblings; where they do not fit together, the leaf and then those nearest to it."""
    near = sorted(leaves, key=lambda leaf: (abs(leaf.id - hit.row.id), leaf.id))
    instead = tuple(_single(leaf, hit.score) for leaf in near) if len(near) > 1 else ()
    return Candidate(tuple(_fragments(leaves)), hit.score, instead)


def _single(leaf: Leaf, score: float) -> Candidate:
    return Candidate((fragment_of([leaf]),), score)


def _fragments(leaves: Sequence[Leaf]) -> Iterator[Fragment]:
    return (fragment_of([leaf]) for leaf in leaves if leaf.sentences)
