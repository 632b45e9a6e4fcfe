"""Token costs of weave's candidates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from mergewise.assemble.fragments import SectionKey
from mergewise.assemble.sentences import SentenceInLeaf, next_start
from mergewise.models.record import Models
from mergewise.text.blocks import SEPARATOR, heading_parts, opens_with, path_levels
from mergewise.types import GAP


class Prices:
    """Token costs of sentences in a context: their text, marks for gaps, and their heading lines.

    A heading line costs its number and marks once a section, and each of its levels once a document. The first sentence of a
    section may begin with the innermost level, and then shows it for the whole section.
    """

    def __init__(self, sentences: Sequence[SentenceInLeaf], models: Models) -> None:
        self._mates: dict[SectionKey, list[int]] = defaultdict(list)
        self._sections = [sentence.section for sentence in sentences]
        for at, section in enumerate(self._sections):
            self._mates[section].append(at)
        # For each section, itself and the levels above it, innermost last, and the first sentence if it shows that level.
        self._above: dict[SectionKey, tuple[Hashable, ...]] = {}
        self._openers: dict[SectionKey, int] = {}
        shown: dict[Hashable, str] = {}
        for section, mates in self._mates.items():
            levels = path_levels(sentences[mates[0]].leaf.title, section[1])
            self._above[section] = (section, *((section[0], i, levels[: i + 1]) for i in range(len(levels))))
            shown |= zip(self._above[section], heading_parts(levels), strict=True)
            first = min(mates, key=lambda at: sentences[at].sentence.start)
            if levels and opens_with(sentences[first].text, levels[-1]):
                self._openers[section] = first
        ends = [next_start(sentence.leaf, sentence.number) for sentence in sentences]
        texts = [
            s.leaf.text[s.sentence.start - s.leaf.start : end - s.leaf.start].strip()
            for s, end in zip(sentences, ends, strict=True)
        ]
        self.counts = {s.text: s.tokens for s in sentences} if models.stored_tokens else {}
        fresh = [text for text in dict.fromkeys([GAP, SEPARATOR, *shown.values(), *texts]) if text not in self.counts]
        self.counts |= zip(fresh, models.count_tokens(fresh), strict=True)
        self.tokens = np.array([self.counts[text] for text in texts], np.float32)
        self._tokens = [self.counts[text] for text in texts]
        self._costs = {key: self.counts[text] for key, text in shown.items()}
        self._alone = [
            n + sum([self._costs[k] for k in self._heading_keys(at, frozenset())]) for at, n in enumerate(self._tokens)
        ]
        # For each sentence, those of its section that it touches.
        self._neighbours: list[list[int]] = [[] for _ in sentences]
        starts = {(s.section, s.sentence.start): at for at, s in enumerate(sentences)}
        for at, end in enumerate(ends):
            if (following := starts.get((self._sections[at], end))) is not None:
                self._neighbours[at].append(following)
                self._neighbours[following].append(at)
        # The selection of the last call, and what its heading lines show.
        self._taken: tuple[frozenset[int], set[Hashable]] = frozenset(), set()

    def cost(self, new: Sequence[int], taken: frozenset[int], *, shared: bool = True) -> int:
        """Return the tokens that the sentences `new`, in this order, add to a context of those `taken`.

        Without `shared`, a new section pays all levels of its line, also those that another section of the document shows.
        """
        if not taken and len(new) == 1:
            return self._alone[new[0]]
        if taken is not self._taken[0]:
            self._taken = taken, {key for at in taken for key in self._heading_keys(at, taken)}
        held, cost = self._taken[1], 0
        for at in new:
            heads = self._sections[at] not in held
            # a section that is held shows all its levels already
            fresh = [key for key in self._heading_keys(at, taken) if not shared or key not in held] if heads else []
            joints = sum([other in taken for other in self._neighbours[at]])
            cost += self._tokens[at] + sum([self._costs[key] for key in fresh])
            joined = joints + (heads and bool(taken))
            cost += self.counts[GAP] * (1 - heads - joints) + self.counts[SEPARATOR] * joined
            if len(new) > 1:
                held, taken = held.union(fresh), taken | {at}
        return cost

    def _heading_keys(self, at: int, taken: frozenset[int]) -> tuple[Hashable, ...]:
        """Return what a heading line above the sentence shows: its number, and its levels."""
        opener, above = self._openers.get(self._sections[at]), self._above[self._sections[at]]
        return above[:-1] if opener is not None and (opener == at or opener in taken) else above

    def whole_cost(self, new: Sequence[int], taken: frozenset[int]) -> int:
        """Return the cost that gains are compared by. A document has no advantage because its title is shown already."""
        return self.cost(new, taken, shared=False)

    def same_section(self, at: int) -> Sequence[int]:
        return self._mates[self._sections[at]]
