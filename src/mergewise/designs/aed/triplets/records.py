"""The rows of the triplet view, and its tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from mergewise.designs.aed.triplets.settings import TripletSettings
from mergewise.store.tables import Packed, Table
from mergewise.types import LeafId, RowId, Span

Made: TypeAlias = str
"""How the triplets of a passage came to be: by the chat "model", or by "rules"."""

SEPARATOR = " | "


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
class Extraction:
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


def _pack(row: TripletSet) -> str:
    return json.dumps(row.triplets, ensure_ascii=False, separators=(",", ":"))


def _unpack(rows: pa.Table) -> Mapping[str, Sequence[Any]]:
    return {"triplets": [tuple(Triplet(*one) for one in json.loads(packed)) for packed in rows["triplets"].to_pylist()]}


TRIPLETS = Packed("triplets", pa.string(), _pack, _unpack, ("triplets",))

TRIPLET = Table("triplet", TripletSet, (TRIPLETS,), mapped=True)
EXTRACTION = Table("extraction", Extraction)


def tables(settings: TripletSettings) -> tuple[Table, Table]:
    """Nothing of them is searched: passages are, and MAP(d, C_T) leads from a passage to its triplets."""
    return (TRIPLET, EXTRACTION)
