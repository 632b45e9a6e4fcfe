"""Auto-Merge retrieval: leaves that cover enough of a parent are replaced by the parent, and neighbours are joined.

Modes: "auto" merges by share and score. "always" returns the parents of the hits. "never" returns leaves. "semantic" returns
clusters of leaves by the cosine of their vectors.

Where we differ from the design of record, and why:
- A score threshold is a share of the best hit's score, and a cosine threshold is a share of the distance from the lowest to
  the highest cosine among the hits, since absolute thresholds depend on the embedder.
- A parent that exceeds the whole budget never replaces its hits.
- Merging is repeated up to the document. A merged section counts as one child of its own parent, and hits deeper
  inside a merged section become part of it.
- By default a merged section has the score of its best part ("max"). With the mean, weak leaves would drag a good one down.
- Neighbours are joined only if both reach `min_score`, since a weak one would get a strong one's score. With `join=all`
  all touching items are joined, as in the design of record.
- Neighbours and gaps are determined by position and never by rank.

The preset `paper` has the text's own rules: a search by vectors, absolute thresholds for cosines (0.3 for the mean of a section's
children, 0.7 between leaves), sections that merge once, the three best results of nine leaves, and a label for each result. The
view's preset `leaf.preset=paper` has the text's sizes. The text gives leaves 256 or 200 characters; its whole system uses 200.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Annotated, Literal, NamedTuple, TypeAlias

import numpy as np

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate, Order, split_runs
from mergewise.assemble.leads import Antecedents
from mergewise.assemble.passages import search_leaves
from mergewise.designs.auto_merge import full, topk
from mergewise.designs.design import Strategy
from mergewise.errors import UsageError
from mergewise.generate.mode import EMBEDDER, RERANKER
from mergewise.grouping import group_by
from mergewise.models.record import Models
from mergewise.protocols import IndexReader, SearchKind
from mergewise.ranges import MOST_ROWS, ROWS, SHARE, CheckedFields, Range
from mergewise.types import Cause, Context, Hit, Section, Span, Step, frozen
from mergewise.types.answers import best_first

Mode: TypeAlias = Literal["auto", "always", "never", "semantic"]


@frozen
class AutoMerge(CheckedFields):
    mode: Annotated[
        Mode, "`auto` merges by share and score, `always` takes parents, `never` leaves, `semantic` clusters by cosine"
    ] = "auto"
    k: Annotated[int, ROWS, "leaves from the search"] = 48
    merge_threshold: Annotated[
        float, Range(0, 2), "minimum share of a parent's children found; above 1 disables merging"
    ] = 0.6
    min_score: Annotated[float, SHARE, "minimum mean score of these children, as a share of the best hit's"] = 0.75
    join: Annotated[Literal["strong", "all"], "neighbours to join: pairs that both reach `min_score`, or all"] = (
        "strong"
    )
    fill_gaps: Annotated[int, Range(0, 1000), "maximum missing leaves between two neighbours that are filled in"] = 0
    similarity: Annotated[
        float, SHARE, "`semantic`: minimum cosine, from the lowest (0) to the highest (1) among the hits"
    ] = 0.7
    merged_score: Annotated[Literal["mean", "max"], "score of a merged section from the scores of its parts"] = "max"

    search: Annotated[SearchKind, "search by full text and vectors, by `text` alone, or by `vectors` alone"] = "hybrid"
    thresholds: Annotated[
        Literal["shares", "absolute"], "`min_score` and `similarity`: shares as described, or `absolute` cosines"
    ] = "shares"
    repeat: Annotated[bool, "merged sections may merge again, up to the document"] = True
    most: Annotated[int, Range(0, MOST_ROWS), "results to keep, best first; 0: all"] = 0
    labels: Annotated[bool, "name the kind of each result, and the number of its leaves, in its heading"] = False
    order: Order = "document"


PRESETS = {
    "paper": {
        "k": 9,
        "merge_threshold": 0.5,
        "min_score": 0.3,
        "join": "all",
        "merged_score": "mean",
        "search": "vectors",
        "thresholds": "absolute",
        "repeat": False,
        "most": 3,
        "labels": True,
        "order": "score",
    }
}


class _LeafRange(NamedTuple):
    """A leaf, a run of neighbouring leaves or a merged section: leaf ids `first .. last`, and a score.

    `kind` is its label, and `hits` the number of found leaves in it.
    """

    first: int
    last: int
    score: float
    ancestors: tuple[int, ...]
    span: Span
    kind: str = "leaf"
    hits: int = 1


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: AutoMerge) -> Context:
    trace: list[Step] = []
    is_absolute = parameters.thresholds == "absolute"
    # the text's own `always` takes the parents of the results of `auto` for twice as many leaves
    is_twice = is_absolute and parameters.mode == "always"
    k = parameters.k * (1 + is_twice)
    hits = search_leaves(
        question, reader.searching_by(parameters.search), k, trace, "search" if is_absolute else "both"
    )
    if is_absolute:
        # a leaf that only the full text found has no cosine
        hits = best_first(replace(hit, score=hit.cosine or 0.0) for hit in hits)
    if parameters.mode == "semantic":
        candidates = _clusters(hits, reader, models, parameters, trace)
    else:
        # All sections above all hits are read in one call. Missing sections are skipped.
        above = {ancestor for hit in hits for ancestor in hit.row.ancestors} if parameters.mode != "never" else set()
        sections = reader.sections(sorted(above))
        if lost := sorted(above - sections.keys()):
            orphans = tuple(hit.row.span for hit in hits if not sections.keys() >= set(hit.row.ancestors))
            reason = f"sections {lost} missing in the index; run `mergewise check --repair`"
            trace.append(Step("missing", reason, orphans))
        items = [_LeafRange(hit.row.id, hit.row.id, hit.score, hit.row.ancestors, hit.row.span) for hit in hits]
        if parameters.mode == "auto" or is_twice:
            floor = _floor(items, parameters) if parameters.join == "strong" else -inf
            items = merge(items, sections, parameters, budget, trace)
            items = join_neighbours(items, floor, parameters, trace)
        if is_twice and parameters.most:
            items = best_first(items)[: 2 * parameters.most]
        if parameters.mode == "always":
            items = parents(items, sections, budget, trace)
        candidates = _candidates(items, hits, reader, parameters)
    if parameters.most:
        candidates = best_first(candidates)[: parameters.most]
    return pack(question, candidates, budget, models, parameters.order, trace)


def merge(
    items: Sequence[_LeafRange], sections: dict[int, Section], parameters: AutoMerge, budget: int, trace: list[Step]
) -> list[_LeafRange]:
    """Replace items by their parents. The deepest parents come first, so that one pass equals repeated ones."""
    floor = _floor(items, parameters)
    current = list(items)
    for depth in range(max((len(item.ancestors) for item in items), default=0), 0, -1):
        merging = (i for i in current if len(i.ancestors) == depth and (parameters.repeat or i.kind == "leaf"))
        for parent_id, family in group_by(merging, lambda item: item.ancestors[-1]).items():
            parent = sections.get(parent_id)
            if parent is None or parent.tokens > budget:
                continue
            # The share of the children must reach `merge_threshold` and their mean score `min_score`.
            alone = len(family) == 1 and (parent.children > 1 or parameters.thresholds == "absolute")
            mean = sum(item.score for item in family) / len(family)
            if alone or len(family) / parent.children < parameters.merge_threshold or mean < floor:
                continue
            # Children of this section, and hits below a child that did not merge.
            inside = [item for item in current if item.first in parent.leaves and item.last in parent.leaves]
            score = _merged_score([item.score for item in inside], parameters)
            merged = _section_range(parent, score, family[0].ancestors[:-1], sum(item.hits for item in inside))
            if parent.children > 1:
                reason = f"{len(family)} of {parent.children} children found"
                trace.append(Step("merge", reason, tuple(item.span for item in inside), merged.span, merged.score))
            current = [item for item in current if item not in inside] + [merged]
    return current


def _floor(items: Sequence[_LeafRange], parameters: AutoMerge) -> float:
    """Return `min_score`, as a share of the best hit's score or absolute."""
    if parameters.thresholds == "absolute":
        return parameters.min_score
    return parameters.min_score * max((item.score for item in items), default=0.0)


