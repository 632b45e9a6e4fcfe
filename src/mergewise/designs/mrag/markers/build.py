"""Markers of documents (M-RAG section 2.1): made by rules or written by a chat model, completed by copies, embedded by key.

Coverage always ends at 1.0: what no marker names becomes a marker itself, k = v = the segment. Values that a model wrote are
held to their paragraphs, sentence by sentence (`grounding`), which the paper leaves open. A document for which calls failed
has copies where answers are missing; it is found and searched like any other, and taken up again when documents are next added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mergewise.designs.mrag.markers.extract import RawMarker, policy, task
from mergewise.designs.mrag.markers.grounding import GroundedValue
from mergewise.designs.mrag.markers.records import COPY, Draft, Marker, MarkerExtraction, MarkerSettings, ValueSentence
from mergewise.designs.mrag.markers.rules import drafts as drafts_by_rules
from mergewise.index.writing.segments import TextSegment
from mergewise.index.writing.task import WritingSource, Written
from mergewise.index.writing.write import estimate as estimate_of
from mergewise.index.writing.write import write
from mergewise.models.record import Models, embed_groups
from mergewise.protocols import TokenCounter
from mergewise.store.views import Estimate, OnShare, ViewRows
from mergewise.text.sentences import split_sentences, strip_span
from mergewise.types import DocumentRows, Rows


def build(
    documents: Sequence[DocumentRows], settings: MarkerSettings, models: Models, on_share: OnShare | None = None
) -> list[ViewRows]:
    """The markers of each document, and how they came to be. The embedder is asked once for the keys of all of them."""
    segmented = [settings.paragraphs(document) for document in documents]
    if settings.made == "model":
        made = _by_model(documents, segmented, settings, models, on_share)
    else:
        drafted = [(*both, drafts_by_rules(*both, settings.most)) for both in zip(documents, segmented, strict=True)]
        made = [(drafts, _extraction(document, segments, drafts, "rules")) for document, segments, drafts in drafted]
    built = [
        (_markers(document, segments, drafts, models.count_tokens), extraction)
        for document, segments, (drafts, extraction) in zip(documents, segmented, made, strict=True)
    ]
    return _rows(built, models)


def estimate(documents: Sequence[DocumentRows], settings: MarkerSettings, models: Models) -> Estimate:
    """What the chat model's markers of these documents cost, if every answer covers what it should."""
    sources = [WritingSource.of_document(document, settings.paragraphs(document)) for document in documents]
    return estimate_of(sources, task(settings, models.prompts), policy(settings), models)


def _extraction(
    document: DocumentRows, segments: Sequence[TextSegment], drafts: Iterable[Draft], made: str
) -> MarkerExtraction:
    named = {number for draft in drafts for number in draft.paragraphs}
    return MarkerExtraction(0, document.document.id, made, len(segments), len(segments) - len(named))


# -- by a chat model


def _by_model(
    documents: Sequence[DocumentRows],
    segmented: Sequence[Sequence[TextSegment]],
    settings: MarkerSettings,
    models: Models,
    on_share: OnShare | None,
) -> list[tuple[list[Draft], MarkerExtraction]]:
    sources = list(map(WritingSource.of_document, documents, segmented))
    answers = write(sources, task(settings, models.prompts), policy(settings), models, on_share)
    return list(map(_drafts_of_model, documents, segmented, answers))


def _drafts_of_model(
    document: DocumentRows, segments: Sequence[TextSegment], written: Written[RawMarker]
) -> tuple[list[Draft], MarkerExtraction]:
    """The markers with what of their values has support; those without any are rejects."""
    grounded = [(marker, marker.grounded) for marker in written.items if marker.grounded is not None]
    drafts = [
        Draft(marker.key, kept.value, marker.paragraphs, tuple(_sentences(kept)), "model")
        for marker, kept in grounded
        if kept.value.strip()
    ]
    counts = [(len(split_sentences(marker.value)), kept.unsupported_before) for marker, kept in grounded]
    return drafts, replace(
        _extraction(document, segments, drafts, "model"),
        coverages=written.coverages,
        sentences=sum(count for count, _ in counts),
        unsupported=sum(round(count * share) for count, share in counts),
        renumbered=sum(marker.renumbered for marker in written.items),
        **written.as_fields({"ungrounded": len(written.items) - len(drafts)}),
    )


def _sentences(grounded: GroundedValue) -> Iterable[ValueSentence]:
    for sentence in grounded.sentences:
        flags = tuple(f"{flag.kind} {flag.text}" for flag in sentence.flagged)
        yield ValueSentence(sentence.start, sentence.end, sentence.support, sentence.replaced, flags)


# -- the fallback


def _copy(text: str, segment: TextSegment) -> Draft:
    """The conservative fallback: k = v = the segment."""
    start, end = strip_span(text, segment.start, segment.end)
    if start == end:
        start, end = segment.start, segment.end
    sentences = tuple(ValueSentence(a - start, b - start, ((a, b),)) for a, b, _ in segment.sentences)
    whole = (ValueSentence(0, end - start, ((start, end),)),)
    return Draft(text[start:end], text[start:end], (segment.number,), sentences or whole, COPY)


# -- rows


def _markers(
    document: DocumentRows, segments: Sequence[TextSegment], drafts: Sequence[Draft], count_tokens: TokenCounter
) -> list[Marker]:
    """The drafts, and copies of the segments that they do not name, in the order of their first segments."""
    named = {number for draft in drafts for number in draft.paragraphs}
    copies = [_copy(document.document.text, segment) for segment in segments if segment.number not in named]
    drafts = sorted([*drafts, *copies], key=lambda draft: min(draft.paragraphs))
    keys = count_tokens([draft.key for draft in drafts])
    values = count_tokens([draft.value for draft in drafts])
    return [
        Marker(
            id=number,
            doc_id=document.document.id,
            title=document["leaf"][0].title,
            headings=segments[min(draft.paragraphs)].headings,
            ordinal=number,
            key=draft.key,
            value=draft.value,
            paragraphs=tuple(sorted(draft.paragraphs)),
            spans=tuple((segments[n].start, segments[n].end) for n in sorted(draft.paragraphs)),
            made=draft.made,
            sentences=draft.sentences,
            key_tokens=keys[number],
            value_tokens=values[number],
        )
        for number, draft in enumerate(drafts)
    ]


def _rows(built: Sequence[tuple[Sequence[Marker], MarkerExtraction]], models: Models) -> list[ViewRows]:
    keys = [[marker.key for marker in markers] for markers, _ in built]
    vectors = None if models.embedder is None else embed_groups(models.embedder, keys)
    return [
        {
            "marker": Rows(tuple(markers), {} if vectors is None else {"vector": vectors[number]}),
            "marking": Rows((replace(extraction, id=len(markers)),)),
        }
        for number, (markers, extraction) in enumerate(built)
    ]
