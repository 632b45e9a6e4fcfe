"""How well single sentences answer a question, from what the index knows already: no model reads anything.

A sentence's relevance adds up
- S(c; q) of the chunk that it came in,
- the share of the question's terms that it says, weighted by how rare they are in the pool; terms that stand in its
  heading path alone count half,
- a little for the sentence that opens its chunk, which names what the others speak of,
- a link: the best sentences name the heading that it stands under, or it names theirs, which is how one document leads to
  the next where a question takes two steps.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

from mergewise.assemble.mergerag.pieces import Lengths, Sentence
from mergewise.text.terms import content_terms

COVERAGE = 0.5
PATH = 0.5
OPENING = 0.05
LINK, BACKLINK = 0.3, 0.2
BEST = 6  # sentences that links go out from


def relevance(question: str, sentences: Sequence[Sentence], scores: Sequence[float]) -> dict[Sentence, float]:
    """Of each sentence; `scores` are S(c; q) of the first chunks. Comparable within one question only."""
    wanted = content_terms(question)
    paths = {s.fragment.place: content_terms(" ".join((s.fragment.title, *s.fragment.headings))) for s in sentences}
    rarity = _Rarity(sentences)
    largest = sum(rarity(term) for term in wanted) or 1.0
    found = {}
    for s in sentences:
        said = wanted & s.terms
        above = (wanted & paths[s.fragment.place]) - said
        covered = sum(map(rarity, said)) + PATH * sum(map(rarity, above))
        found[s] = scores[s.chunk] + COVERAGE * covered / largest + (OPENING if s.first else 0.0)
    return _with_links(found, wanted)


class _Rarity:
    """The idf of a term among the sentences of the pool, never negative."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self._all = len(sentences)
        self._holding = Counter(term for s in sentences for term in s.terms)

    def __call__(self, term: str) -> float:
        holding = self._holding[term]
        return math.log(1 + (self._all - holding + 0.5) / (holding + 0.5))


def _with_links(found: dict[Sentence, float], wanted: frozenset[str]) -> dict[Sentence, float]:
    """Names that the question holds itself lead nowhere new."""
    named = {s.fragment.place: s.fragment.headings[-1] if s.fragment.headings else s.fragment.title for s in found}
    names = {place: terms for place, name in named.items() if not (terms := content_terms(name)) <= wanted}
    best = sorted(found, key=lambda s: -found[s])[:BEST]
    linked = dict(found)
    for s in found:
        own = names.get(s.fragment.place)
        gains = [
            found[b] * (LINK if own is not None and own <= b.terms else _backlink(s, names.get(b.fragment.place)))
            for b in best
            if b.fragment.place != s.fragment.place
        ]
        linked[s] += max(gains, default=0.0)
    return linked


def _backlink(s: Sentence, name: frozenset[str] | None) -> float:
    return BACKLINK if name is not None and name <= s.terms else 0.0


class Floors:
    """The least relevance that a sentence needs at each depth of the merge tree: beta of Eq. 1, from the budget.

    At depth d the pool may hold `keep` ** d of its tokens, and never less than the budget: the floor is the relevance down to
    which the pool's best sentences fill that. So weak pairs shrink to little and strong ones keep nearly all they have.
    """

    def __init__(self, relevant: dict[Sentence, float], lengths: Lengths, budget: int, keep: float) -> None:
        self._values: list[float] = []
        self._filled: list[int] = []
        self._budget, self._keep = budget, keep
        filled, headed = 0, set()
        for s, value in sorted(relevant.items(), key=lambda pair: -pair[1]):
            filled += s.tokens + (lengths.heading(s) if s.fragment.place not in headed else 1)
            headed.add(s.fragment.place)
            self._values.append(value)
            self._filled.append(filled)

    def __call__(self, depth: int) -> float:
        if not self._values:
            return 0.0
        aim = max(self._budget, self._filled[-1] * self._keep**depth)
        return self._values[max(0, bisect_right(self._filled, aim) - 1)]
