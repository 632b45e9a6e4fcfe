"""M-RAG's retrieval (section 2.2): the keys of markers are searched, their values are given by rank until the budget is reached.

Where we differ from the paper, and why:
- a budget is never exceeded: the paper takes values until their tokens exceed B, here `last` says what becomes of the one that
  does not fit;
- headings are part of a context and are paid for, once for all that stands below them: in the order by similarity, values
  under one heading stay together, where the best of them stands. `headings=off` gives values alone, as the paper does;
- what values share is given once (`merge`): verbatim values as spans, written sentences where another one from the same place
  says the same, or where the place itself is quoted;
- keys can be searched by full text too (`search`).

A value that a model wrote is a generated passage: it names the sentences that support it, and the context says that it is
written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Literal, get_args

from mergewise.assemble.budget import Last, Packer
from mergewise.designs.mrag.markers import MarkerReader
from mergewise.designs.mrag.notes import GroundingNote, MarkerNote
from mergewise.designs.mrag.pieces import ReadingOrder, ValuePiece, passages, piece_of
from mergewise.models.record import Models
from mergewise.protocols import IndexReader
from mergewise.ranges import MOST_ROWS, CheckedFields, Range
from mergewise.store.views import Presets
from mergewise.types import Cause, Context, Step


@dataclass(frozen=True, slots=True)
class MRAG(CheckedFields):
    k: Annotated[
        int, Range(1, MOST_ROWS), "markers that are looked at; the budget usually ends the selection first"
    ] = 100
    search: Annotated[
        Literal["hybrid", "vectors"],
        "how keys are searched: by full text and vectors, or by vectors alone, as in the paper",
    ] = "hybrid"
    order: Annotated[
        ReadingOrder,
        "`position` keeps the documents' own order, `similarity` shows the best key first; both show the same values",
    ] = "position"
    merge: Annotated[bool, "whether what values share is given once"] = True
    headings: Annotated[
        bool, "whether values stand below their title and headings, together; without, each stands alone"
    ] = True
    last: Annotated[
        Last,
        "what becomes of a value that does not fit: `end` ends the selection there, with its first sentences; `stop` ends it "
        "without; `skip` goes on to values that fit; `cut` does so too, and gives the rest of the budget to the first "
        "sentences of the others",
    ] = "cut"


PRESETS: Presets = {"paper": {"k": 1000, "search": "vectors", "merge": False, "headings": False, "last": "end"}}
"""`paper`: section 2.2 of M-RAG. It bounds no k: this one lets the budget end the selection."""


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: MRAG) -> Context:
    markers: MarkerReader = reader.view("marker")
    hits = markers.search(question, parameters.k, parameters.search)  # (2) of the paper: sigma(e_q, e_K)
    found = f"{len(hits)} keys" + (f", written by a prompt of one's own, {own}" if (own := markers.prompt) else "")
    trace = [Step("search", found, tuple(span for marker, _ in hits for span in marker.supports[:1]))]
    packer: Packer[ValuePiece] = Packer(
        budget,
        models.count_tokens,
        parameters.last,
        shares_headings=True,
        repeats="tell" if parameters.merge else "take",
    )
    # v_c by rank until the budget is reached
    packer.fill([piece_of(marker, score, headed=parameters.headings) for marker, score in hits])
    orders = sorted(get_args(ReadingOrder), key=lambda order: order != parameters.order)
    shown, *others = (partial(passages, order=order) for order in orders)
    context = packer.context(question, shown, others=others)
    return replace(context, trace=(*trace, *_marker_steps(packer.taken), *context.trace))


def _marker_steps(pieces: Sequence[ValuePiece]) -> list[Step]:
    """A step for each marker that was taken, and one for how they are grounded."""
    if not pieces:
        return []
    notes = [MarkerNote(piece.marker, piece.sentences) for piece in pieces]
    keys = [" ".join(piece.marker.key.split()) for piece in pieces]
    steps = [
        Step("marker", key, piece.spans, score=piece.score, note=note, cause=Cause.TAKE)
        for key, piece, note in zip(keys, pieces, notes, strict=True)
    ]
    grounding = GroundingNote.of(notes)
    written = f"{grounding.written} of {grounding.sentences} sentences written by a model"
    reason = f"{written}, {grounding.unsupported} without support" if grounding.written else "all sentences verbatim"
    return [*steps, Step("grounding", reason, note=grounding)]
