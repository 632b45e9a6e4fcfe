"""Build the triplets of passages (AED-RAG Eq. 4), by rules or by a chat model. They are not embedded.

If calls fail, passages without an answer get triplets by rules, as their rows record. The document is retried when documents are
next added.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from mergewise.designs.aed.triplets.extract import PassageTriplet, policy, same_words, task
from mergewise.designs.aed.triplets.records import Made, Triplet, TripletExtraction, TripletSet, TripletSettings
from mergewise.designs.aed.triplets.rules import triplets_by_rules
from mergewise.index.tree.reader import extent
from mergewise.index.views import DocumentWriter
from mergewise.index.writing.segments import TextSegment
from mergewise.index.writing.task import Written
from mergewise.models.record import Models
from mergewise.store.views import OnShare, ViewRows
from mergewise.text.sections import shared_headings
from mergewise.types import DocumentRows, Leaf, Rows


def build(
    documents: Sequence[DocumentRows], settings: TripletSettings, models: Models, on_share: OnShare | None = None
) -> list[ViewRows]:
    """Make the triplets of each document."""
    answers = WRITER.write(documents, settings, models, on_share)
    return [_rows(document, written, settings) for document, written in zip(documents, answers, strict=True)]


def passages_of(document: DocumentRows, longest: int) -> list[list[Leaf]]:
    """Split a document into passages by the rule of `mergewise.assemble.passages`.

    Returns the leaves of each passage, in order. Every leaf is in exactly one passage.
    """
    sections = {section.id: section for section in document["section"]}
    return [list(leaves) for _, leaves in groupby(document["leaf"], key=lambda leaf: extent(leaf, sections, longest))]


def segments_of(passages: Sequence[Sequence[Leaf]]) -> list[TextSegment]:
    """Convert passages to the numbered paragraphs of a prompt."""
    return [
        TextSegment(
            number,
            leaves[0].start,
            leaves[-1].end,
            sum(leaf.tokens for leaf in leaves),
            leaves[0].headings,
            tuple(sentence for leaf in leaves for sentence in leaf.sentences),
        )
        for number, leaves in enumerate(passages)
    ]


WRITER = DocumentWriter(lambda document, settings: segments_of(passages_of(document, settings.longest)), task, policy)


def _rows(document: DocumentRows, written: Written[PassageTriplet] | None, settings: TripletSettings) -> ViewRows:
    """Return the rows of a document. Passages get triplets by rules if no model was used, or it failed before answering."""
    passages = passages_of(document, settings.longest)
    listed: list[list[Triplet]] = [[] for _ in passages]
    for item in () if written is None else written.items:
        listed[item.passage].append(item.triplet)
    too_many = sum(max(0, len(triplets) - settings.most) for triplets in listed)
    made: list[tuple[Made, Sequence[Triplet]]] = []
    for triplets, leaves in zip(listed, passages, strict=True):
        if triplets or not (written is None or written.failure):
            made.append(("model", sorted(triplets[: settings.most], key=lambda triplet: triplet.start)))
            continue
        distinct: dict[tuple[str, ...], Triplet] = {}
        for triplet in triplets_by_rules(document.document.text, document.document.title, leaves):
            distinct.setdefault(same_words(triplet), triplet)
        made.append(("rules", list(distinct.values())[: settings.most]))
    first = document["leaf"][0].id if document["leaf"] else 0
    sets = tuple(
        TripletSet(
            id=number,
            doc_id=document.document.id,
            title=leaves[0].title,
            headings=shared_headings(leaves),
            ordinal=number,
            first_leaf=leaves[0].id - first,
            leaf_count=len(leaves),
            start=leaves[0].start,
            end=leaves[-1].end,
            made=how,
            triplets=tuple(triplets),
        )
        for number, (leaves, (how, triplets)) in enumerate(zip(passages, made, strict=True))
    )
    extraction = TripletExtraction(
        id=len(sets),
        doc_id=document.document.id,
        made=settings.made,
        passages=len(sets),
        found=sum(bool(row.triplets) for row in sets),
        triplets=sum(len(row.triplets) for row in sets),
        **({} if written is None else written.as_fields({"too many": too_many})),
    )
    return {"triplet": Rows(sets), "extraction": Rows((extraction,))}
