"""How well single sentences answer a question, from what the index knows already: no model reads anything.

A sentence's relevance adds up
- S(c; q) of the chunk that it came in;
- the share of the question's terms that it says, weighted by how rare they are in the pool, where terms that stand in its
  heading path alone count half;
- a little if it opens its chunk, since the first sentence names what the others speak of;
- a link: one of the best sentences names the heading that it stands under, or it names the heading of one of them. This is
  how one document leads to the next where a question takes two steps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

from mergewise.assemble.mergerag.pieces import Lengths, Sentence
from mergewise.assemble.shared.sentences import inverse_frequency
from mergewise.text.terms import content_terms

COVERAGE = 0.5
PATH = 0.5
OPENING = 0.05
LINK, BACKLINK = 0.3, 0.2
BEST = 6  # sentences that links go out from


def relevance(question: str, sentences: Sequence[Sentence], scores: Sequence[float]) -> dict[Sentence, float]:
    """Of each sentence; `scores` are S(c; q) of the first chunks. Comparable within one question only."""
    wanted = content_terms(question)
    paths = {s.section: content_terms(" ".join((s.fragment.title, *s.fragment.headings))) for s in sentences}
    holding = Counter(term for s in sentences for term in s.terms)
    rarity = {term: inverse_frequency(holding[term], len(sentences)) for term in wanted}
    largest = sum(rarity.values()) or 1.0
    worth = {}
    for s in sentences:
        said = wanted & s.terms
        above = (wanted & paths[s.section]) - said
        covered = sum(rarity[term] for term in said) + PATH * sum(rarity[term] for term in above)
        worth[s] = scores[s.chunk] + COVERAGE * covered / largest + (OPENING if s.first else 0.0)
    return _with_links(worth, wanted)


def _with_links(worth: dict[Sentence, float], wanted: frozenset[str]) -> dict[Sentence, float]:
    """Adds what the best link of each sentence brings; a name that the question holds itself leads nowhere new."""
    titles = {s.section: s.fragment.headings[-1] if s.fragment.headings else s.fragment.title for s in worth}
    names = {section: terms for section, title in titles.items() if not (terms := content_terms(title)) <= wanted}
    best = sorted(worth, key=lambda s: -worth[s])[:BEST]
    linked = dict(worth)
    for s in worth:
        name = names.get(s.section)
        gains = [
            worth[b] * (LINK if name is not None and name <= b.terms else _backlink(s, names.get(b.section)))
            for b in best
            if b.section != s.section
        ]
        linked[s] += max(gains, default=0.0)
    return linked


def _backlink(s: Sentence, name: frozenset[str] | None) -> float:
    return BACKLINK if name is not None and name <= s.terms else 0.0


class Floors:
    """The least relevance that a sentence needs at each depth of the merge tree: beta of Eq. 1, from the budget.

    At depth d the pool may keep `keep` ** d of its tokens, and never less than the budget. The floor is the relevance of the
    last sentence that still fits, best first. So weak pairs shrink to little and strong ones keep nearly all they have.
    """

    def __init__(self, relevant: dict[Sentence, float], lengths: Lengths, budget: int, keep: float) -> None:
        self._values: list[float] = []
        self._filled: list[int] = []
        self._budget, self._keep = budget, keep
        filled, headed = 0, set()
        for s, value in sorted(relevant.items(), key=lambda pair: -pair[1]):
            filled += s.tokens + (lengths.heading(s) if s.section not in headed else 1)
            headed.add(s.section)
            self._values.append(value)
            self._filled.append(filled)

    def __call__(self, depth: int) -> float:
        if not self._values:
            return 0.0
        aim = max(self._budget, self._filled[-1] * self._keep**depth)
        return self._values[max(0, bisect_right(self._filled, aim) - 1)]
