"""The relevance of single sentences to a question, computed from the index without a model.

A sentence's relevance is the sum of
- S(c; q) of its first chunk;
- its share of the question's terms, weighted by their rarity among all sentences; a term in its heading path alone counts half;
- a small bonus if it opens its chunk, since the first sentence introduces the subject of the others;
- a link, if one of the best sentences names the heading above it, or it names the heading above one of them. Links connect
  documents for questions that take two steps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from math import fsum

from mergewise.assemble.sentences import inverse_frequency
from mergewise.designs.mergerag.pieces import ChunkLengths, ChunkSentence
from mergewise.text.terms import content_terms

COVERAGE = 0.5
PATH = 0.5
OPENING = 0.05
LINK, BACKLINK = 0.3, 0.2
# The best sentences, from which links start.
BEST = 6


def relevance(question: str, sentences: Sequence[ChunkSentence], scores: Sequence[float]) -> dict[ChunkSentence, float]:
    """Return the relevance of each sentence, comparable within one question only. `scores` are S(c; q) of the first chunks."""
    wanted = content_terms(question)
    paths = {s.section: content_terms(" ".join((s.fragment.title, *s.fragment.headings))) for s in sentences}
    holding = Counter(term for sentence in sentences for term in sentence.terms)
    # In a fixed order: sums of floats depend on it, and sets have none.
    rarity = {term: inverse_frequency(holding[term], len(sentences)) for term in sorted(wanted)}
    largest = sum(rarity.values()) or 1.0
    worth = {}
    for sentence in sentences:
        own = wanted & sentence.terms
        above = (wanted & paths[sentence.section]) - own
        covered = fsum(rarity[term] for term in own) + PATH * fsum(rarity[term] for term in above)
        worth[sentence] = scores[sentence.chunk] + COVERAGE * covered / largest + (OPENING if sentence.first else 0.0)
    # Add the gain of each sentence's best link. A name in the question makes no link, since it leads nowhere new.
    titles = {s.section: s.fragment.headings[-1] if s.fragment.headings else s.fragment.title for s in worth}
    names = {section: terms for section, title in titles.items() if not (terms := content_terms(title)) <= wanted}
    best = sorted(worth, key=lambda sentence: -worth[sentence])[:BEST]
    linked = dict(worth)
    for sentence in worth:
        gain = 0.0
        for other in best:
            if other.section == sentence.section:
                continue
            name, back = names.get(sentence.section), names.get(other.section)
            if name is not None and name <= other.terms:
                gain = max(gain, worth[other] * LINK)
            elif back is not None and back <= sentence.terms:
                gain = max(gain, worth[other] * BACKLINK)
        linked[sentence] += gain
    return linked


class Floors:
    """The minimum relevance of a sentence at each depth of the merge tree: beta of Eq. 1, from the budget.

    At depth d the chunks may keep `keep` ** d of all tokens together, but at least the budget. With the best sentences taken
    first, the floor is the relevance of the last one that fits. So weak pairs lose most of their sentences, strong ones few.
    """

    def __init__(self, relevant: dict[ChunkSentence, float], lengths: ChunkLengths, budget: int, keep: float) -> None:
        self._values: list[float] = []
        self._filled: list[int] = []
        self._budget, self._keep = budget, keep
        filled, headed = 0, set()
        for sentence, value in sorted(relevant.items(), key=lambda pair: -pair[1]):
            filled += sentence.tokens + (lengths.heading(sentence) if sentence.section not in headed else 1)
            headed.add(sentence.section)
            self._values.append(value)
            self._filled.append(filled)

    def __call__(self, depth: int) -> float:
        if not self._values:
            return 0.0
        aim = max(self._budget, self._filled[-1] * self._keep**depth)
        return self._values[max(0, bisect_right(self._filled, aim) - 1)]
