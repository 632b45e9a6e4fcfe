"""Markers of documents (M-RAG section 2.1): made by rules or written by a chat model, completed by copies, embedded by key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from mergewise.index.markers.records import Draft, Extraction, Marker, ValueSentence
from mergewise.index.markers.settings import MarkerSettings
from mergewise.index.writing.segments import Segment, segments_of
from mergewise.protocols import TokenCounter
from mergewise.store.views import Makers, ViewRows
from mergewise.text.sentences import strip_span
from mergewise.types import DocumentRows, Rows


def build(documents: Sequence[DocumentRows], settings: MarkerSettings, makers: Makers) -> list[ViewRows]:
    """The markers of each document, and how they came to be. The embedder is asked once for the keys of all of them."""
    segmented = [segments_of(document, settings.segment) for document in documents]
    built: list[tuple[list[Marker], Extraction]] = []
    for document, segments in zip(documents, segmented, strict=True):
        drafts: list[Draft] = []
        extraction = Extraction(0, document.document.id, "copy", len(segments), len(segments))
        built.append((_markers(document, segments, drafts, makers.count_tokens), extraction))
    return _rows(built, makers)


def copies(text: str, segments: Iterable[Segment]) -> list[Draft]:
    """The conservative fallback: k = v = the segment."""
    return [_copy(text, segment) for segment in segments]


def _copy(text: str, segment: Segment) -> Draft:
    start, end = strip_span(text, segment.start, segment.end)
    if start == end:
        start, end = segment.start, segment.end
    sentences = tuple(ValueSentence(a - start, b - start, ((a, b),)) for a, b, _ in segment.sentences)
    whole = (ValueSentence(0, end - start, ((start, end),)),)
    return Draft(text[start:end], text[start:end], (segment.number,), sentences or whole, "copy")


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


def _rows(built: Sequence[tuple[Sequence[Marker], Extraction]], makers: Makers) -> list[ViewRows]:
    rows: list[ViewRows] = []
    keys = [marker.key for markers, _ in built for marker in markers]
    vectors = None if makers.embedder is None else makers.embedder.embed_documents(keys)
    ends = accumulate((len(markers) for markers, _ in built), initial=0)
    for (markers, extraction), (first, end) in zip(built, pairwise(ends), strict=True):
        beside = {} if vectors is None else {"vector": vectors[first:end]}
        placed = replace(extraction, id=len(markers))
        rows.append({"marker": Rows(tuple(markers), beside), "marking": Rows((placed,))})
    return rows
