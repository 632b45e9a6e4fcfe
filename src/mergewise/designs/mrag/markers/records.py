"""Settings, rows and tables of the marker view, and their checks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from mergewise.designs.mrag.chunks.fixed import fixed_bounds
from mergewise.designs.mrag.markers.grounding import Ungrounded, ValueSentence
from mergewise.index.views import PromptHash, json_column
from mergewise.index.writing.segments import TextSegment, segments_of
from mergewise.models.tokens import count_tokens
from mergewise.ranges import SHARE, CheckedFields, Range
from mergewise.store.tables import Table
from mergewise.text.sentences import strip_span
from mergewise.text.spans import spans_in, texts_at
from mergewise.types import DocumentRows, Part, RowId, Sentence, Span, frozen

Made: TypeAlias = str
"""Maker of a marker: the chat "model", "rules", or "copy" for a copy of a segment without a marker (k = v)."""


COPY = "copy"


@frozen
class MarkerSettings(CheckedFields):
    """Settings of the marker view, as in M-RAG section 2.1. If a chat model is configured, it writes the markers."""

    made: Annotated[Literal["rules", "model"], "Maker of the markers: rules or the chat model"] = "rules"
    segment: Annotated[int, Range(16, 4096), "Tokens of a numbered paragraph"] = 128
    ends: Annotated[
        Literal["sentence", "token"],
        "End of a numbered paragraph: after a sentence (always with rules), or at the token limit",
    ] = "sentence"
    most: Annotated[int, Range(1, 10), "Maximum number of paragraphs of a marker"] = 3
    coverage: Annotated[float, SHARE, "Share of paragraphs with markers that ends the retries"] = 0.95
    attempts: Annotated[int, Range(1, 10), "Maximum number of model calls for a paragraph"] = 3
    policy: Annotated[
        Literal["rest", "again"],
        "Further attempts: only the `rest` without markers, or all paragraphs `again`, keeping the best attempt",
    ] = "rest"
    examples: Annotated[str, "Examples in the prompt: built-in, none, or the path of a JSON list"] = "none"
    window: Annotated[int, Range(64, 1_000_000), "Document tokens of a prompt, if the model's window holds them"] = 2048
    overlap: Annotated[int, Range(0, 100), "Paragraphs shared by neighbouring windows"] = 2
    numbers: Annotated[
        Literal["checked", "given"],
        "Paragraph numbers of a marker: checked against its value, or as given by the model",
    ] = "checked"
    ungrounded: Annotated[
        Ungrounded,
        "Treatment of a sentence without support in its paragraphs: replace it by their nearest sentence, drop it, or keep "
        "and mark it",
    ] = "replace"
    order: Annotated[
        Literal["built-in", "a", "b", "c"],
        "Order of the built-in prompt's parts; a, b and c are those of M-RAG, Table 7",
    ] = "built-in"
    prompt: PromptHash = ""

    def paragraphs(self, document: DocumentRows) -> list[TextSegment]:
        """Return the numbered paragraphs of a document: up to `segment` tokens each, by the built-in tokenizer.

        At the token limit, a paragraph ends after its last whole word (M-RAG section 2.1). A part of a sentence then counts as a
        sentence of the paragraph.

        Args:
            document: Rows of the document.
        """
        leaves, text = document["leaf"], document.document.text
        if self.ends == "sentence" or self.made == "rules" or not leaves:
            return segments_of(document, self.segment)
        bounds = fixed_bounds(text, self.segment, count_tokens)
        sizes = count_tokens(texts_at(text, bounds))
        starts = [leaf.start for leaf in leaves]
        segments: list[TextSegment] = []
        for (start, end), tokens in zip(bounds, sizes, strict=True):
            touched = [s for leaf in leaves for s in leaf.sentences if s.start < end and start < s.end]
            parts = [strip_span(text, max(s.start, start), min(s.end, end)) for s in touched]
            sentences = tuple(Sentence(a, b, count_tokens([text[a:b]])[0]) for a, b in parts if a < b)
            headings = leaves[bisect_right(starts, start) - 1].headings
            segments.append(TextSegment(len(segments), start, end, tokens, headings, sentences))
        return segments


PRESETS = {
    "paper": {
        "made": "model",
        "ends": "token",
        "policy": "again",
        "window": 1_000_000,
        "overlap": 0,
        "numbers": "given",
        "ungrounded": "keep",
    }
}
"""`paper`: section 2.1 of M-RAG. A prompt has the whole document, or as much as the model's window holds."""


