"""Sentences as evidence for a question: what they have in common with it, and how likely each is to be needed.

A sentence's relevance is the logistic function of a weighted sum of features in [0, 1] (cosines: [-1, 1]). The weights
are fitted on the first halves of the question sets by `benchmarks/weave.py`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mergewise.assemble.shared.fragments import Fragment
from mergewise.protocols import FloatArray
from mergewise.text.names import Mention, Words, words_of
from mergewise.text.question import Kind, Wanted, kind_of, leans, offers, wanted_by
from mergewise.text.terms import STOP_WORDS, TermFinder, content_terms
from mergewise.types import LeafSentences, Sentence, Span

FEATURES = (
    "cosine",  # of the sentence's vector with the question's, less the best sentence's
    "leaf",  # the leaf's score in the hybrid search
    "terms",  # share of the question's terms in the sentence, by their weights, over the best sentence's share
    "path_terms",  # the same share, of sentence, headings and title together
    "document",  # how much was found in this document, over the best document
    "elsewhere",  # the same, without the sentence's own place
    "first",  # the sentence opens its place
    "named",  # the best sentence of a place that the question names
    "length",  # tokens / 50, at most 2
    "offers",  # it holds a number, time or place, where the question wants one
    "link",  # strength of the chain that leads here: the evidence that names this place
    "near",  # the same, where the name stands beside a word of the question
    "rest",  # the same, times the share of the question's terms that the chain lacks and the sentence has
)
WEIGHTS: Mapping[str, float] = {
    "bias": -7.02,
    "cosine": 8.30,
    "leaf": 2.30,
    "terms": 1.03,
    "path_terms": 2.45,
    "document": 0.64,
    "elsewhere": 0.75,
    "first": 1.44,
    "named": 2.07,
    "length": 0.55,
    "offers": 0.58,
    "link": 3.23,
    "near": 3.65,
    "rest": 15.70,
}

COMMON = 8  # a name that more places define tells nothing
PREFIX = 5  # letters by which "directed" is a word of "who is the director"

PlaceKey = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question's aspects: its terms, the names in it, the words that are neither, what it wants, its vector."""

    text: str
    terms: frozenset[str]
    words: Words
    kind: Kind
    wanted: Wanted | None
    vector: FloatArray | None

    @classmethod
    def of(cls, question: str, vector: FloatArray | None) -> Asked:
        return cls(
            question, content_terms(question), words_of(question), kind_of(question), wanted_by(question), vector
        )

    def relations(self, names: Iterable[Mention]) -> frozenset[str]:
        """Beginnings of the words that say what is asked of the things named: "director", "born"."""
        named = {i for mention in names for i in range(mention.first, mention.last)}
        words = (word for i, word in enumerate(self.words.folded) if i not in named)
        return frozenset(word[:PREFIX] for word in words if len(word) > 3 and word not in STOP_WORDS)


class Item(NamedTuple):
    """A candidate: one sentence in its leaf. `end` is where the next one begins."""

    leaf: LeafSentences
    sentence: Sentence
    end: int
    text: str
    terms: frozenset[str]  # those of the question
    number: int  # position in the leaf

    @property
    def place(self) -> PlaceKey:
        return self.leaf.doc_id, self.leaf.headings

    @property
    def span(self) -> Span:
        return Span(self.leaf.doc_id, self.sentence.start, self.sentence.end)

    @property
    def fragment(self) -> Fragment:
        leaf, start = self.leaf, self.sentence.start
        text = leaf.text[start - leaf.start : self.end - leaf.start]
        return Fragment(leaf.doc_id, leaf.title, leaf.headings, start, self.end, start, text)

    @property
    def opens(self) -> bool:
        """Whether it is the first sentence under its heading, or of its document."""
        return self.number == 0 and (self.leaf.body > self.leaf.start or self.leaf.start == 0)

    @property
    def leans(self) -> bool:
        """Whether it needs the sentence before it; what opens a place has none."""
        return not self.opens and leans(self.text, headed=bool(self.leaf.headings or self.leaf.title))


@dataclass(frozen=True, slots=True)
class Link:
    """A step of a chain: evidence (a candidate) names a place."""

    evidence: int
    name: str
    strength: float
    near: bool


