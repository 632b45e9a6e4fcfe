"""From candidates to a context that never exceeds the budget, by the token counter in use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Generic, Literal, Protocol, Self, TypeAlias, TypeVar

from mergewise.assemble.fragments import Candidate, HeadingParts
from mergewise.assemble.render import Order, heading_cost_line, passages_of, render
from mergewise.models.record import Models
from mergewise.protocols import TokenCounter
from mergewise.types import GAP, Cause, Context, Passage, Span, Step

_AT_ONCE = 12  # portions whose tokens are counted in one call: many small calls cost several milliseconds a question
_PATIENCE = 8  # after so many portions in a row that do not fit, the rest is not tried

Last: TypeAlias = Literal["cut", "skip", "stop", "end"]
"""What becomes of a portion that does not fit: `skip` goes on to those that fit; `cut` does so too, and gives the rest of the
budget to the first sentences of the others; `stop` ends the selection there, and `end` with its first sentences.
"""
Repeats: TypeAlias = Literal["leave", "tell", "take"]
"""What becomes of text that is in the context already: it is left out; also, a portion with nothing else is told in the trace;
or it is taken again.
"""


def pack(
    question: str,
    ranked: Sequence[Candidate],
    budget: int,
    models: Models,
    order: Order = "document",
    trace: Sequence[Step] = (),
    counts: Mapping[str, int] | None = None,
    last: Last = "cut",
) -> Context:
    """The best candidates that fit, rendered. `Context.strategy` stays empty: the dispatcher sets it.

    Where none fits below its heading line, the heading lines go, and not the text. `counts` are tokens of texts that were counted
    before.
    """

    def context_of(candidates: Sequence[Candidate]) -> Context:
        packer: Packer[Candidate] = Packer(budget, models.count_tokens, last, order == "document", counts=counts or {})
        packer.fill(candidates)
        return packer.context(question, lambda chosen: passages_of(chosen, order), trace)

    context = context_of(ranked)
    if context.passages or not ranked:
        return context
    bare = context_of([candidate.without_headings() for candidate in ranked[:_PATIENCE]])
    spans = tuple(span for passage in bare.passages for span in passage.spans)
    step = Step("bare", "nothing fits below its heading line, which is left out", spans, cause=Cause.TAKE)
    return replace(bare, trace=(*context.trace, step)) if bare.passages else context


class Portion(Protocol):
    """What a packer takes or skips as a whole."""

    @property
    def score(self) -> float: ...

    @property
    def documents(self) -> Collection[str]: ...

    @property
    def spans(self) -> tuple[Span, ...]: ...

    @property
    def texts(self) -> Sequence[str]:
        """What stands below heading lines, each but the first below its own with a mark for the gap before it."""
        ...

    @property
    def headings(self) -> Mapping[Hashable, HeadingParts]:
        """The heading lines, by what shares one with others."""
        ...

    @property
    def instead(self) -> Sequence[Self]:
        """What is tried, best first, where the whole does not fit."""
        ...

    def beyond(self, taken: Sequence[Self]) -> Self | None:
        """The portion without what those of its documents hold that were `taken`; None where nothing is left."""
        ...

    def beginnings(self, taken: Sequence[Self]) -> Iterator[Self]:
        """Its first sentences, the longest piece first, without what was `taken`."""
        ...

    def cut_step(self, beginning: Self) -> Step:
        """The step that tells that this beginning of it was taken."""
        ...


P = TypeVar("P", bound=Portion)

Arrangement: TypeAlias = Callable[[Sequence[P]], list[Passage]]
"""Portions as passages in reading order."""


class Packer(Generic[P]):
    """A selection as it grows: what was taken, what of the budget is left, and why a portion was passed over.

    Portions are taken in the order given. Instead of one that is too large, what it has `instead` is tried before the next.
    Costs are added up piece by piece, a heading line once where `shares_headings`. Then the rendered text is counted as a
    whole, and while it is over the budget, the portion taken last is dropped. `counts` are tokens of texts, known before.
    """

    def __init__(
        self,
        budget: int,
        count_tokens: TokenCounter,
        last: Last,
        shares_headings: bool,
        repeats: Repeats = "leave",
        counts: Mapping[str, int] | None = None,
    ) -> None:
        self.taken: list[P] = []
        self._steps: list[Step] = []
        self._skipped: list[P] = []
        self._budget = self._left = budget
        self._misses = 0
        self._last, self._shares_headings, self._repeats = last, shares_headings, repeats
        self._count = count_tokens
        self._by_document: dict[str, list[P]] = {}
        self._headed: set[Hashable] = set()
        self._lines: dict[HeadingParts, str] = {}
        self._counts = dict(counts or {})
        self._gap = self._tokens([GAP])

    def fill(self, ranked: Sequence[P]) -> None:
        patience = 1 if self._last in ("stop", "end") else _PATIENCE
        for number, portion in enumerate(ranked):
            if number % _AT_ONCE == 0:
                ahead = ranked[number : number + _AT_ONCE]
                self._tokens([text for one in ahead for text in (*one.texts, *self._heading_lines(one).values())])
            self._consider(portion)
            if self._misses >= patience:
                break
        if self._last in ("cut", "end"):
            for portion in self._skipped[:_PATIENCE]:
                self._take_beginning(portion)

    def context(
        self, question: str, passages: Arrangement[P], trace: Sequence[Step] = (), others: Sequence[Arrangement[P]] = ()
    ) -> Context:
        """What was taken, as the passages that are made of it. The steps of the selection follow `trace`.

        The `others` have to fit as well: what is taken is then the same, whichever of them is shown.
        """
        while True:
            shown = passages(self.taken)
            text = render(shown)
            texts = [text, *(render(other(self.taken)) for other in others)]
            tokens, *more = self._count(texts) if text else [0]
            if max(tokens, *more, 0) <= self._budget:
                return Context(question, "", self._budget, text, tokens, tuple(shown), (*trace, *self._steps))
            dropped = self.taken.pop()
            self._steps.append(Step("drop", "over the budget once rendered", dropped.spans, score=dropped.score))

    def _consider(self, portion: P) -> None:
        """Take the portion if it fits."""
        new = portion.beyond(self._beside(portion))
        if new is None:
            if self._repeats == "tell":
                self._misses = 0
                self._steps.append(Step("merge", "the context holds it already", portion.spans, score=portion.score))
            return
        cost = self._cost(new)
        if cost <= self._left:
            self._misses = 0
            self._take(new, cost)
            return
        self._steps.append(Step("skip", f"{cost} tokens, {self._left} left", portion.spans, score=portion.score))
        self._skipped.append(portion)
        self._misses += 1
        for smaller in portion.instead:
            self._consider(smaller)

    def _take_beginning(self, portion: P) -> None:
        """Take as many of the first sentences as fit."""
        for beginning in portion.beginnings(self._beside(portion)):
            cost = self._cost(beginning)
            if cost <= self._left:
                self._take(beginning, cost)
                self._steps.append(portion.cut_step(beginning))
                return

    def _beside(self, portion: P) -> list[P]:
        """What was taken of the same documents, unless texts may be repeated."""
        documents = () if self._repeats == "take" else portion.documents
        return [other for doc_id in documents for other in self._by_document.get(doc_id, ())]

    def _take(self, portion: P, cost: int) -> None:
        self._left -= cost
        self.taken.append(portion)
        for doc_id in portion.documents:
            self._by_document.setdefault(doc_id, []).append(portion)
        if self._shares_headings:
            self._headed |= portion.headings.keys()

    def _cost(self, portion: P) -> int:
        lines = [line for key, line in self._heading_lines(portion).items() if key not in self._headed]
        return self._tokens([*lines, *portion.texts]) + self._gap * (len(portion.texts) - len(lines))

    def _tokens(self, texts: Sequence[str]) -> int:
        """The tokens of all texts together. Each text is counted once a question."""
        new = [text for text in dict.fromkeys(texts) if text not in self._counts]
        if new:
            self._counts.update(zip(new, self._count(new), strict=True))
        return sum(self._counts[text] for text in texts)

    def _heading_lines(self, portion: P) -> dict[Hashable, str]:
        lines = self._lines
        headings = portion.headings
        for heading in headings.values():
            if heading not in lines:
                lines[heading] = heading_cost_line(*heading)
        return {key: lines[heading] for key, heading in headings.items()}