class Draft(NamedTuple):
    """A marker before it becomes a row. `paragraphs` are numbers of segments."""

    key: str
    value: str
    paragraphs: tuple[int, ...]
    sentences: tuple[ValueSentence, ...]
    made: Made = "rules"


@frozen
class Marker:
    """A key k to search and a value v for the context (M-RAG section 2.1).

    `paragraphs` are the numbers of its segments, from 0, and `spans` their offsets.
    """

    id: RowId
    doc_id: str
    title: str
    headings: tuple[str, ...]  # of its first segment
    ordinal: int  # in the order of the first segment
    key: str
    value: str
    paragraphs: tuple[int, ...]
    spans: tuple[Part, ...]
    made: Made
    sentences: tuple[ValueSentence, ...]
    key_tokens: int  # by the built-in tokenizer
    value_tokens: int

    @property
    def written(self) -> bool:
        """True if a model wrote the value, so that it is not verbatim."""
        return self.made == "model"

    @property
    def start(self) -> int:
        """Start of its first segment."""
        return self.spans[0][0]

    @property
    def supports(self) -> tuple[Span, ...]:
        """Distinct spans that support the value, in the order of its sentences."""
        places = dict.fromkeys(part for sentence in self.sentences for part in sentence.support)
        return spans_in(self.doc_id, places)


@frozen
class MarkerExtraction:
    """Statistics of the extraction for one document.

    `coverages` are the shares of segments with a marker after each attempt. The rest gets copies. `rejects` and `reject_counts`
    are the reasons why markers of the model were rejected. `sentences` counts the sentences of values as written, and
    `unsupported` the ones without support. `renumbered` counts the markers with corrected paragraph numbers. Calls and tokens
    count this run only. `failure` is the error that left segments without an answer from the model. The next run then retries
    the document.
    """

    id: RowId
    doc_id: str
    made: Made
    segments: int
    uncovered: int
    coverages: tuple[float, ...] = ()
    rejects: tuple[str, ...] = ()
    reject_counts: tuple[int, ...] = ()
    sentences: int = 0
    unsupported: int = 0
    renumbered: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    failure: str = ""

    @property
    def coverage(self) -> float:
        """Share of the segments with a marker, before copies were added."""
        return 1.0 if not self.segments else 1.0 - self.uncovered / self.segments


# -- tables


def _sentence(packed: Sequence[Any]) -> ValueSentence:
    start, end, support, replaced, flags = packed
    return ValueSentence(start, end, tuple((a, b) for a, b in support), replaced, tuple(flags))


MARKER = Table("marker", Marker, (json_column("sentences", _sentence),), vectors=("vector",), text="key", mapped=True)
EXTRACTION = Table("marking", MarkerExtraction)


def tables(settings: MarkerSettings) -> tuple[Table, Table]:
    """Return the tables of the view. Only keys are embedded and searched."""
    return (MARKER, EXTRACTION)


# -- checks: coverage 1.0, valid segments, verbatim pieces


def problems(rows: DocumentRows, settings: MarkerSettings, dimension: int) -> Iterator[str]:
    """Yield the problems of one document's markers."""
    markers: Sequence[Marker] = rows["marker"]
    extractions: Sequence[MarkerExtraction] = rows["marking"]
    segments = settings.paragraphs(rows)
    if len(extractions) != 1 or extractions[0].segments != len(segments):
        yield "missing or wrong extraction record of the markers"
    if {number for marker in markers for number in marker.paragraphs} != set(range(len(segments))):
        yield "markers do not cover the document"
    bounds = [(segment.start, segment.end) for segment in segments]
    numbers = range(len(segments))
    if any(
        not 1 <= len(marker.paragraphs) <= settings.most
        or not all(n in numbers for n in marker.paragraphs)
        or marker.spans != tuple(bounds[n] for n in marker.paragraphs)
        for marker in markers
    ):
        yield "marker and its segments have different spans"
    if any(not marker.key.strip() or not marker.value.strip() for marker in markers):
        yield "empty marker"
    if any(not _has_valid_sentences(marker, rows.document.text) for marker in markers):
        yield "sentences of a marker differ from its value or the document"


def _has_valid_sentences(marker: Marker, text: str) -> bool:
    """Check that sentences lie in the value and supports in the segments, and that a verbatim sentence equals its support."""
    for sentence in marker.sentences:
        if not 0 <= sentence.start < sentence.end <= len(marker.value):
            return False
        if any(not any(a <= first < last <= b for a, b in marker.spans) for first, last in sentence.support):
            return False
        stated = marker.value[sentence.start : sentence.end]
        if not marker.written and texts_at(text, sentence.support) != [stated]:
            return False
    return marker.written or bool(marker.sentences)
