"""Markers of documents (M-RAG section 2.1): made by rules or written by a chat model, completed by copies, embedded by key.

Coverage always ends at 1.0: what no marker names becomes a marker itself, k = v = the segment. Values that a model wrote are
held to their paragraphs, sentence by sentence (`text.grounding`), which the paper leaves open. A document for which calls failed
has copies where answers are missing; it is found and searched like any other, and taken up again when documents are next added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from mergewise.designs.mrag.grounding.grounding import Grounded, ground
from mergewise.designs.mrag.markers.extract import RawMarker, policy, task
from mergewise.designs.mrag.markers.records import COPY, EXTRACTION, Draft, Extraction, Marker, ValueSentence
from mergewise.designs.mrag.markers.rules import drafts as drafts_by_rules
from mergewise.designs.mrag.markers.settings import MarkerSettings
from mergewise.index.writing.calls import chat_of
from mergewise.index.writing.segments import Segment, segments_of
from mergewise.index.writing.task import Source, Written
from mergewise.index.writing.write import estimate as estimate_of
from mergewise.index.writing.write import write
from mergewise.models.record import Models
from mergewise.protocols import StoreReader, TokenCounter
from mergewise.store.views import Estimate, OnShare, ViewRows
from mergewise.text.keys import heading_path, short_name
from mergewise.text.sentences import split_sentences, strip_span
from mergewise.types import DocumentRows, Rows


def build(
    documents: Sequence[DocumentRows], settings: MarkerSettings, models: Models, on_share: OnShare | None = None
) -> list[ViewRows]:
    """The markers of each document, and how they came to be. The embedder is asked once for the keys of all of them."""
    segmented = [segments_of(document, settings.segment) for document in documents]
    if settings.made == "model":
        made = _by_model(documents, segmented, settings, models, on_share)
    else:
        made = _by_rules(documents, segmented, settings)
    built = [
        (_markers(document, segments, drafts, models.count_tokens), extraction)
        for document, segments, (drafts, extraction) in zip(documents, segmented, made, strict=True)
    ]
    return _rows(built, models)


def estimate(documents: Sequence[DocumentRows], settings: MarkerSettings, models: Models) -> Estimate:
    """What the chat model's markers of these documents cost, if every answer covers what it should."""
    sources = [_source(document, segments_of(document, settings.segment)) for document in documents]
    return estimate_of(sources, task(settings), policy(settings), chat_of(models, "markers"), models.count_tokens)


def unfinished(reader: StoreReader) -> list[str]:
    """The documents for which calls failed."""
    rows = reader.whole(EXTRACTION.name, ["doc_id", "failure"]).to_pylist()
    return [row["doc_id"] for row in rows if row["failure"]]


# -- by rules


def _by_rules(
    documents: Sequence[DocumentRows],
    segmented: Sequence[Sequence[Segment]],
    settings: MarkerSettings,
) -> list[tuple[list[Draft], Extraction]]:
    made = [drafts_by_rules(*both, settings.most) for both in zip(documents, segmented, strict=True)]
    return [
        (found, _extraction(document, segments, found, "rules"))
        for document, segments, found in zip(documents, segmented, made, strict=True)
    ]


def _extraction(document: DocumentRows, segments: Sequence[Segment], drafts: Iterable[Draft], made: str) -> Extraction:
    named = {number for draft in drafts for number in draft.paragraphs}
    return Extraction(0, document.document.id, made, len(segments), len(segments) - len(named))


# -- by a chat model


def _source(document: DocumentRows, segments: Sequence[Segment]) -> Source:
    given = document.document
    return Source(given.id, short_name(given.title), given.text, segments)


def _by_model(
    documents: Sequence[DocumentRows],
    segmented: Sequence[Sequence[Segment]],
    settings: MarkerSettings,
    models: Models,
    on_share: OnShare | None,
) -> list[tuple[list[Draft], Extraction]]:
    sources = [_source(document, segments) for document, segments in zip(documents, segmented, strict=True)]
    answers = write(
        sources, task(settings), policy(settings), chat_of(models, "markers"), models.count_tokens, on_share
    )
    return [
        _grounded(document, segments, written, settings)
        for document, segments, written in zip(documents, segmented, answers, strict=True)
    ]


