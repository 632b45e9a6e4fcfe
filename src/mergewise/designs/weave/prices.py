"""Token costs of weave's candidates."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from mergewise.assemble.fragments import SectionKey
from mergewise.assemble.sentences import SentenceInLeaf, next_start, section_of
from mergewise.models.record import Models
from mergewise.text.blocks import SEPARATOR, heading_parts, opens_with, path_levels
from mergewise.types import GAP


class Prices:
    """Token costs of sentences in a context: their text, marks for gaps, and their heading lines.

    A heading line costs its number and marks once a section, and each of its levels once a document. The first sentence of a
    section may begin with the innermost level, and then shows it for the whole section.

    Sections and levels are numbered. Their keys are nested tuples, which Python hashes again in each look-up.
    """

    def __init__(
        self, sentences: Sequence[SentenceInLeaf], models: Models, needing: frozenset[int] = frozenset()
    ) -> None:
        """Count tokens. `needing` are the positions of sentences that need others in the context."""
        self._needing = needing
        mates: dict[SectionKey, list[int]] = {}
        for at, (leaf, _) in enumerate(sentences):
            mates.setdefault(section_of(leaf), []).append(at)
        starts = [sentence.sentence.start for sentence in sentences]
        own_texts = [sentence.text for sentence in sentences]
        # For each sentence, its section and the levels above it, innermost last, and the sentence that shows the last one.
        self._above: list[tuple[int, ...]] = [()] * len(sentences)
        self._opener: list[int | None] = [None] * len(sentences)
        self._mates: dict[int, list[int]] = {}
        numbers: dict[Hashable, int] = {}
        shown: dict[int, str] = {}
        for (doc_id, headings), members in mates.items():
            levels = path_levels(sentences[members[0]].leaf.title, headings)
            keys: list[Hashable] = [(doc_id, headings), *((doc_id, i, levels[: i + 1]) for i in range(len(levels)))]
            above = tuple([numbers.setdefault(key, len(numbers)) for key in keys])
            shown |= zip(above, heading_parts(levels), strict=True)
            first = min(members, key=starts.__getitem__)
            opener = first if levels and opens_with(own_texts[first], levels[-1]) else None
            for at in members:
                self._above[at], self._opener[at] = above, opener
            self._mates[above[0]] = members
        ends = [next_start(sentence.leaf, sentence.number) for sentence in sentences]
        texts = [
            leaf.text[start - leaf.start : end - leaf.start].strip()
            for (leaf, _), start, end in zip(sentences, starts, ends, strict=True)
        ]
        self.counts = (
            {text: s.tokens for text, s in zip(own_texts, sentences, strict=True)} if models.stored_tokens else {}
        )
        fresh = [text for text in dict.fromkeys([GAP, SEPARATOR, *shown.values(), *texts]) if text not in self.counts]
        self.counts |= zip(fresh, models.count_tokens(fresh), strict=True)
        self._gap, self._separator = self.counts[GAP], self.counts[SEPARATOR]
        self._tokens = [self.counts[text] for text in texts]
        self.tokens = np.array(self._tokens, np.float32)
        self._costs = {key: self.counts[text] for key, text in shown.items()}
        self._alone = [
            n + sum([self._costs[k] for k in self._heading_keys(at, frozenset())]) for at, n in enumerate(self._tokens)
        ]
        # For each sentence, those of its section that it touches.
        self._neighbours: list[list[int]] = [[] for _ in sentences]
        by_start = {(above[0], start): at for at, (above, start) in enumerate(zip(self._above, starts, strict=True))}
        for at, end in enumerate(ends):
            if (following := by_start.get((self._above[at][0], end))) is not None:
                self._neighbours[at].append(following)
                self._neighbours[following].append(at)
        # The selection of the last call, and what its heading lines show.
        self._taken: tuple[frozenset[int], set[int]] = frozenset(), set()

    def cost(self, new: Sequence[int], taken: frozenset[int], *, shared: bool = True) -> int:
        """Return the tokens that the sentences `new`, in this order, add to a context of those `taken`.

        Without `shared`, a new section pays all levels of its line, also those that another section of the document shows.
        """
        if not taken and len(new) == 1:
            return self._alone[new[0]]
        held, cost = self._shown_headings(taken), 0
        for at in new:
            joints = sum([other in taken for other in self._neighbours[at]])
            fresh: Sequence[int] = ()
            if self._above[at][0] in held:
                # the section shows all its levels already
                cost += self._tokens[at] + self._gap * (1 - joints) + self._separator * joints
            else:
                fresh = [key for key in self._heading_keys(at, taken) if not shared or key not in held]
                cost += self._tokens[at] + sum([self._costs[key] for key in fresh])
                cost += self._separator * (joints + bool(taken)) - self._gap * joints
            if len(new) > 1:
                held, taken = held.union(fresh), taken | {at}
        return cost

    def _shown_headings(self, taken: frozenset[int]) -> set[int]:
        """Return what the heading lines of a selection show."""
        if taken is not self._taken[0]:
            self._taken = taken, {key for at in taken for key in self._heading_keys(at, taken)}
        return self._taken[1]

    def _heading_keys(self, at: int, taken: frozenset[int]) -> tuple[int, ...]:
        """Return what a heading line above the sentence shows: its number, and its levels."""
        opener, above = self._opener[at], self._above[at]
        return above[:-1] if opener is not None and (opener == at or opener in taken) else above

    def whole_cost(self, new: Sequence[int], taken: frozenset[int]) -> int:
        """Return the cost that gains are compared by. A document has no advantage because its title is shown already."""
        return self.cost(new, taken, shared=False)

    def cheaper(self, new: Sequence[int], taken: frozenset[int]) -> set[int]:
        """Return the sentences whose cost may fall when those `new` join the `taken` ones.

        The first sentence of a section pays the heading line for all others. A later one only joins its neighbours.
        """
        held, found = self._shown_headings(taken), set[int]()
        for at in new:
            section = self._above[at][0]
            mates = self._mates[section]
            found.update(mates if section not in held else self._neighbours[at])
            found.update(self._needing.intersection(mates))
        return found
