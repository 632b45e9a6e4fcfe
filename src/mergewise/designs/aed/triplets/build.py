"""Triplets of passages (AED-RAG Eq. 4): made by rules, or extracted by a chat model. Nothing is embedded.

A document for which calls failed has triplets by rules where answers are missing, and says so row by row; it is taken up again
when documents are next added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mergewise.designs.aed.triplets.extract import Placed, folded, policy, task
from mergewise.designs.aed.triplets.passages import passages_of, segments_of
from mergewise.designs.aed.triplets.records import EXTRACTION, Extraction, Made, Triplet, TripletSet
from mergewise.designs.aed.triplets.rules import triplets_by_rules
from mergewise.designs.aed.triplets.settings import TripletSettings
from mergewise.index.writing.calls import chat_of
from mergewise.index.writing.task import Source, Written
from mergewise.index.writing.write import estimate as estimate_of
from mergewise.index.writing.write import write
from mergewise.models.record import Models
from mergewise.protocols import StoreReader
from mergewise.store.views import Estimate, OnShare, ViewRows
from mergewise.text.keys import short_name
from mergewise.text.sections import shared_path
from mergewise.types import DocumentRows, Leaf, Rows


def build(
    documents: Sequence[DocumentRows], settings: TripletSettings, models: Models, on_share: OnShare | None = None
) -> list[ViewRows]:
    """The triplets of each document, and how they came to be."""
    if settings.made == "rules":
        return [_by_rules(document, settings) for document in documents]
    sources = [_source(document, settings) for document in documents]
    answers = write(sources, task(), policy(settings), chat_of(models, "triplets"), models.count_tokens, on_share)
    return [_by_model(document, written, settings) for document, written in zip(documents, answers, strict=True)]


def estimate(documents: Sequence[DocumentRows], settings: TripletSettings, models: Models) -> Estimate:
    """What the chat model's triplets of these documents cost, if every passage has as many as most have."""
    sources = [_source(document, settings) for document in documents]
    return estimate_of(sources, task(), policy(settings), chat_of(models, "triplets"), models.count_tokens)


def unfinished(reader: StoreReader) -> list[str]:
    """The documents for which calls failed."""
    rows = reader.whole(EXTRACTION.name, ["doc_id", "failure"]).to_pylist()
    return [row["doc_id"] for row in rows if row["failure"]]


def _source(document: DocumentRows, settings: TripletSettings) -> Source:
    given = document.document
    return Source(given.id, short_name(given.title), given.text, segments_of(passages_of(document, settings.longest)))


def _by_rules(document: DocumentRows, settings: TripletSettings) -> ViewRows:
    passages = passages_of(document, settings.longest)
    found = [_of_rules(document, leaves, settings) for leaves in passages]
    return _rows(document, passages, found, Extraction(0, document.document.id, "rules", 0, 0, 0))


def _by_model(document: DocumentRows, written: Written[Placed], settings: TripletSettings) -> ViewRows:
    passages = passages_of(document, settings.longest)
    listed: list[list[Triplet]] = [[] for _ in passages]
    for item in written.items:
        listed[item.passage].append(item.triplet)
    rejects = written.rejects.copy()
    rejects["too many"] += sum(max(0, len(triplets) - settings.most) for triplets in listed)
    found: list[tuple[Made, Sequence[Triplet]]] = [
        ("model", sorted(triplets[: settings.most], key=lambda triplet: triplet.start))
        if triplets or not written.failure
        else _of_rules(document, leaves, settings)
        for triplets, leaves in zip(listed, passages, strict=True)
    ]
    kinds = sorted(kind for kind, count in rejects.items() if count)
    extraction = Extraction(
        id=0,
        doc_id=document.document.id,
        made="model",
        passages=0,
        found=0,
        triplets=0,
        rejects=tuple(kinds),
        reject_counts=tuple(rejects[kind] for kind in kinds),
        calls=written.usage.calls,
        input_tokens=written.usage.input_tokens,
        output_tokens=written.usage.output_tokens,
        failure=written.failure,
    )
    return _rows(document, passages, found, extraction)


def _of_rules(
    document: DocumentRows, leaves: Sequence[Leaf], settings: TripletSettings
) -> tuple[Made, Sequence[Triplet]]:
    made = triplets_by_rules(document.document.text, document.document.title, leaves)
    fresh: dict[tuple[str, ...], Triplet] = {}
    for triplet in made:
        fresh.setdefault(folded(triplet), triplet)
    return "rules", list(fresh.values())[: settings.most]


def _rows(
    document: DocumentRows,
    passages: Sequence[Sequence[Leaf]],
    found: Sequence[tuple[Made, Sequence[Triplet]]],
    extraction: Extraction,
) -> ViewRows:
    first = document["leaf"][0].id if document["leaf"] else 0
    sets = tuple(
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
            made=made,
            triplets=tuple(triplets),
        )
        for number, (leaves, (made, triplets)) in enumerate(zip(passages, found, strict=True))
    )
    extraction = replace(
        extraction,
        id=len(sets),
        passages=len(sets),
        found=sum(bool(row.triplets) for row in sets),
        triplets=sum(len(row.triplets) for row in sets),
    )
    return {"triplet": Rows(sets), "extraction": Rows((extraction,))}
