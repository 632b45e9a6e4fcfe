"""M-RAG's retrieval (section 2.2): search the keys of markers, and take their values by rank until the budget is reached.

Differences from the paper:
- The budget is never exceeded. The paper takes values until their tokens exceed B. Here `last` selects how to treat the value
  that does not fit.
- Headings are part of a context and cost tokens once for all values below. In the order by similarity, values under one heading
  stay together, at the rank of the best. `headings=off` gives only values, like the paper.
- Shared text of values is given once (`merge`). Verbatim values are merged by spans. A written sentence is dropped if a similar
  one has the same source, or if its source is quoted.
- Keys can also be searched by full text (`search`).

A value that a model wrote is a generated passage: its spans are the supporting sentences, and the context marks it as written.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Literal, get_args

from mergewise.assemble.budget import Last, Packer
from mergewise.designs.mrag.markers import MarkerReader
from mergewise.designs.mrag.notes import GroundingNote, MarkerNote
from mergewise.designs.mrag.pieces import ReadingOrder, ValuePiece, passages, piece_of
from mergewise.models.record import Models
from mergewise.protocols import IndexReader
from mergewise.ranges import MOST_ROWS, CheckedFields, Range
from mergewise.text.spans import one_line
from mergewise.types import Cause, Context, Step, frozen


@frozen
class MRAG(CheckedFields):
    k: Annotated[int, Range(1, MOST_ROWS), "Markers to retrieve; the budget usually ends the selection first"] = 100
    search: Annotated[
        Literal["hybrid", "vectors"], "Search of keys by full text and vectors, or by vectors only, as in the paper"
    ] = "hybrid"
    order: Annotated[
        ReadingOrder, "Order of the same values: `position` in the documents, or `similarity` of the key"
    ] = "position"
    merge: Annotated[bool, "Deduplication of text that values share"] = True
    headings: Annotated[bool, "Title and headings above values"] = True
    last: Annotated[
        Last,
        "Treatment of a value that does not fit: `end` stops there, with its first sentences; `stop` stops without them; `skip` "
        "continues with values that fit; `cut` does too, and fills the rest of the budget with first sentences of the others",
    ] = "cut"


PRESETS = {"paper": {"k": 1000, "search": "vectors", "merge": False, "headings": False, "last": "end"}}
"""`paper`: section 2.2 of M-RAG. The paper has no limit k, so this k is large enough for the budget to end the selection."""


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: MRAG) -> Context:
    markers: MarkerReader = reader.view("marker")
    hits = markers.search(question, parameters.k, parameters.search)  # (2) of the paper: sigma(e_q, e_K)
    found = f"{len(hits)} keys" + (f", written by the custom prompt {own}" if (own := markers.prompt) else "")
    trace = [Step("search", found, tuple(span for marker, _ in hits for span in marker.supports[:1]))]
    repeats: Literal["tell", "take"] = "tell" if parameters.merge else "take"
    packer: Packer[ValuePiece] = Packer(
        budget, models.count_tokens, parameters.last, shares_headings=True, repeats=repeats
    )
    # v_c by rank until the budget is reached
    packer.fill([piece_of(marker, score, headed=parameters.headings) for marker, score in hits])
    orders = sorted(get_args(ReadingOrder), key=lambda order: order != parameters.order)
    shown, *others = (partial(passages, order=order) for order in orders)
    context = packer.context(question, shown, others=others)
    notes = [MarkerNote(piece.marker, piece.sentences) for piece in packer.taken]
    for piece, note in zip(packer.taken, notes, strict=True):
        key = one_line(piece.marker.key)
        trace.append(Step("marker", key, piece.spans, score=piece.score, note=note, cause=Cause.TAKE))
    if notes:
        # The counts of their support.
        grounding = GroundingNote.of(notes)
        reason = f"{grounding.written} of {grounding.sentences} sentences written by a model"
        reason += f", {grounding.unsupported} without support"
        trace.append(Step("grounding", reason if grounding.written else "all sentences verbatim", note=grounding))
    return replace(context, trace=(*trace, *context.trace))
