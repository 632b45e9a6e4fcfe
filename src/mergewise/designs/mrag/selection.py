"""Values by rank, within a budget that is never exceeded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from mergewise.assemble.budget import Models
from mergewise.assemble.render import render
from mergewise.designs.mrag.notes import GroundingNote, MarkerNote
from mergewise.designs.mrag.pieces import Piece, passages, without_repeats
from mergewise.types import GAP, Cause, Context, Step

Order: TypeAlias = Annotated[
    Literal["position", "similarity"],
    "`position` keeps the documents' own order, `similarity` shows the best key first",
]
Last: TypeAlias = Annotated[
    Literal["cut", "skip", "stop"],
    "what becomes of a value that does not fit: `stop` ends the selection there, as in the paper, but within the budget; `skip` "
    "goes on to values that fit; `cut` does so too, and gives the rest of the budget to the first sentences of the others",
]

_PATIENCE = 8  # after so many values in a row that do not fit, the rest is not tried
_AT_ONCE = 12  # values whose tokens are counted in one call


class Selection:
    """The context as it grows."""

    def __init__(self, budget: int, models: Models, order: Order, merge: bool, last: Last) -> None:
        self._budget = self._left = budget
        self._count = models.count_tokens
        self._order, self._merge, self._last = order, merge, last
        self._taken: list[Piece] = []
        self._skipped: list[Piece] = []
        self._headed: set[object] = set()
        self._counts: dict[str, int] = {}
        self._steps: list[Step] = []
        self._gap = self._tokens([GAP])

    def take(self, ranked: Sequence[Piece]) -> None:
        """v_c by rank until the budget is reached (section 2.2)."""
        misses = 0
        for number, piece in enumerate(ranked):
            if number % _AT_ONCE == 0:
                self._tokens([text for ahead in ranked[number : number + _AT_ONCE] for text in ahead.texts])
            fits = self._consider(piece)
            misses = 0 if fits else misses + 1
            if misses and (self._last == "stop" or misses >= _PATIENCE):
                break
        if self._last == "cut":
            for piece in self._skipped[:_PATIENCE]:
                self._cut(piece)

    def _consider(self, piece: Piece) -> bool:
        new = without_repeats(piece, self._taken) if self._merge else piece
        if new is None:
            self._steps.append(Step("merge", "the context holds it already", piece.spans, score=piece.score))
            return True
        cost = self._cost(new)
        if cost <= self._left:
            self._add(new, cost)
            return True
        self._steps.append(Step("skip", f"{cost} tokens, {self._left} left", piece.spans, score=piece.score))
        self._skipped.append(piece)
        return False

    def _cut(self, piece: Piece) -> None:
        """Take as many of the first sentences as fit."""
        for count in range(len(piece.sentences) - 1, 0, -1):
            new = without_repeats(piece.first(count), self._taken) if self._merge else piece.first(count)
            if new is not None and (cost := self._cost(new)) <= self._left:
                self._add(new, cost)
                self._steps.append(Step("cut", "first sentences", new.spans, score=piece.score))
                return

    def _add(self, piece: Piece, cost: int) -> None:
        self._left -= cost
        self._taken.append(piece)
        if self._order == "position":
            self._headed.add(piece.heading)

    def _cost(self, piece: Piece) -> int:
        headed = piece.heading in self._headed
        texts = [*([] if headed else [piece.heading_line]), *piece.texts]
        return self._tokens(texts) + self._gap * (len(piece.texts) - (not headed))

    def _tokens(self, texts: Sequence[str]) -> int:
        new = [text for text in dict.fromkeys(texts) if text not in self._counts]
        if new:
            self._counts.update(zip(new, self._count(new), strict=True))
        return sum(self._counts[text] for text in texts)

    def context(self, question: str, trace: Sequence[Step]) -> Context:
        """What was taken, rendered and counted as a whole; while it is over the budget, what was taken last goes."""
        while True:
            shown = passages(self._taken, self._order)
            text = render(shown)
            tokens = self._count([text])[0] if text else 0
            if tokens <= self._budget:
                break
            dropped = self._taken.pop()
            self._steps.append(Step("drop", "over the budget once rendered", dropped.spans, score=dropped.score))
        steps = [*trace, *self._told(), *self._steps]
        return Context(question, "", self._budget, text, tokens, tuple(shown), tuple(steps))

    def _told(self) -> list[Step]:
        """A step for each marker that was taken, and one for how they are grounded."""
        notes = [MarkerNote(piece.marker, piece.sentences) for piece in self._taken]
        steps = [
            Step(
                "marker",
                " ".join(piece.marker.key.split()),
                piece.spans,
                score=piece.score,
                note=note,
                cause=Cause.TAKE,
            )
            for piece, note in zip(self._taken, notes, strict=True)
        ]
        if not steps:
            return []
        grounding = GroundingNote.of(notes)
        written = f"{grounding.written} of {grounding.sentences} sentences written by a model"
        reason = (
            f"{written}, {grounding.unsupported} without support" if grounding.written else "all sentences verbatim"
        )
        return [*steps, Step("grounding", reason, score=None, note=grounding)]
