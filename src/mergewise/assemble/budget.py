"""Packing candidates into a context that never exceeds the budget, by the token counter in use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Generic, Literal, TypeAlias, TypeVar, cast

from mergewise.assemble.fragments import Candidate, HeadingParts, Order, passages_of
from mergewise.models.record import Models
from mergewise.protocols import TokenCounter
from mergewise.text.blocks import SEPARATOR, heading_parts, render
from mergewise.text.spans import spans_of
from mergewise.tracing import span
from mergewise.types import GAP, Cause, Context, Passage, Step

# Candidates whose tokens are counted in one call. Many small calls would cost several milliseconds a question.
_AT_ONCE = 12
# Packing ends after this number of consecutive candidates that do not fit.
_PATIENCE = 8

Last: TypeAlias = Literal["cut", "skip", "stop", "end"]
"""How to treat a candidate that does not fit. `skip` goes on to the next candidate. `cut` also goes on, and at the end fills
the rest of the budget with the first sentences of the skipped candidates. `stop` ends the selection: the candidates are the
longest beginning of the ranking that fits, so one that fits exactly is taken. `end` ends it and adds the first sentences of that
candidate.
"""
Repeats: TypeAlias = Literal["leave", "tell", "take"]
"""How to treat text that is already in the context. `leave` leaves it out. `tell` leaves it out and notes in the trace each
candidate without any new text. `take` takes it again.
"""


@span("mergewise.pack")
def pack(
    question: str,
    ranked: Iterable[Candidate],
    budget: int,
    models: Models,
    order: Order = "document",
    trace: Sequence[Step] = (),
    counts: Mapping[str, int] | None = None,
    last: Last = "cut",
) -> Context:
    """Pack the best candidates that fit into a context.

    If no candidate fits below its heading line, the headings are left out. `Context.strategy` stays empty: the caller sets it.

    Args:
        question: The question that the context is for.
        ranked: Candidates, best first. Later ones are made only if there is room for them.
        budget: Maximum tokens of the rendered context.
        models: Models with the token counter.
        order: Order of the passages, "document" or "score".
        trace: Steps that precede those of the packing.
        counts: Known token counts, by text.
        last: How to treat a candidate that does not fit.

    Returns:
        The context with its passages, its text, its tokens and the trace.
    """

    rest = iter(ranked)
    first = list(islice(rest, _PATIENCE))

    def context_of(candidates: Iterable[Candidate]) -> Context:
        packer: Packer[Candidate] = Packer(budget, models.count_tokens, last, order == "document", counts=counts or {})
        packer.fill(candidates)
        return packer.context(question, lambda chosen: passages_of(chosen, order), trace)

    context = context_of(chain(first, rest))
    if context.passages or not first:
        return context
    bare = context_of([candidate.without_headings() for candidate in first])
    spans = tuple(spans_of(bare))
    step = Step("bare", "nothing fits below its heading line, the headings are left out", spans, cause=Cause.TAKE)
    return replace(bare, trace=(*context.trace, step)) if bare.passages else context


P = TypeVar("P", bound=Candidate)

Arrangement: TypeAlias = Callable[[Sequence[P]], list[Passage]]
"""A function that arranges candidates as passages in reading order."""


class Packer(Generic[P]):
    """A growing selection: the candidates taken, the tokens left, and the reasons for skipping others.

    Candidates are tried in the order given. If one is too large, its `instead` candidates are tried before the next. Costs are
    the sum over the pieces. With `shares_headings`, a heading line counts once, and so does each level of the lines of one place.
    At the end the rendered text is counted as a whole, and the candidate taken last is dropped until the text fits the budget.
    `counts` are known token counts, by text.
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
        self._counts = dict(counts or {})
        self._gap, self._separator = (self._tokens([text]) for text in (GAP, SEPARATOR))
        # The first and the last offsets of the fragments taken, with their sections.
        self._starts: set[Hashable] = set()
        self._stops: set[Hashable] = set()

    def fill(self, ranked: Iterable[P]) -> None:
        patience = 1 if self._last in ("stop", "end") else _PATIENCE
        rest = iter(ranked)
        while self._misses < patience and (ahead := list(islice(rest, _AT_ONCE))):
            self._tokens([text for one in ahead for text in (*one.texts, *self._parts(one.headings, ()).values())])
            for candidate in ahead:
                if self._misses < patience:
                    self._consider(candidate)
        if self._last in ("cut", "end"):
            for candidate in self._skipped[:_PATIENCE]:
                # Take as many of its first sentences as fit.
                for beginning in candidate.beginnings(self._taken_nearby(candidate)):
                    cost, heads = self._cost(beginning)
                    if cost <= self._left:
                        self._take(beginning, cost, heads)
                        self._steps.append(candidate.cut_step(beginning))
                        break

    def context(
        self, question: str, passages: Arrangement[P], trace: Sequence[Step] = (), others: Sequence[Arrangement[P]] = ()
    ) -> Context:
        """Return the context made of the candidates taken. The steps of the selection follow `trace`.

        The `others` are further arrangements of the same candidates. All must fit, so the selection does not depend on the one
        shown.
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

    def _consider(self, candidate: P) -> None:
        """Take the candidate if it fits."""
        new = candidate.beyond(self._taken_nearby(candidate))
        if new is None:
            if self._repeats == "tell":
                self._misses = 0
                self._steps.append(
                    Step("merge", "the context holds it already", candidate.spans, score=candidate.score)
                )
            return
        cost, heads = self._cost(new)
        if cost <= self._left:
            self._misses = 0
            self._take(new, cost, heads)
            return
        self._steps.append(Step("skip", f"{cost} tokens, {self._left} left", candidate.spans, score=candidate.score))
        self._skipped.append(candidate)
        self._misses += 1
        for smaller in cast(tuple[P, ...], candidate.instead):
            self._consider(smaller)

    def _taken_nearby(self, candidate: P) -> list[P]:
        """Return the candidates taken from the same documents, or none if texts may be repeated."""
        documents = () if self._repeats == "take" else candidate.documents
        return [other for doc_id in documents for other in self._by_document.get(doc_id, ())]

    def _take(self, candidate: P, cost: int, heads: Collection[Hashable]) -> None:
        self._left -= cost
        self.taken.append(candidate)
        for doc_id in candidate.documents:
            self._by_document.setdefault(doc_id, []).append(candidate)
        if self._shares_headings:
            self._headed.update(heads)
            starts, stops = _edges(candidate)
            self._starts |= starts
            self._stops |= stops

    def _cost(self, candidate: P) -> tuple[int, Collection[Hashable]]:
        """Return the tokens that the candidate adds, and the parts of heading lines that it adds."""
        headings = candidate.headings
        parts = self._parts(headings, self._headed)
        lines = sum([section in parts for section in headings])
        starts, stops = _edges(candidate)
        joints = len(starts & (stops | self._stops) | stops & self._starts)
        texts = candidate.texts
        if self._last == "stop":
            # headings and gaps are counted once rendered, so that no candidate is left that fits
            return self._tokens(texts), parts.keys()
        cost = self._tokens([*parts.values(), *texts]) + self._gap * (len(texts) - lines - joints)
        return cost + self._separator * (lines + joints - (not self.taken)), parts.keys()

    def _tokens(self, texts: Sequence[str]) -> int:
        """Return the tokens of all texts together. Each text is counted once a question."""
        new = [text for text in dict.fromkeys(texts) if text not in self._counts]
        if new:
            self._counts.update(zip(new, self._count(new), strict=True))
        return sum(self._counts[text] for text in texts)

    def _parts(self, headings: Mapping[Hashable, HeadingParts], held: Collection[Hashable]) -> dict[Hashable, str]:
        """Return the parts of heading lines beyond the `held` ones: each line with blank levels, and each level once."""
        parts: dict[Hashable, str] = {}
        for section, (place, levels, written) in headings.items():
            if section not in held:
                keys = (section, *((place, i, levels[: i + 1]) for i in range(len(levels))))
                parts |= zip(keys, heading_parts(levels, written), strict=True)
        return {key: text for key, text in parts.items() if key not in held}


def _edges(candidate: Candidate) -> tuple[set[Hashable], set[Hashable]]:
    """Return the first and the last offsets of its fragments, with their sections. Text that touches has no gap."""
    starts: set[Hashable] = {(fragment.section, fragment.start) for fragment in candidate.fragments}
    return starts, {(fragment.section, fragment.end) for fragment in candidate.fragments}
