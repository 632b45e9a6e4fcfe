"""M-RAG's retrieval (section 2.2): the keys of markers are searched, their values are given by rank until the budget is reached.

Where we differ from the paper, and why:
- a budget is never exceeded: the paper takes values until their tokens exceed B, here `last` says what becomes of the one that
  does not fit;
- headings are part of a context and are paid for;
- what values share is given once (`merge`): verbatim values as spans, written sentences where another one from the same place
  says the same, or where the place itself is quoted;
- keys can be searched by full text too (`search`).

A value that a model wrote is a generated passage: it names the sentences that support it, and the context says that it is
written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from mergewise.designs.mrag.markers import MarkerReader
from mergewise.designs.mrag.pieces import piece_of
from mergewise.designs.mrag.selection import Last, Order, Selection
from mergewise.models.record import Models
from mergewise.protocols import IndexReader
from mergewise.ranges import MOST_ROWS, Range, check_fields
from mergewise.types import Context, Step


@dataclass(frozen=True, slots=True)
class MRAG:
    k: Annotated[
        int, Range(1, MOST_ROWS), "markers that are looked at; the budget usually ends the selection first"
    ] = 100
    search: Annotated[
        Literal["hybrid", "vectors"],
        "how keys are searched: by full text and vectors, or by vectors alone, as in the paper",
    ] = "hybrid"
    order: Order = "position"
    merge: Annotated[bool, "whether what values share is given once"] = True
    last: Last = "cut"

    def __post_init__(self) -> None:
        check_fields(self)


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: MRAG) -> Context:
    markers: MarkerReader = reader.view("marker")
    hits = markers.search(question, parameters.k, parameters.search)  # (2) of the paper: sigma(e_q, e_K)
    trace = [Step("search", f"{len(hits)} keys", tuple(span for marker, _ in hits for span in marker.supports[:1]))]
    selection = Selection(budget, models, parameters.order, parameters.merge, parameters.last)
    selection.take([piece_of(marker, score) for marker, score in hits])
    return selection.context(question, trace)
