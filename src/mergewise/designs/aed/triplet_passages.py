"""Triplet sets in a context: written passages. A citation of a triplet quotes its source sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from mergewise.designs.aed.triplets import TripletSet
from mergewise.jsonable import span_json
from mergewise.protocols import TokenCounter
from mergewise.text.blocks import SEPARATOR, heading_cost_line, render
from mergewise.types import Note, Passage, Quoter, Span, Step, frozen


@frozen
class TripletNote(Note):
    """The trace note of a triplet set: its maker, its triplets and their source spans."""

    kind: ClassVar[str] = "triplets"

    triplets: TripletSet

    def as_dict(self) -> dict[str, object]:
        doc = self.triplets.doc_id
        return {
            "made": self.triplets.made,
            "triplets": [
                {
                    "head": triplet.head,
                    "relation": triplet.relation,
                    "tail": triplet.tail,
                    "span": span_json(Span(doc, triplet.start, triplet.end)),
                }
                for triplet in self.triplets.triplets
            ],
        }

    def lines(self, step: Step, quoter: Quoter) -> list[str]:
        """Format each triplet with its source sentence."""
        score = "" if step.score is None else f"  utility {step.score:.3f}"
        lines = [f"{step.action}: {step.reason}{score}"]
        for triplet in self.triplets.triplets:
            source = quoter.quote(Span(self.triplets.doc_id, triplet.start, triplet.end))
            lines += [f"    {triplet.text}", f"      from {source}"]
        return lines


def passage_of(found: TripletSet, score: float) -> Passage:
    """Return the set as a passage of a context: a line per triplet, and the spans of their source sentences."""
    return Passage(found.text, score, found.spans, False, found.title, found.headings)


def cost_of(found: TripletSet, count_tokens: TokenCounter) -> int:
    """Count the tokens of the set in a context, with its heading line."""
    return sum(count_tokens([SEPARATOR + heading_cost_line(found.title, found.headings, True), found.text]))


def first_triplets(found: TripletSet, room: int, count_tokens: TokenCounter) -> TripletSet | None:
    """Cut the set to the first triplets that fit into `room` tokens. Return None if the first does not fit."""
    heading, *costs = count_tokens(
        [SEPARATOR + heading_cost_line(found.title, found.headings, True), *(t.text for t in found.triplets)]
    )
    kept, left = 0, room - heading
    for cost in costs:
        if cost > left:
            break
        kept, left = kept + 1, left - cost
    return replace(found, triplets=found.triplets[:kept]) if kept else None


def render_with_sets(
    passages: Sequence[Passage], sets: Sequence[tuple[TripletSet, float]], budget: int, count_tokens: TokenCounter
) -> tuple[str, int, list[TripletSet | None]]:
    """Render passages and sets within the budget. Return the text, its tokens, and each set after cutting (None if dropped).

    Tokens are counted over the whole text. While it exceeds the budget, the last triplet of the last set is dropped.
    """
    left: list[TripletSet | None] = [found for found, _ in sets]
    while True:
        shown = [passage_of(one, score) for one, (_, score) in zip(left, sets, strict=True) if one is not None]
        text = render([*passages, *shown])
        tokens = count_tokens([text])[0] if text else 0
        if tokens <= budget or not shown:
            return text, tokens, left
        last, found = [(i, one) for i, one in enumerate(left) if one is not None][-1]
        left[last] = replace(found, triplets=found.triplets[:-1]) if len(found.triplets) > 1 else None
