"""Token costs of weave's candidates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from mergewise.assemble.fragments import Fragment
from mergewise.assemble.sentences import SentenceInLeaf
from mergewise.models.record import Models
from mergewise.text.blocks import SEPARATOR, heading_parts, opens_with, path_levels
from mergewise.types import GAP


class Prices:
    """Token costs of sentences in a context: their text, marks for gaps, and their heading lines.

    A heading line costs its number and marks once a section, and each of its levels once a document. The first sentence of a
    section may begin with the innermost level, and then shows it for the whole section.
    """

    def __init__(self, sentences: Sequence[SentenceInLeaf], models: Models) -> None:
        # For each sentence, its section and the levels above it, innermost last. For each of these, the sentences below.
        self._above: list[tuple[Hashable, ...]] = []
        self._below: dict[Hashable, list[int]] = defaultdict(list)
        shown: dict[Hashable, str] = {}
        for at, sentence in enumerate(sentences):
            levels = path_levels(sentence.leaf.title, sentence.leaf.headings)
            keys = [(sentence.leaf.doc_id, i, levels[: i + 1]) for i in range(len(levels))]
            self._above.append((sentence.section, *keys))
            shown |= zip(self._above[at], heading_parts(levels), strict=True)
            for key in self._above[at]:
                self._below[key].append(at)
        self._openers: dict[Hashable, int] = {}
        for section in {sentence.section for sentence in sentences}:
            first = min(self._below[section], key=lambda at: sentences[at].sentence.start)
            levels = path_levels(sentences[first].leaf.title, section[1])
            if levels and opens_with(sentences[first].text, levels[-1]):
                self._openers[section] = first
        fragments = [sentence.fragment for sentence in sentences]
        texts = [fragment.visible[2] for fragment in fragments]
        self.counts = {s.text: s.tokens for s in sentences} if models.stored_tokens else {}
        fresh = list(dict.fromkeys([GAP, SEPARATOR, *shown.values(), *texts]).keys() - self.counts.keys())
        self.counts |= zip(fresh, models.count_tokens(fresh), strict=True)
        self.tokens = np.array([self.counts[text] for text in texts], np.float32)
        self._tokens = [self.counts[text] for text in texts]
        self._costs = {key: self.counts[text] for key, text in shown.items()}
        self._neighbours = _neighbours(fragments)
        # The selection of the last call, and what its heading lines show.
        self._taken: tuple[frozenset[int], set[Hashable]] = frozenset(), set()
        self._told: set[Hashable] = set()

    def cost(self, new: Sequence[int], taken: frozenset[int]) -> int:
        """Return the tokens that the sentences `new`, in this order, add to a context of those `taken`."""
        if taken is not self._taken[0]:
            self._taken = taken, {key for at in taken for key in self._shown(at, taken)}
        gap, separator = self.counts[GAP], self.counts[SEPARATOR]
        held, cost = self._taken[1], 0
        for at in new:
            fresh = [key for key in self._shown(at, taken) if key not in held]
            joints = len(taken.intersection(self._neighbours[at]))
            heads = self._above[at][0] not in held
            cost += self._tokens[at] + sum(map(self._costs.__getitem__, fresh))
            cost += gap * (1 - heads - joints) + separator * (joints + (heads and bool(taken)))
            if len(new) > 1:
                held, taken = held.union(fresh), taken | {at}
        return cost

    def _shown(self, at: int, taken: frozenset[int]) -> tuple[Hashable, ...]:
        """Return what a heading line above the sentence shows: its number, and its levels."""
        opener = self._openers.get(self._above[at][0])
        return self._above[at][:-1] if opener is not None and (opener == at or opener in taken) else self._above[at]

    def cheaper(self, at: int) -> set[int]:
        """Return the sentences whose cost may fall when this one is selected, without those returned before."""
        new = [key for key in self._above[at] if key not in self._told]
        self._told.update(new)
        return {*self._neighbours[at], *(below for key in new for below in self._below[key])}


def _neighbours(fragments: Sequence[Fragment]) -> list[list[int]]:
    """Return the fragments that touch each fragment, in the same section."""
    starts = {(fragment.section, fragment.start): at for at, fragment in enumerate(fragments)}
    neighbours: list[list[int]] = [[] for _ in fragments]
    for at, fragment in enumerate(fragments):
        following = starts.get((fragment.section, fragment.end))
        if following is not None:
            neighbours[at].append(following)
            neighbours[following].append(at)
    return neighbours
