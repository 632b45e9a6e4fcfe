"""Fragments of documents as passages with spans, in reading order.

Fragments of one section that touch are joined. A gap between them is marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Literal, TypeAlias

from mergewise.assemble.fragments import Candidate, Fragment, join_touching
from mergewise.types import GAP, Passage, Span

Order: TypeAlias = Annotated[
    Literal["document", "score"], "`document` keeps the order of the documents, `score` shows the best first"
]


def passages_of(selected: Sequence[Candidate], order: Order) -> list[Passage]:
    """Arrange the selected candidates as passages in reading order.

    "score": best candidate first, a passage for each candidate. "document": documents by their best candidate, and within a
    document by position, so that each heading line appears once above all of its text.
    """
    if order == "score":
        ranked = sorted(selected, key=lambda candidate: -candidate.score)
        return [passage for candidate in ranked for passage in _passages(_pieces(candidate))]
    best: dict[str, float] = {}
    pieces = [piece for candidate in selected for piece in _pieces(candidate)]
    for score, fragment in pieces:
        best[fragment.doc_id] = max(score, best.get(fragment.doc_id, score))
    return _passages(sorted(pieces, key=lambda p: (-best[p[1].doc_id], p[1].doc_id, p[1].start)))


def _pieces(candidate: Candidate) -> list[tuple[float, Fragment]]:
    return [(candidate.score, fragment) for fragment in candidate.fragments]


def _passages(pieces: Sequence[tuple[float, Fragment]]) -> list[Passage]:
    passages = []
    for (doc_id, headings), group in groupby(pieces, key=lambda p: p[1].section):
        members = sorted(group, key=lambda p: p[1].start)
        runs = [fragment.visible for fragment in join_touching(fragment for _, fragment in members)]
        text, score = GAP.join(text for _, _, text in runs), max(score for score, _ in members)
        spans = tuple(Span(doc_id, start, end) for start, end, _ in runs)
        passages.append(Passage(text, score, spans, title=members[0][1].title, headings=headings))
    return passages
