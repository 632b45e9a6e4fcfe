"""Settings, rows and tables of the triplet view, and their checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple, TypeAlias

from mergewise.defaults import PASSAGE_TOKENS
from mergewise.index.views import PromptHash, json_column
from mergewise.ranges import SHARE, CheckedFields, Range
from mergewise.store.tables import Table
from mergewise.text.spans import one_line, spans_in
from mergewise.types import DocumentRows, LeafId, OverLeaves, RowId, Span, frozen
from mergewise.types.documents import Spanned

Made: TypeAlias = str
"""Maker of a passage's triplets: the chat "model" or "rules"."""

SEPARATOR = " | "


@frozen
class TripletSettings(CheckedFields):
    """Settings of the triplet view. The paper states only the size of a passage, a hundred words.

    If a chat model is configured, it writes the triplets.
    """

    made: Annotated[Literal["rules", "model"], "Maker of the triplets: rules or the chat model"] = "rules"
    longest: Annotated[int, Range(1, 10_000), "Maximum size of a passage in tokens, as in `aed`"] = PASSAGE_TOKENS
    most: Annotated[int, Range(1, 1000), "Maximum number of triplets of a passage"] = 32
    coverage: Annotated[float, SHARE, "Share of passages with triplets that ends the retries"] = 0.9
    attempts: Annotated[int, Range(1, 10), "Maximum number of model calls for a passage"] = 2
    window: Annotated[int, Range(64, 1_000_000), "Document tokens of a prompt, if the model's window holds them"] = 1024
    overlap: Annotated[int, Range(0, 10_000), "Tokens shared by neighbouring windows"] = 0
    prompt: PromptHash = ""


class Triplet(NamedTuple):
    """(h, r, t) of Eq. 4, with its source sentence `document.text[start:end]`."""

    head: str
    relation: str
    tail: str
    start: int
    end: int

    @property
    def text(self) -> str:
        """The triplet on a single line of a context."""
        return SEPARATOR.join(one_line(part).replace("|", "/") for part in self[:3])


@frozen
class TripletSet(Spanned, OverLeaves):
    """T = {(h_1, r_1, t_1), ...} of one passage (Eq. 4). It may be empty.

    The passage is `document.text[start:end]`, with the leaves `first_leaf .. first_leaf + leaf_count - 1`.
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
    def text(self) -> str:
        """The triplets in a context, one per line."""
        return "\n".join(triplet.text for triplet in self.triplets)

    @property
    def spans(self) -> tuple[Span, ...]:
        """Spans of the distinct source sentences, in document order."""
        return spans_in(self.doc_id, sorted({(triplet.start, triplet.end) for triplet in self.triplets}))


@frozen
class TripletExtraction:
    """Statistics of the extraction for one document.

    `found` is the number of `passages` with triplets. `rejects` and `reject_counts` are the reasons why triplets of the model
    were rejected. Calls and tokens count this run only. `failure` is the error that left passages without an answer from the
    model. Those passages have triplets by rules, and the next run retries the document.
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
    """Return the tables of the view. They are not searched: MAP(d, C_T) maps a retrieved passage to its triplets."""
    return (TRIPLET, EXTRACTION)


# -- checks: the passages hold every leaf once, and the sentences are the document's


def problems(rows: DocumentRows, settings: TripletSettings, dimension: int) -> Iterator[str]:
    """Yield the problems of one document's triplets."""
    sets: Sequence[TripletSet] = rows["triplet"]
    extractions: Sequence[TripletExtraction] = rows["extraction"]
    if len(extractions) != 1 or extractions[0].passages != len(sets):
        yield "missing or wrong extraction record of the triplets"
    bounds = {leaf.id: (leaf.start, leaf.end) for leaf in rows["leaf"]}
    if [leaf for row in sets for leaf in row.leaves] != list(bounds):
        yield "passages with triplets do not hold every leaf exactly once"
    elif any((bounds[row.leaves[0]][0], bounds[row.leaves[-1]][1]) != (row.start, row.end) for row in sets):
        yield "passage with triplets and its leaves have different spans"
    sentences = {(start, end) for leaf in rows["leaf"] for start, end, *_ in leaf.sentences}
    triplets = [(row, triplet) for row in sets for triplet in row.triplets]
    if any((t.start, t.end) not in sentences or not row.start <= t.start < t.end <= row.end for row, t in triplets):
        yield "triplet with a sentence outside its passage"
    if any(not part.strip() for _, triplet in triplets for part in triplet[:3]):
        yield "triplet with an empty part"
    if any(a.ordinal >= b.ordinal for a, b in pairwise(sets)):
        yield "passages with triplets out of order"