@dataclass(slots=True)
class _Counts:
    """Sentences of values as they were written, and those of them without support."""

    sentences: int = 0
    unsupported: int = 0


def _grounded(
    document: DocumentRows, segments: Sequence[Segment], written: Written[RawMarker], settings: MarkerSettings
) -> tuple[list[Draft], Extraction]:
    drafts: list[Draft] = []
    counts = _Counts()
    rejects = written.rejects.copy()
    for marker in written.items:
        draft = _draft(marker, document, segments, settings, counts)
        if draft is None:
            rejects["ungrounded"] += 1
        else:
            drafts.append(draft)
    kinds = sorted(kind for kind, count in rejects.items() if count)
    return drafts, replace(
        _extraction(document, segments, drafts, "model"),
        coverages=written.coverages,
        rejects=tuple(kinds),
        reject_counts=tuple(rejects[kind] for kind in kinds),
        sentences=counts.sentences,
        unsupported=counts.unsupported,
        renumbered=sum(marker.renumbered for marker in written.items),
        calls=written.usage.calls,
        input_tokens=written.usage.input_tokens,
        output_tokens=written.usage.output_tokens,
        failure=written.failure,
    )


def _draft(
    marker: RawMarker,
    document: DocumentRows,
    segments: Sequence[Segment],
    settings: MarkerSettings,
    counts: _Counts,
) -> Draft | None:
    """The marker with its value held to its paragraphs; None where nothing of it has support."""
    named = [segments[number] for number in marker.paragraphs]
    path = heading_path(
        short_name(document.document.title), [heading for segment in named for heading in segment.headings]
    )
    parts = [(segment.start, segment.end) for segment in named]
    grounded = ground(marker.value, parts, document.document.text, settings.ungrounded, path)
    said = len(split_sentences(marker.value))
    counts.sentences += said
    counts.unsupported += round(said * grounded.unsupported_before)
    if not grounded.value.strip():
        return None
    return Draft(marker.key, grounded.value, marker.paragraphs, tuple(_sentences(grounded)), "model")


def _sentences(grounded: Grounded) -> Iterable[ValueSentence]:
    for sentence in grounded.sentences:
        flags = tuple(f"{flag.kind} {flag.text}" for flag in sentence.flagged)
        yield ValueSentence(sentence.start, sentence.end, sentence.support, sentence.replaced, flags)


# -- the fallback


def copies(text: str, segments: Iterable[Segment]) -> list[Draft]:
    """The conservative fallback: k = v = the segment."""
    return [_copy(text, segment) for segment in segments]


def _copy(text: str, segment: Segment) -> Draft:
    start, end = strip_span(text, segment.start, segment.end)
    if start == end:
        start, end = segment.start, segment.end
    sentences = tuple(ValueSentence(a - start, b - start, ((a, b),)) for a, b, _ in segment.sentences)
    whole = (ValueSentence(0, end - start, ((start, end),)),)
    return Draft(text[start:end], text[start:end], (segment.number,), sentences or whole, COPY)


# -- rows


def _markers(
    document: DocumentRows, segments: Sequence[Segment], drafts: Sequence[Draft], count_tokens: TokenCounter
) -> list[Marker]:
    """The drafts, and copies of the segments that they do not name, in the order of their first segments."""
    named = {number for draft in drafts for number in draft.paragraphs}
    left = [segment for segment in segments if segment.number not in named]
    drafts = sorted([*drafts, *copies(document.document.text, left)], key=lambda draft: min(draft.paragraphs))
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


def _rows(built: Sequence[tuple[Sequence[Marker], Extraction]], models: Models) -> list[ViewRows]:
    rows: list[ViewRows] = []
    keys = [marker.key for markers, _ in built for marker in markers]
    vectors = None if models.embedder is None else models.embedder.embed_documents(keys)
    ends = accumulate((len(markers) for markers, _ in built), initial=0)
    for (markers, extraction), (first, end) in zip(built, pairwise(ends), strict=True):
        beside = {} if vectors is None else {"vector": vectors[first:end]}
        placed = replace(extraction, id=len(markers))
        rows.append({"marker": Rows(tuple(markers), beside), "marking": Rows((placed,))})
    return rows
