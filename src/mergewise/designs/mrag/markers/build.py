"""Build the markers of documents (M-RAG section 2.1): by rules or by a chat model, completed by copies, embedded by key.

The final coverage is always 1.0: a segment without a marker becomes a marker itself, k = v = the segment. Values by a model are
checked against their paragraphs, sentence by sentence (`grounding`). The paper does not specify this. If calls fail, segments
without an answer get copies. Such a document is searched like any other, and retried when documents are next added.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from mergewise.designs.mrag.markers.extract import RawMarker, policy, task
from mergewise.designs.mrag.markers.grounding import ValueSentence
from mergewise.designs.mrag.markers.records import COPY, Draft, Marker, MarkerExtraction, MarkerSettings
from mergewise.designs.mrag.markers.rules import drafts as drafts_by_rules
from mergewise.index.views import DocumentWriter, with_vectors
from mergewise.index.writing.task import Written
from mergewise.models.record import Models
from mergewise.protocols import TokenCounter
from mergewise.store.views import OnShare, ViewRows
from mergewise.text.sentences import strip_span
from mergewise.types import DocumentRows, JsonDict, Rows

WRITER = DocumentWriter(lambda document, settings: settings.paragraphs(document), task, policy)


def build(
    documents: Sequence[DocumentRows], settings: MarkerSettings, models: Models, on_share: OnShare | None = None
) -> list[ViewRows]:
    """Make the markers of each document, and embed all keys in one call."""
    made = [
        _markers(document, written, settings, models.count_tokens)
        for document, written in zip(documents, WRITER.write(documents, settings, models, on_share), strict=True)
    ]
    views = [{"marker": Rows(tuple(markers)), "marking": Rows((extraction,))} for markers, extraction in made]
    return with_vectors(views, "marker", models.embedder, key=attrgetter("key"))


def _markers(
    document: DocumentRows, written: Written[RawMarker] | None, settings: MarkerSettings, count_tokens: TokenCounter
) -> tuple[list[Marker], MarkerExtraction]:
    """Return the markers in the order of their first segments, including copies of segments without a marker."""
    segments = settings.paragraphs(document)
    drafts, counts = (
        (drafts_by_rules(document, segments, settings.most), {}) if written is None else _drafts_of_model(written)
    )
    named = {number for draft in drafts for number in draft.paragraphs}
    # The conservative fallback: k = v = the segment.
    copies, text = [], document.document.text
    for segment in segments:
        if segment.number not in named:
            start, end = strip_span(text, segment.start, segment.end)
            if start == end:
                start, end = segment.start, segment.end
            own = tuple(ValueSentence(a - start, b - start, ((a, b),)) for a, b, *_ in segment.sentences)
            own = own or (ValueSentence(0, end - start, ((start, end),)),)
            copies.append(Draft(text[start:end], text[start:end], (segment.number,), own, COPY))
    drafts = sorted([*drafts, *copies], key=lambda draft: min(draft.paragraphs))
    keys = count_tokens([draft.key for draft in drafts])
    values = count_tokens([draft.value for draft in drafts])
    markers = [
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
    doc_id = document.document.id
    return markers, MarkerExtraction(len(markers), doc_id, settings.made, len(segments), len(copies), **counts)


def _drafts_of_model(written: Written[RawMarker]) -> tuple[list[Draft], JsonDict]:
    """Return the markers with their grounded values, and the statistics. Markers without any support are rejected."""
    grounded = [(marker, marker.grounded) for marker in written.items if marker.grounded is not None]
    drafts = [
        Draft(marker.key, kept.value, marker.paragraphs, kept.sentences, "model")
        for marker, kept in grounded
        if kept.value.strip()
    ]
    return drafts, {
        "coverages": written.coverages,
        "sentences": sum(kept.judged for _, kept in grounded),
        "unsupported": sum(kept.unsupported for _, kept in grounded),
        "renumbered": sum(marker.renumbered for marker in written.items),
        **written.as_fields({"ungrounded": len(written.items) - len(drafts)}),
    }