def _section_range(section: Section, score: float, ancestors: tuple[int, ...], hits: int) -> _LeafRange:
    return _LeafRange(section.first_leaf, section.leaves[-1], score, ancestors, section.span, "merged", hits)


def _merged_score(scores: Sequence[float], parameters: AutoMerge) -> float:
    """Return the score of a merged item from the scores of its parts."""
    return max(scores) if parameters.merged_score == "max" else sum(scores) / len(scores)


def join_neighbours(
    items: Sequence[_LeafRange], floor: float, parameters: AutoMerge, trace: list[Step]
) -> list[_LeafRange]:
    """Join items of one parent that touch or leave a gap of at most `fill_gaps` leaves, by position in the document.

    Both items must have a score of `floor` or more.
    """

    def joins(left: _LeafRange, right: _LeafRange) -> bool:
        near = left.ancestors == right.ancestors and right.first - left.last - 1 <= parameters.fill_gaps
        near = near and (parameters.repeat or left.kind == right.kind == "leaf")
        return near and min(left.score, right.score) >= floor

    joined: list[_LeafRange] = []
    for run in split_runs(sorted(items, key=lambda item: item.first), joins):
        first, last = run[0], run[-1]
        if first is last:
            joined.append(first)
            continue
        span = Span(first.span.doc_id, first.span.start, last.span.end)
        score = _merged_score([item.score for item in run], parameters)
        hits = sum(item.hits for item in run)
        joined.append(_LeafRange(first.first, last.last, score, first.ancestors, span, "merged neighbours", hits))
        filled = sum(right.first - left.last - 1 for left, right in pairwise(run))
        reason = f"neighbours, {filled} leaves between them filled in" if filled else "neighbours"
        trace.append(Step("join", reason, tuple(item.span for item in run), span, score, cause=Cause.NEIGHBOUR))
    return joined


