"""Token costs of weave's candidates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from mergewise.assemble.fragments import SectionKey
from mergewise.assemble.render import heading_cost_line
from mergewise.assemble.sentences import SentenceInLeaf
from mergewise.models.record import Models
from mergewise.types import GAP


class Prices:
    """Token costs of sentences: their text, a mark for the gap, and their heading line once a section."""

    def __init__(self, sentences: Sequence[SentenceInLeaf], models: Models) -> None:
        by_section: dict[SectionKey, list[int]] = defaultdict(list)
        # For each sentence, the positions of all sentences in its section.
        self._mates = [by_section[sentence.section] for sentence in sentences]
        for at, mates in enumerate(self._mates):
            mates.append(at)
        firsts = [sentences[mates[0]].leaf for mates in by_section.values()]
        lines = [GAP, *(heading_cost_line(leaf.title, leaf.headings) for leaf in firsts)]
        texts = [sentence.text for sentence in sentences]
        if models.stored_tokens:
            self.counts = dict(zip(texts, (sentence.tokens for sentence in sentences), strict=True))
            self.counts |= zip(lines, models.count_tokens(lines), strict=True)
        else:
            self.counts = dict(zip([*lines, *texts], models.count_tokens([*lines, *texts]), strict=True))
        self.tokens = np.array([self.counts[text] for text in texts], np.float32)
        self._costs = [self.counts[text] + self.counts[GAP] for text in texts]
        of_lines = dict(zip(by_section, map(self.counts.__getitem__, lines[1:]), strict=True))
        self._headings = [of_lines[sentence.section] for sentence in sentences]

    def cost(self, new: Sequence[int], taken: frozenset[int]) -> int:
        cost, headed = 0, taken
        for at in new:
            cost += self._costs[at]
            if headed.isdisjoint(self._mates[at]):
                cost += self._headings[at]
            if len(new) > 1:
                headed |= {at}
        return cost

    def same_section(self, at: int) -> Sequence[int]:
        return self._mates[at]
