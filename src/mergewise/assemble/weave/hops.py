"""Bridge hops: what the best evidence names leads to the places that define it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mergewise.assemble.weave.evidence import COMMON, PREFIX, Item, Link, PlaceKey, Pool
from mergewise.protocols import FloatArray, IndexReader
from mergewise.text.names import Mention, Words, mentions, possible_names, words_of
from mergewise.types import Definition

LEAVES = 6  # of a place that are read
PLACES = 16  # that one hop reads
FAINT = 0.05  # strength of a link below which its place is not read
BESIDE = 4  # words around a name in which a word of the question counts as beside it
EVEN = 0.8  # what the best sentence of a named place counts for, as a share of the best of all


def named_places(pool: Pool, reader: IndexReader) -> tuple[list[Mention], dict[str, list[Definition]]]:
    """The names in the question, and the places that define them."""
    possible = possible_names(pool.asked.words)
    known = reader.definitions(list(dict.fromkeys(mention.name for mention in possible)))
    known = {name: places for name, places in known.items() if len(places) <= COMMON}
    return mentions(possible, known), known


def strengths(pool: Pool) -> FloatArray:
    """How far each candidate is trusted as the start of a chain: its relevance.

    A place that the question names starts a chain even where another one outshines it: comparisons ask for both.
    """
    relevance = pool.relevance
    raised = relevance.copy()
    top = EVEN * max(float(relevance.max(initial=0.0)), 0.3)
    for place in pool.named:
        members = pool.members.get(place, [])
        best = float(relevance[members].max(initial=0.0))
        if 0 < best < top:
            raised[members] *= top / best
    return raised


class Follower:
    """Follows names from evidence to places, hop after hop; what was looked up once is remembered."""

    def __init__(self, pool: Pool, reader: IndexReader, asked_names: Sequence[Mention], beam: int) -> None:
        self.pool = pool
        self.reader = reader
        self.beam = beam
        self._skip = {mention.name for mention in asked_names}
        self._relations = pool.asked.relations(asked_names)
        self._words: dict[int, Words] = {}
        self._possible: dict[int, list[Mention]] = {}
        self._places: dict[str, list[Definition]] = {}

    def follow(self) -> dict[Definition, list[Link]]:
        """The places that the `beam` strongest candidates name, with the links that lead there."""
        pool = self.pool
        strength = strengths(pool)
        evidence = np.argsort(-strength, kind="stable")[: self.beam].tolist()
        self._look_up(evidence)
        links: dict[Definition, list[Link]] = defaultdict(list)
        for i in evidence:
            for mention in mentions(self._possible[i], self._places):
                if mention.name in self._skip:
                    continue
                places = self._targets(pool.items[i], self._places[mention.name])
                value = float(strength[i]) / math.sqrt(len(places) or 1)
                for place in places:
                    links[place].append(Link(i, mention.name, value, self._is_near(self._words[i], mention)))
        return links

    def _look_up(self, evidence: Iterable[int]) -> None:
        """Which of the names that the evidence could hold are defined, in one call."""
        fresh = [i for i in evidence if i not in self._words]
        for i in fresh:
            self._words[i] = words_of(self.pool.items[i].text)
            self._possible[i] = possible_names(self._words[i])
        names = dict.fromkeys(mention.name for i in fresh for mention in self._possible[i])
        self._places |= self.reader.definitions(list(names)) if names else {}

    def _targets(self, item: Item, places: Sequence[Definition]) -> list[Definition]:
        """Those of the same document where there are some; none where the name leads everywhere, or back."""
        if any(item.leaf.id in place.leaves for place in places):
            return []
        own = [place for place in places if place.document == item.leaf.document]
        targets = own or list(places)
        return targets if len(targets) < COMMON else []

    def _is_near(self, words: Words, mention: Mention) -> bool:
        before = words.folded[max(0, mention.first - BESIDE) : mention.first]
        after = words.folded[mention.last : mention.last + BESIDE - 1]
        return any(word[:PREFIX] in self._relations for word in before + after)


def strongest(reached: Mapping[Definition, Sequence[Link]]) -> list[Definition]:
    """The places that a hop reads, those with the strongest links first, without those of faint ones."""
    strength = {place: max(link.strength for link in links) for place, links in reached.items()}
    worth = [place for place in reached if strength[place] >= FAINT]
    return sorted(worth, key=lambda place: (-strength[place], place.first_leaf))[:PLACES]


def by_place(pool: Pool, reached: Mapping[Definition, Sequence[Link]]) -> dict[PlaceKey, list[Link]]:
    """The links by what the pool calls a place; one that was not read, or says nothing, leads nowhere."""
    links: dict[PlaceKey, list[Link]] = {}
    for place, found in reached.items():
        key = pool.leaves.get(place.first_leaf)
        if key is not None and pool.members[key]:
            links.setdefault(key, []).extend(found)
    return links


def leaves_of(places: Iterable[Definition], known: Mapping[int, object]) -> list[int]:
    """The first leaves of the places, without those that are known."""
    wanted = (leaf for place in places for leaf in place.leaves[:LEAVES])
    return [leaf for leaf in dict.fromkeys(wanted) if leaf not in known]
