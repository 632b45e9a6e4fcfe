"""The rows of the marker view, and its tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from mergewise.designs.mrag.markers.settings import MarkerSettings
from mergewise.store.tables import Packed, Table
from mergewise.types import RowId, Span

Part: TypeAlias = tuple[int, int]
Made: TypeAlias = str
"""How a marker came to be: by the chat "model", by "rules", or as a "copy" of a segment that no marker named (k = v)."""


COPY = "copy"


class ValueSentence(NamedTuple):
    """A sentence of a value, `value[start:end]`.

    `support` are the sentences of the document that it rests on, none where it has no support. `replaced` says that what the
    model wrote had none, and that the sentence of the document stands in its place. `flags` are what was wrong with it, or with
    the sentence before it was replaced, such as "number 1990".
    """

    start: int
    end: int
    support: tuple[Part, ...]
    replaced: bool = False
    flags: tuple[str, ...] = ()

    @property
    def supported(self) -> bool:
        return bool(self.support)


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
class Extraction:
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


def pack_sentences(marker: Marker) -> str:
    return json.dumps(marker.sentences, ensure_ascii=False, separators=(",", ":"))


def unpack_sentences(rows: pa.Table) -> Mapping[str, Sequence[Any]]:
    return {"sentences": [tuple(map(_sentence, json.loads(packed))) for packed in rows["sentences"].to_pylist()]}


def _sentence(packed: Sequence[Any]) -> ValueSentence:
    start, end, support, replaced, flags = packed
    return ValueSentence(start, end, tuple((a, b) for a, b in support), replaced, tuple(flags))


SENTENCES = Packed("sentences", pa.string(), pack_sentences, unpack_sentences, ("sentences",))

MARKER = Table("marker", Marker, (SENTENCES,), vectors=("vector",), text="key", mapped=True)
EXTRACTION = Table("marking", Extraction)


def tables(settings: MarkerSettings) -> tuple[Table, Table]:
    """Only keys are embedded and searched."""
    return (MARKER, EXTRACTION)
