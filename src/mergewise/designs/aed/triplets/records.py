"""The settings, rows and tables of the triplet view, and what `check` demands of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple, TypeAlias

from mergewise.defaults import PASSAGE_TOKENS
from mergewise.index.views import PromptHash, json_column
from mergewise.ranges import SHARE, CheckedFields, Range
from mergewise.store.tables import Table
from mergewise.types import DocumentRows, LeafId, RowId, Span

Made: TypeAlias = str
"""How the triplets of a passage came to be: by the chat "model", or by "rules"."""

SEPARATOR = " | "


@dataclass(frozen=True, slots=True)
class TripletSettings(CheckedFields):
    """Where a chat model is named, it writes the triplets. AED-RAG gives no figures but one: a passage has a hundred words."""

    made: Annotated[Literal["rules", "model"], "who makes the triplets: rules, or the chat model"] = "rules"
    longest: Annotated[int, Range(1, 10_000), "tokens of a section up to which it is one passage, as in `aed`"] = (
        PASSAGE_TOKENS
    )
    most: Annotated[int, Range(1, 1000), "triplets that a passage has at most"] = 32
    coverage: Annotated[float, SHARE, "share of the passages below which the model is asked about the others again"] = (
        0.9
    )
    attempts: Annotated[int, Range(1, 10), "times in all that the model is asked about a passage"] = 2
    window: Annotated[
        int,
        Range(64, 1_000_000),
        "tokens of a document that the model is shown at once, where its own window holds them",
    ] = 1024
    overlap: Annotated[int, Range(0, 10_000), "tokens that neighbouring windows share"] = 0
    prompt: PromptHash = ""


class Triplet(NamedTuple):
    """(h, r, t) of Eq. 4, and the sentence that it came from: `document.text[start:end]`."""

    head: str
    relation: str
    tail: str
    start: int
    end: int

    @property
    def text(self) -> str:
        """As a context shows it, on one line."""
        return SEPARATOR.join(" ".join(part.split()).replace("|", "/") for part in self[:3])


@dataclass(frozen=True, slots=True)
class TripletSet:
    """T = {(h_1, r_1, t_1), ...} of one passage (Eq. 4), empty where nothing was found in it.

    The passage is `document.text[start:end]`, the leaves `first_leaf .. first_leaf + leaf_count - 1`.
    """

    id: RowId
    doc_id: str
    title: str
    headings: tuple[str, ...]
    ordinal: int
    first_leaf: LeafId
    leaf_count: int
    start: int
    end: int
    made: Made
    triplets: tuple[Triplet, ...]

    @property
    def leaves(self) -> range:
        return range(self.first_leaf, self.first_leaf + self.leaf_count)

    @property
    def text(self) -> str:
        """The triplets as a context shows them, one a line."""
        return "\n".join(triplet.text for triplet in self.triplets)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The sentences that they came from, each once, in the order of the document."""
        places = sorted({(triplet.start, triplet.end) for triplet in self.triplets})
        return tuple(Span(self.doc_id, start, end) for start, end in places)


@dataclass(frozen=True, slots=True)
class TripletExtraction:
    """How the triplets of one document came to be.

    `found` of its `passages` have some. `rejects` with `reject_counts` are the reasons for which triplets of the model's answers
    were not taken. Calls and tokens are those that this run paid. `failure` says why the model did not write all that it should
    have: passages without an answer then have triplets by rules, and the document is taken up again.
    """

    id: RowId
    doc_id: str
    made: Made
    passages: int
    found: int
    triplets: int
    rejects: tuple[str, ...] = ()
    reject_counts: tuple[int, ...] = ()
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    failure: str = ""


# -- tables


TRIPLET = Table("triplet", TripletSet, (json_column("triplets", lambda parts: Triplet(*parts)),), mapped=True)
EXTRACTION = Table("extraction", TripletExtraction)


def tables(settings: TripletSettings) -> tuple[Table, Table]:
    """Nothing of them is searched: passages are, and MAP(d, C_T) leads from a passage to its triplets."""
    return (TRIPLET, EXTRACTION)


# -- what `check` demands: passages that hold every leaf once, and sentences that are the document's


def problems(rows: DocumentRows, settings: TripletSettings, dimension: int) -> Iterator[str]:
    """What is wrong with one document's triplets."""
    sets: Sequence[TripletSet] = rows["triplet"]
    extractions: Sequence[TripletExtraction] = rows["extraction"]
    if len(extractions) != 1 or extractions[0].passages != len(sets):
        yield "it is not known how the triplets came to be"
    bounds = {leaf.id: (leaf.start, leaf.end) for leaf in rows["leaf"]}
    if [leaf for row in sets for leaf in row.leaves] != list(bounds):
        yield "the passages with triplets do not hold every leaf once"
    elif any((bounds[row.leaves[0]][0], bounds[row.leaves[-1]][1]) != (row.start, row.end) for row in sets):
        yield "a passage with triplets does not stand where its leaves do"
    sentences = {(start, end) for leaf in rows["leaf"] for start, end, _ in leaf.sentences}
    triplets = [(row, triplet) for row in sets for triplet in row.triplets]
    if any((t.start, t.end) not in sentences or not row.start <= t.start < t.end <= row.end for row, t in triplets):
        yield "a triplet's sentence is not one of its passage"
    if any(not part.strip() for _, triplet in triplets for part in triplet[:3]):
        yield "a triplet has an empty part"
    if any(a.ordinal >= b.ordinal for a, b in pairwise(sets)):
        yield "the passages with triplets are out of order"
