"""What `check` demands of a document's markers: coverage 1.0, segments that are those of the text, verbatim pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mergewise.designs.mrag.markers.records import Extraction, Marker
from mergewise.designs.mrag.markers.settings import MarkerSettings
from mergewise.index.writing.segments import Segment, segments_of
from mergewise.types import DocumentRows


def problems(rows: DocumentRows, settings: MarkerSettings, dimension: int) -> Iterator[str]:
    """What is wrong with one document's markers."""
    markers: Sequence[Marker] = rows["marker"]
    extractions: Sequence[Extraction] = rows["marking"]
    segments = segments_of(rows, settings.segment)
    if len(extractions) != 1 or extractions[0].segments != len(segments):
        yield "it is not known how the markers came to be"
    covered = {number for marker in markers for number in marker.paragraphs}
    if covered != set(range(len(segments))):
        yield "the markers do not cover the document"
    if any(not _stands(marker, segments, settings.most) for marker in markers):
        yield "a marker does not stand where its segments do"
    if any(not marker.key.strip() or not marker.value.strip() for marker in markers):
        yield "a marker is empty"
    if any(not _is_sound(marker, rows.document.text) for marker in markers):
        yield "a marker's sentences are not those of its value, or not those of the document"


def _stands(marker: Marker, segments: Sequence[Segment], most: int) -> bool:
    numbers = marker.paragraphs
    if not 1 <= len(numbers) <= most or any(not 0 <= n < len(segments) for n in numbers):
        return False
    return marker.spans == tuple((segments[n].start, segments[n].end) for n in numbers)


def _is_sound(marker: Marker, text: str) -> bool:
    """Whether sentences lie in the value, supports in the segments, and what is verbatim is the text of its support."""
    for sentence in marker.sentences:
        if not 0 <= sentence.start < sentence.end <= len(marker.value):
            return False
        if any(not any(a <= first < last <= b for a, b in marker.spans) for first, last in sentence.support):
            return False
        said = marker.value[sentence.start : sentence.end]
        if not marker.written and [text[first:last] for first, last in sentence.support] != [said]:
            return False
    return marker.written or bool(marker.sentences)