def parents(
    items: Sequence[_LeafRange], sections: dict[int, Section], budget: int, trace: list[Step]
) -> list[_LeafRange]:
    """Return the parents of the items, each once, with the score of its best item.

    A merged section and an item with a missing or too large parent stay. If a parent is below another chosen one, only the outer
    one stays.
    """
    families: dict[int, list[_LeafRange]] = defaultdict(list)
    kept: list[_LeafRange] = []
    for item in items:
        parent = None if item.kind == "merged" else sections.get(item.ancestors[-1])
        if parent is not None and parent.tokens <= budget:
            families[parent.id].append(item)
        else:
            kept.append(item)
    for parent_id, family in families.items():
        score = max(item.score for item in family)
        merged = _section_range(sections[parent_id], score, family[0].ancestors[:-1], len(family))
        trace.append(Step("merge", "parents only", tuple(i.span for i in family), merged.span, merged.score))
        if not families.keys() & set(merged.ancestors):
            kept.append(merged)
    return kept


def _candidates(
    items: Sequence[_LeafRange], hits: Sequence[Hit], reader: IndexReader, parameters: AutoMerge
) -> list[Candidate]:
    """Return the items with their text, best first. The hits in an item replace it if the whole does not fit.

    Leaves that were not hits are read in one call.
    """
    by_id = {hit.row.id: hit for hit in hits}
    leaves = {hit.row.id: hit.row for hit in hits}
    wanted = {leaf for item in items for leaf in range(item.first, item.last + 1)}
    leaves |= reader.leaves(sorted(wanted - leaves.keys()))
    leads = Antecedents(leaves, reader)
    candidates = []
    for item in sorted(items, key=lambda i: (-i.score, i.span.doc_id, i.first)):
        ids = range(item.first, item.last + 1)
        inside = [by_id[i] for i in ids if i in by_id] if len(ids) > 1 else []
        candidate = leads.candidate([leaves[i] for i in ids if i in leaves], item.score, _singles(inside, leads))
        candidates.append(_with_label(candidate, item.kind, item.hits) if parameters.labels else candidate)
    return candidates


