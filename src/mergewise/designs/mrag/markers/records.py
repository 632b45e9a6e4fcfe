"""The settings, rows and tables of the marker view, and what `check` demands of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from mergewise.designs.mrag.markers.grounding import Ungrounded, ValueSentence
from mergewise.designs.mrag.markers.paragraphs import paragraphs_of
from mergewise.index.views import PromptHash, json_column
from mergewise.index.writing.segments import TextSegment
from mergewise.ranges import SHARE, CheckedFields, Range
from mergewise.store.tables import Table
from mergewise.store.views import Presets
from mergewise.text.spans import Part
from mergewise.types import DocumentRows, RowId, Span

Made: TypeAlias = str
"""How a marker came to be: by the chat "model", by "rules", or as a "copy" of a segment that no marker named (k = v)."""


COPY = "copy"


@dataclass(frozen=True, slots=True)
class MarkerSettings(CheckedFields):
    """Sizes and shares as in M-RAG section 2.1. Where a chat model is named, it writes the markers."""

    made: Annotated[Literal["rules", "model"], "who makes the markers: rules, or the chat model"] = "rules"
    segment: Annotated[int, Range(16, 4096), "tokens of a numbered paragraph"] = 128
    ends: Annotated[
        Literal["sentence", "token"],
        "where a numbered paragraph ends: after a whole sentence, as rules want it, or after so many tokens, within one too",
    ] = "sentence"
    most: Annotated[int, Range(1, 10), "paragraphs that a marker may name"] = 3
    coverage: Annotated[float, SHARE, "share of the paragraphs below which the model is asked further"] = 0.95
    attempts: Annotated[int, Range(1, 10), "times in all that the model is asked about a paragraph"] = 3
    policy: Annotated[
        Literal["rest", "again"],
        "further attempts: about what no marker names, joined to what came, or the same once more, of which the best is kept",
    ] = "rest"
    examples: Annotated[str, "shown to the model: built-in, none, or the path of a JSON file with a list of them"] = (
        "none"
    )
    window: Annotated[
        int,
        Range(64, 1_000_000),
        "tokens of a document that the model is shown at once, where its own window holds them",
    ] = 2048
    overlap: Annotated[int, Range(0, 100), "paragraphs that neighbouring windows share"] = 2
    numbers: Annotated[
        Literal["checked", "given"],
        "the paragraphs that a marker names: held to what its value says, or as the model gave them",
    ] = "checked"
    ungrounded: Annotated[
        Ungrounded,
        "what becomes of a sentence of a value that its paragraphs do not support: the nearest of their sentences stands "
        "for it, it is left out, or it is kept and marked",
    ] = "replace"
    prompt: PromptHash = ""

    def paragraphs(self, document: DocumentRows) -> list[TextSegment]:
        """The numbered paragraphs of a document."""
        return paragraphs_of(document, self.segment, whole_sentences=self.ends == "sentence" or self.made == "rules")


PRESETS: Presets = {
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
"""`paper`: section 2.1 of M-RAG. The whole document stands in a prompt, as far as the model's own window holds it."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A marker on its way: what makes markers returns these. `paragraphs` are numbers of segments."""

    key: str
    value: str
    paragraphs: tuple[int, ...]
    sentences: tuple[ValueSentence, ...]
    made: Made = "rules"


@dataclass(frozen=True, slots=True)
class Marker:
    """A key k that is searched, and a value v that a context gets (M-RAG section 2.1).

    `paragraphs` are the numbers of the segments that it names, counted from 0, `spans` where they stand.
    """

    id: RowId
    doc_id: str
    title: str
    headings: tuple[str, ...]  # above the first of its segments
    ordinal: int  # in the order of the first segment
    key: str
    value: str
    paragraphs: tuple[int, ...]
    spans: tuple[Part, ...]
    made: Made
    sentences: tuple[ValueSentence, ...]
    key_tokens: int  # by the counter that ships with the package
    value_tokens: int

    @property
    def written(self) -> bool:
        """Whether a model wrote the value, so that it is not verbatim."""
        return self.made == "model"

    @property
    def start(self) -> int:
        """Where the first of its segments begins."""
        return self.spans[0][0]

    @property
    def supports(self) -> tuple[Span, ...]:
        """Where the document says what the value says, in the order of the value's sentences, each place once."""
        places = dict.fromkeys(part for sentence in self.sentences for part in sentence.support)
        return tuple(Span(self.doc_id, start, end) for start, end in places)


@dataclass(frozen=True, slots=True)
class MarkerExtraction:
    """How the markers of one document came to be.

    `coverages` are the shares of the segments that some marker named, after each attempt; what was left at the end has copies.
    `rejects` with `reject_counts` are the reasons for which markers of the model's answers were not taken. `sentences` are those
    of the values as they were written, of which `unsupported` had no support. `renumbered` are markers that named other
    paragraphs than those that hold what they say. Calls and tokens are those that this run paid.
    `failure` says why the model did not write all that it should have: the document is then taken up again.
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
        """The share of the segments that some marker named before copies were made of the others."""
        return 1.0 if not self.segments else 1.0 - self.uncovered / self.segments


# -- tables


def _sentence(packed: Sequence[Any]) -> ValueSentence:
    start, end, support, replaced, flags = packed
    return ValueSentence(start, end, tuple((a, b) for a, b in support), replaced, tuple(flags))


MARKER = Table("marker", Marker, (json_column("sentences", _sentence),), vectors=("vector",), text="key", mapped=True)
EXTRACTION = Table("marking", MarkerExtraction)


def tables(settings: MarkerSettings) -> tuple[Table, Table]:
    """Only keys are embedded and searched."""
    return (MARKER, EXTRACTION)


# -- what `check` demands: coverage 1.0, segments that are those of the text, verbatim pieces


def problems(rows: DocumentRows, settings: MarkerSettings, dimension: int) -> Iterator[str]:
    """What is wrong with one document's markers."""
    markers: Sequence[Marker] = rows["marker"]
    extractions: Sequence[MarkerExtraction] = rows["marking"]
    segments = settings.paragraphs(rows)
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


def _stands(marker: Marker, segments: Sequence[TextSegment], most: int) -> bool:
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
        stated = marker.value[sentence.start : sentence.end]
        if not marker.written and [text[first:last] for first, last in sentence.support] != [stated]:
            return False
    return marker.written or bool(marker.sentences)
