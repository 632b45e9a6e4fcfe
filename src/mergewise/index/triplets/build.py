"""Triplets of passages (AED-RAG Eq. 4): made by rules, or extracted by a chat model. Nothing is embedded."""

from __future__ import annotations

from collections.abc import Sequence

from mergewise.index.triplets.passages import passages_of
from mergewise.index.triplets.records import Extraction, Triplet, TripletSet
from mergewise.index.triplets.rules import triplets_by_rules
from mergewise.index.triplets.settings import TripletSettings
from mergewise.store.views import Makers, ViewRows
from mergewise.text.sections import shared_path
from mergewise.types import DocumentRows, Leaf, Rows


def build(documents: Sequence[DocumentRows], settings: TripletSettings, makers: Makers) -> list[ViewRows]:
    """The triplets of each document, and how they came to be."""
    return [_by_rules(document, settings) for document in documents]


def _by_rules(document: DocumentRows, settings: TripletSettings) -> ViewRows:
    text, title = document.document.text, document.document.title
    passages = passages_of(document, settings.longest)
    found = [triplets_by_rules(text, title, leaves, settings.most) for leaves in passages]
    sets = _sets(document, passages, found)
    extraction = Extraction(
        len(sets), document.document.id, "rules", len(sets), sum(map(bool, found)), sum(map(len, found))
    )
    return {"triplet": Rows(sets), "extraction": Rows((extraction,))}


def _sets(
    document: DocumentRows, passages: Sequence[Sequence[Leaf]], found: Sequence[Sequence[Triplet]]
) -> tuple[TripletSet, ...]:
    first = document["leaf"][0].id if document["leaf"] else 0
    return tuple(
        TripletSet(
            id=number,
            doc_id=document.document.id,
            title=leaves[0].title,
            headings=shared_path([leaf.headings for leaf in leaves]),
            ordinal=number,
            first_leaf=leaves[0].id - first,
            leaf_count=len(leaves),
            start=leaves[0].start,
            end=leaves[-1].end,
            made="rules",
            triplets=tuple(triplets),
        )
        for number, (leaves, triplets) in enumerate(zip(passages, found, strict=True))
    )