def _with_label(candidate: Candidate, kind: str, hits: int) -> Candidate:
    """Return the candidate with its kind and its number of leaves as the last heading."""
    label = f"[{kind}, {hits} chunk{'' if hits == 1 else 's'}]"
    fragments = (replace(one, headings=(*one.headings, label)) for one in candidate.fragments)
    instead = tuple(_with_label(one, "leaf", 1) for one in candidate.instead)
    return replace(candidate, fragments=tuple(fragments), instead=instead)


def _singles(hits: Sequence[Hit], leads: Antecedents) -> tuple[Candidate, ...]:
    return tuple(leads.candidate([hit.row], hit.score) for hit in best_first(hits))


def _clusters(
    hits: Sequence[Hit], reader: IndexReader, models: Models, parameters: AutoMerge, trace: list[Step]
) -> list[Candidate]:
    """Cluster the hits: each, best first, gathers the later hits that are similar to it.

    Clusters are ordered by their best scores. Hits without a vector follow at the end.
    """
    vectors = reader.vectors([hit.row.id for hit in hits])
    if hits and not vectors and models.embedder is None:
        raise UsageError("the mode 'semantic' needs vectors", "index with an embedder, for example --embedder minilm")
    leads = Antecedents({hit.row.id: hit.row for hit in hits}, reader)
    # These hits are not embedded yet.
    alone = _singles([hit for hit in hits if hit.row.id not in vectors], leads)
    hits = [hit for hit in hits if hit.row.id in vectors]
    if len(hits) < 2:
        return [*_singles(hits, leads), *alone]
    matrix = np.stack([vectors[hit.row.id] for hit in hits])
    cosines = matrix @ matrix.T
    pairs = cosines[np.triu_indices(len(hits), 1)]
    is_absolute = parameters.thresholds == "absolute"
    low, high = (0.0, 1.0) if is_absolute else (pairs.min(), pairs.max())
    alike = cosines >= low + parameters.similarity * (high - low)
    free = set(range(len(hits)))
    clusters: list[Candidate] = []
    for i in range(len(hits)):
        if i not in free:
            continue
        members = [j for j in sorted(free) if j == i or alike[i, j]]
        free.difference_update(members)
        rows = sorted((hits[j].row for j in members), key=lambda row: row.id)
        scores = [hits[j].score for j in members]
        score = max(scores) if is_absolute else _merged_score(scores, parameters)
        if len(rows) > 1:
            trace.append(Step("cluster", "cosine above the threshold", tuple(r.span for r in rows), score=score))
        candidate = leads.candidate(rows, score, _singles([hits[j] for j in members] if len(rows) > 1 else [], leads))
        kind = "merged by meaning" if len(rows) > 1 else "leaf"
        clusters.append(_with_label(candidate, kind, len(rows)) if parameters.labels else candidate)
    return [*clusters, *alone]


STRATEGIES = {
    "auto-merge": Strategy(
        assemble, AutoMerge(), "leaves that cover enough of a section are replaced by the section", presets=PRESETS
    ),
    "topk": Strategy(topk.assemble, topk.TopK(), "the best leaves until the budget is full"),
    "dos": Strategy(topk.assemble, topk.TopK(order="document"), "the best leaves in the order of their documents"),
    "bm25": Strategy(topk.assemble, topk.BASELINES["bm25"], "the best leaves by full text alone, best first"),
    "dense": Strategy(
        topk.assemble, topk.BASELINES["dense"], "the best leaves by vectors alone, best first", needs=EMBEDDER
    ),
    "hybrid": Strategy(topk.assemble, topk.BASELINES["hybrid"], "the best leaves by full text and vectors, best first"),
    "reranker": Strategy(
        topk.assemble, topk.BASELINES["reranker"], "the best leaves in the order of a reranker", needs=RERANKER
    ),
    "full": Strategy(full.assemble, full.Full(), "all documents in order, cut in the middle to the budget"),
}