class Pool:
    """Candidates of one question with their features; it grows as hops bring in further leaves."""

    def __init__(self, asked: Asked, scores: Mapping[int, float]) -> None:
        self.asked = asked
        self.scores = scores  # of leaves, by the hybrid search
        self.items: list[Item] = []
        self.leaves: dict[int, PlaceKey] = {}
        self.members: dict[PlaceKey, list[int]] = {}  # candidates by place
        self.named: dict[PlaceKey, str] = {}  # places that the question names
        self.links: dict[PlaceKey, list[Link]] = {}  # places that chains lead to
        self.relevance: FloatArray = np.empty(0, np.float32)
        self._finder = TermFinder(asked.terms)
        self._path_terms: dict[PlaceKey, frozenset[str]] = {}
        self._last: dict[int, int] = {}  # the last candidate of each leaf
        self._weights: dict[str, float] = {}
        self._vectors: list[FloatArray] = []
        self._rows: list[tuple[float, ...]] = []  # features that never change, in the order of OWN

    def add(self, found: Iterable[LeafSentences]) -> None:
        """More leaves, with all their sentences. The first ones settle the weights of the question's terms."""
        fresh = sorted((own for own in found if own.id not in self.leaves), key=lambda own: own.id)
        first = len(self.items)
        for own in fresh:
            self._add(own)
        if not self._weights:
            self._weights = self._term_weights()
        self._rows += map(self._own_features, self.items[first:])

    def _add(self, leaf: LeafSentences) -> None:
        place = leaf.doc_id, leaf.headings
        self.leaves[leaf.id] = place
        if place not in self._path_terms:
            self._path_terms[place] = self._finder.find(" ".join((leaf.title, *leaf.headings)))
        if leaf.vectors is not None:
            self._vectors.append(leaf.vectors)
        members = self.members.setdefault(place, [])
        terms = self._finder.positions(leaf.text)
        ends = [*(sentence.start for sentence in leaf.sentences[1:]), leaf.end]
        for number, (sentence, end) in enumerate(zip(leaf.sentences, ends, strict=True)):
            first, last = sentence.start - leaf.start, sentence.end - leaf.start
            own = frozenset(term for at, term in terms if first <= at < last)
            members.append(len(self.items))
            self.items.append(Item(leaf, sentence, end, leaf.text[first:last], own, number))
            self._last[leaf.id] = len(self.items) - 1

    def before(self, candidate: int) -> int | None:
        """The candidate that stands before this one in its place, where it is in the pool."""
        item = self.items[candidate]
        if item.number > 0:
            return candidate - 1
        last = self._last.get(item.leaf.id - 1)
        return last if last is not None and self.items[last].place == item.place else None

    def vectors(self) -> FloatArray | None:
        """Of all candidates, one row each; None without an embedder."""
        if len(self._vectors) > 1:
            self._vectors = [np.concatenate(self._vectors)]
        return self._vectors[0] if self._vectors else None

    def cosines(self) -> FloatArray:
        """Of all candidates with the question; zeros without an embedder."""
        vectors, question = self.vectors(), self.asked.vector
        if vectors is None or question is None:
            return np.zeros(len(self.items), np.float32)
        cosines: FloatArray = np.einsum("ij,j->i", vectors, question)  # for BLAS, waking its threads would cost more
        return cosines

    def _term_weights(self) -> dict[str, float]:
        """Inverse frequency among the leaves that were found, adding up to 1: what all say does not tell them apart."""
        holding: dict[int, set[str]] = defaultdict(set)
        for item in self.items:
            holding[item.leaf.id] |= self.covered(item)
        counts = Counter(term for terms in holding.values() for term in terms)
        total = len(holding)
        raw = {t: math.log(1 + (total - counts[t] + 0.5) / (counts[t] + 0.5)) for t in sorted(self.asked.terms)}
        return {term: weight / sum(raw.values()) for term, weight in raw.items()}

    def share(self, terms: Iterable[str]) -> float:
        """What these terms are of all that the question asks for."""
        return sum(map(self._weights.__getitem__, terms))

    def covered(self, item: Item) -> frozenset[str]:
        """The question's terms in the sentence and in the headings above it."""
        return item.terms | self._path_terms[item.place]

    def judge(self) -> None:
        """Set `relevance`, shape (candidates,)."""
        z = self.features() @ np.array([WEIGHTS[name] for name in FEATURES], np.float32) + WEIGHTS["bias"]
        self.relevance = 1 / (1 + np.exp(-z))

    def features(self) -> FloatArray:
        """Shape (candidates, features)."""
        if not self.items:
            return np.empty((0, len(FEATURES)), np.float32)
        leaf, terms, path_terms, first, length, offered = np.array(self._rows, np.float32).T
        cosine = self.cosines()
        document, elsewhere = self._spread(leaf)
        columns = {
            "cosine": cosine - cosine.max(),
            "leaf": leaf,
            "terms": terms / max(terms.max(), 1e-6),
            "path_terms": path_terms,
            "document": document,
            "elsewhere": elsewhere,
            "first": first,
            "named": self._best_of_named(terms + cosine),
            "length": length,
            "offers": offered,
            **self._chains(),
        }
        return np.array([columns[name] for name in FEATURES], np.float32).T

    def _own_features(self, item: Item) -> tuple[float, ...]:
        return (
            self.scores.get(item.leaf.id, 0.0),
            self.share(item.terms),
            self.share(self.covered(item)),
            item.opens,
            min(item.sentence.tokens, 100) / 50,
            offers(item.text, self.asked.wanted),
        )

    def _spread(self, leaf: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What was found in each candidate's document, with its own place and without, over the most of all."""
        by_place = np.zeros(len(self.items), np.float32)
        by_document: dict[str, float] = defaultdict(float)
        for (doc_id, _), members in self.members.items():
            by_place[members] = leaf[members].sum()
            by_document[doc_id] += float(leaf[members].sum())
        whole = np.array([by_document[item.leaf.doc_id] for item in self.items], np.float32)
        elsewhere = whole - by_place
        return whole / max(whole.max(), 1e-6), elsewhere / max(elsewhere.max(), 1e-6)

    def _best_of_named(self, scores: FloatArray) -> FloatArray:
        """1 for the best candidate of each place that the question names."""
        marks = np.zeros(len(self.items), np.float32)
        for place in self.named:
            if members := self.members.get(place):
                marks[max(members, key=scores.__getitem__)] = 1
        return marks

    def _chains(self) -> dict[str, FloatArray]:
        columns = {name: np.zeros(len(self.items), np.float32) for name in ("link", "near", "rest")}
        for place, links in self.links.items():
            members = self.members[place]
            columns["link"][members] = max(link.strength for link in links)
            columns["near"][members] = max(link.strength * link.near for link in links)
            lacking = [(link.strength, self.asked.terms - self.covered(self.items[link.evidence])) for link in links]
            for i in members:
                terms = self.items[i].terms
                if terms:
                    columns["rest"][i] = max(strength * self.share(terms & rest) for strength, rest in lacking)
        return columns
