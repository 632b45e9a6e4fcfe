"""From candidates to a context that never exceeds the budget, by the token counter in use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mergewise.assemble.fragments import Candidate, Fragment, SectionKey, uncovered
from mergewise.assemble.render import Order, heading_cost_line, passages_of, render
from mergewise.models.record import Models
from mergewise.protocols import TokenCounter
from mergewise.text.markup import readable, says_something
from mergewise.text.sentences import split_sentences
from mergewise.types import GAP, Context, Span, Step

_AT_ONCE = 12  # candidates whose tokens are counted in one call: many small calls cost several milliseconds a question
_PATIENCE = 8  # after so many candidates in a row that do not fit, the rest is not tried


def pack(
    question: str,
    ranked: Sequence[Candidate],
    budget: int,
    models: Models,
    order: Order = "document",
    trace: Sequence[Step] = (),
    counts: Mapping[str, int] | None = None,
) -> Context:
    """The best candidates that fit, rendered. `Context.strategy` stays empty: the dispatcher sets it.

    Candidates are taken in the order given. One that is too large is skipped, and what it has `instead` is tried before
    the next candidate. Text that is in the context already is not taken again. What is left of the budget in the end goes to
    the first whole sentences of the best candidates that were skipped. Up to here costs are added up piece by piece. Then the
    rendered text is counted as a whole, and while it is over the budget, the candidate taken last is dropped. `counts` are
    tokens of texts that were counted before.
    """
    plan = _Plan(budget, order, models.count_tokens, counts or {})
    for number, candidate in enumerate(ranked):
        if number % _AT_ONCE == 0:
            plan.count_ahead(ranked[number : number + _AT_ONCE])
        if not plan.consider(candidate):
            break
    plan.spend_rest()
    steps = [*trace, *plan.steps]
    while True:
        passages = passages_of(plan.chosen, order)
        text = render(passages)
        tokens = models.count_tokens([text])[0] if text else 0
        if tokens <= budget:
            return Context(question, "", budget, text, tokens, tuple(passages), tuple(steps))
        dropped = plan.chosen.pop()
        steps.append(Step("drop", "over the budget once rendered", _spans(dropped), score=dropped.score))


class _Plan:
    """The selection as it grows: what was taken, what of the budget is left, and why a candidate was passed over."""

    def __init__(self, budget: int, order: Order, count_tokens: TokenCounter, counts: Mapping[str, int]) -> None:
        self.chosen: list[Candidate] = []
        self.steps: list[Step] = []
        self._skipped: list[Candidate] = []
        self._left = budget
        self._misses = 0
        self._order = order
        self._count = count_tokens
        self._taken: dict[str, list[Fragment]] = {}
        self._headed: set[SectionKey] = set()
        self._counts = dict(counts)
        self._gap = self._tokens([GAP])

    def count_ahead(self, candidates: Sequence[Candidate]) -> None:
        """Count the texts that are about to be considered, all in one call."""
        fragments = [fragment for candidate in candidates for fragment in candidate.fragments]
        self._tokens([*map(_visible, fragments), *map(_heading, fragments)])

    def consider(self, candidate: Candidate) -> bool:
        """Take the candidate if it fits. False once `_PATIENCE` candidates in a row did not fit: the rest is then not tried."""
        parts = self._new_parts(candidate)
        if not parts:
            return True
        cost = self._cost(parts)
        if cost > self._left:
            self.steps.append(
                Step("skip", f"{cost} tokens, {self._left} left", _spans(candidate), score=candidate.score)
            )
            self._skipped.append(candidate)
            self._misses += 1
            for smaller in candidate.instead:
                self.consider(smaller)
            return self._misses < _PATIENCE
        self._misses = 0
        self._take(parts, cost, candidate.score)
        return True

    def spend_rest(self) -> None:
        """Give what is left to the first whole sentences of the best skipped candidates."""
        for candidate in self._skipped[:_PATIENCE]:
            parts = self._new_parts(candidate)
            for piece in _beginnings(parts[0]) if parts else ():
                cost = self._cost([piece])
                if cost <= self._left:
                    self._take([piece], cost, candidate.score)
                    self.steps.append(Step("cut", "first sentences", _spans(candidate), piece.span, candidate.score))
                    break

    def _new_parts(self, candidate: Candidate) -> list[Fragment]:
        """What the candidate has that is not taken yet."""
        parts: list[Fragment] = []
        for fragment in candidate.fragments:
            parts += uncovered(fragment, [*self._taken.get(fragment.doc_id, ()), *parts])
        return parts

    def _take(self, parts: Sequence[Fragment], cost: int, score: float) -> None:
        self._left -= cost
        self.chosen.append(Candidate(tuple(parts), score))
        for part in parts:
            self._taken.setdefault(part.doc_id, []).append(part)
            if self._order == "document":
                self._headed.add(part.section)

    def _cost(self, parts: Sequence[Fragment]) -> int:
        headings = {part.section: _heading(part) for part in parts if part.section not in self._headed}
        texts = [*headings.values(), *map(_visible, parts)]
        return self._tokens(texts) + self._gap * (len(parts) - len(headings))

    def _tokens(self, texts: Sequence[str]) -> int:
        """The tokens of all texts together. Each text is counted once a question."""
        new = [text for text in dict.fromkeys(texts) if text not in self._counts]
        if new:
            self._counts.update(zip(new, self._count(new), strict=True))
        return sum(self._counts[text] for text in texts)


def _beginnings(fragment: Fragment) -> Iterator[Fragment]:
    """The fragment cut off after each of its sentences but the last, the longest piece first; none that says nothing."""
    text = _visible(fragment)
    plain = readable(text)
    for _, end in reversed(split_sentences(text)[:-1]):
        if says_something(plain[:end]):
            yield fragment.cut(fragment.start, fragment.visible[0] + end)


def _heading(fragment: Fragment) -> str:
    return heading_cost_line(fragment.title, fragment.headings)


def _visible(fragment: Fragment) -> str:
    return fragment.visible[2]


def _spans(candidate: Candidate) -> tuple[Span, ...]:
    return tuple(fragment.span for fragment in candidate.fragments)
