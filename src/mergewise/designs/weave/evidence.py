"""Sentences as evidence for a question: features of each, and the probability that it is needed.

A sentence's relevance is the logistic function of a weighted sum of features in [0, 1] (cosines: [-1, 1]).
`benchmarks/weave.py` fits the weights on the first halves of the question sets.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from math import fsum
from typing import NamedTuple

import numpy as np

from mergewise.assemble.fragments import SectionKey
from mergewise.assemble.sentences import (
    SentenceInLeaf,
    inverse_frequency,
    neutral,
    section_of,
    sentence_cosines,
    sentence_vectors,
)
from mergewise.models.calibration import Calibration, evidence
from mergewise.protocols import FloatArray, IndexReader, IntArray
from mergewise.text.exact import asked_exactly, exact_keys
from mergewise.text.languages import Terms
from mergewise.text.markup import TAG, readable
from mergewise.text.names import Mention, Words, words_of
from mergewise.text.question import (
    AnswerType,
    QuestionType,
    answer_type,
    needs_previous,
    offers,
    question_type,
    telling_words,
)
from mergewise.text.sections import place_of, search_key
from mergewise.text.units import announces
from mergewise.types import Evidence, LeafSentences, frozen

WEIGHTS = {
    "bias": -7.02,
    "cosine": 8.30,  # cosine of the sentence and the question, minus that of the best sentence
    "leaf": 2.30,  # the leaf's score in the hybrid search
    "rank": 0.50,  # 1 / the leaf's rank in the search, if the question names no section
    "terms": 1.03,  # weighted share of the question's terms in the sentence, over the best sentence's share
    "path_terms": 2.45,  # the same share, for sentence, headings, title and the file's place together
    "document": 0.64,  # sum of the search scores of the document's candidates, over that of the best document
    "elsewhere": 1.03,  # the same, without the sentence's own section
    "first": 1.44,  # the sentence opens its section
    "named": 2.07,  # the best sentence of a section that the question names
    "length": 0.38,  # tokens / 50, at most 2
    "offers": 0.81,  # the sentence holds a number, time or place, and the question asks for one
    "link": 3.23,  # strength of the chain that leads here: of the evidence that names this section
    "near": 3.65,  # the same, if the name is next to a word of the question
    "rest": 21.98,  # the same, times the share of the question's terms that the chain lacks and the sentence has
    "onward": 4.20,  # the leaf's score in the second search, if the first did not find it
    "exact": 8.0,  # share of the question's exact names in it, its headings, or the line above, minus that of the best one
}
FEATURES = tuple(WEIGHTS)[1:]
# Weights without vectors, in the order of WEIGHTS: the index has none, or its embedder does not know the question's language.
_BY_TEXT = (-6.7, 0.0, 2.17, 1.43, 1.4, 0.46, 1.97, -0.18, 0.76, 3.0, -0.13, 0.32, 4.43, 3.0, 9.91, 4.22, 8.0)
TEXT_WEIGHTS = dict(zip(WEIGHTS, _BY_TEXT, strict=True))

LEAF, SECTION, DOCUMENT, START, TOKENS = range(5)
"""Rows of `SentencePool.places`."""

_NOTHING = re.compile(rf"{TAG}|:::\s+\w+(?:\.\w+)+(?:\n[ \t]+.*)*")  # a tag, or a directive of mkdocstrings
COMMON = 8  # a name with more definitions is too common to follow
PREFIX = 5  # letters to compare, so that "directed" matches "director"
MENTION = 0.7  # share of an exact name that neither a heading nor the start of a line has
SPREAD = 0.77
"""1 minus the mean cosine of two candidates, by the embedder that the weights were fitted with, measured on the question sets."""


class QuestionAspects(NamedTuple):
    """A question's telling terms, words, kind, wanted type of answer, and vector."""

    text: str
    telling: Terms
    words: Words
    kind: QuestionType
    wanted: AnswerType | None
    vector: FloatArray | None

    @classmethod
    def of(cls, question: str, vector: FloatArray | None, telling: Terms | None = None) -> QuestionAspects:
        kind, wanted, telling = question_type(question), answer_type(question), telling or Terms(question)
        return cls(question, telling, words_of(question, telling.languages), kind, wanted, vector)

    @classmethod
    def read(cls, question: str, reader: IndexReader) -> QuestionAspects:
        """Return the aspects of a question to an index."""
        return cls.of(question, reader.question_vector(question), Terms(question, reader.word_shares(question)))

    @property
    def terms(self) -> frozenset[str]:
        return self.telling.all

    def relations(self, names: Iterable[Mention]) -> frozenset[str]:
        """Return prefixes of the words that ask about the named things ("director", "born"), and of related words."""
        named = {i for mention in names for i in range(mention.first, mention.last)}
        words = [word for i, word in enumerate(self.words.folded) if i not in named]
        asked = [word for word in words if len(word) > 3 and self.telling.within(word)]
        return frozenset(word[:PREFIX] for word in (*asked, *telling_words(asked)))


class Link(NamedTuple):
    """A step of a chain: the candidate `evidence` holds a name, which leads to the section that defines the name.

    `near` is true if the name is next to a word of the question. `gain` is the strength times what the evidence lacks.
    """

    evidence: int
    name: str
    strength: float
    near: bool
    gain: float = 0.0


_NONE: frozenset[str] = frozenset()


def by_score(scores: FloatArray) -> list[int]:
    """Return the positions of the scores, highest first. Ties keep their order."""
    places: list[int] = np.argsort(-scores, kind="stable").tolist()
    return places


class Reranked(NamedTuple):
    """The candidates scored by a reranker, with its logits."""

    asked: list[int]
    logits: FloatArray
    calibration: Calibration | None


@frozen
class PoolSignals:
    """Signals about the candidates of a question from outside of their texts and the first search.

    Attributes:
        named: sections that define a name in the question, with this name.
        links: sections that chains lead to.
        onward: scores of leaves that only the second search found.
        reranked: the reranker's scores, if one was used.
    """

    named: Mapping[SectionKey, str] = field(default_factory=dict)
    links: Mapping[SectionKey, list[Link]] = field(default_factory=dict)
    onward: Mapping[int, float] = field(default_factory=dict)
    reranked: Reranked | None = None


class SentencePool:
    """The sentences that may be selected for one question, numbered in order of arrival. Hops add further leaves.

    `terms`, the columns of `places` and the rows of `fixed` are in the order of `sentences`.
    """

    def __init__(
        self,
        asked: QuestionAspects,
        scores: Mapping[int, float],
        weights: Mapping[str, float] | None = None,
        *,
        rescaled: bool = False,
    ) -> None:
        self.asked = asked
        self._weights = weights
        self.scores = scores  # of leaves, by the hybrid search
        self._ranks = {leaf: n for n, leaf in enumerate(sorted(scores, key=lambda leaf: -scores[leaf]), 1)}
        self.sentences: list[SentenceInLeaf] = []
        self.terms: list[frozenset[str]] = []  # the question's terms in the sentence
        # the same, with the headings above it and the names of its file and folders
        self.covered_terms: list[frozenset[str]] = []
        self.leaves: dict[int, LeafSentences] = {}  # in order of arrival
        self.members: dict[SectionKey, list[int]] = {}  # candidates by section
        # Features that never change: leaf, rank, terms (not yet divided by the best share), path_terms, first, length, offers,
        # exact.
        self.fixed: FloatArray = np.empty((0, 8), np.float32)
        self._names = asked_exactly(asked.text)
        # the longest number in each: a date has its year, and every other way to write a name has all numbers
        self._digits = [max(re.findall(r"\d+", name.key), key=len) for name in self._names]
        self._rescaled = rescaled  # true if the weights were fitted for another embedder
        self._finder = asked.telling.finder()
        self._path_terms: dict[SectionKey, frozenset[str]] = {}
        self._first: dict[int, int] = {}  # the first candidate of each leaf; those of its other sentences follow
        # for candidates that need another one: the leaf of that one, and its number in the leaf
        self.leads: dict[int, tuple[int, int]] = {}
        self._term_weights: dict[str, float] = {}
        # the number of leaves when the value was computed, and the value
        self._vectors: tuple[int, FloatArray | None] = 0, None
        # with the question, NaN for a sentence that is not embedded yet
        self._cosines: FloatArray = np.empty(0, np.float32)
        # LEAF, SECTION, DOCUMENT, START and TOKENS of each candidate; sections and documents are numbered
        self.places: IntArray = np.empty((5, 0), np.int64)
        self._numbers: dict[SectionKey | str, int] = {}
        # the last signals, and the features by them
        self.judged: tuple[PoolSignals | None, FloatArray] = None, self.fixed
        # the candidates as last judged in their place, with the log-odds and features of that judgement
        self.placed: tuple[Candidates | None, tuple[FloatArray, FloatArray]] = None, (self.fixed, self.fixed)

    def __len__(self) -> int:
        return len(self.sentences)

    def add(self, leaves: Iterable[LeafSentences]) -> None:
        """Add leaves with all their sentences. The first call sets the weights of the question's terms."""
        fresh = sorted((leaf for leaf in leaves if leaf.id not in self.leaves), key=lambda leaf: (leaf.doc_id, leaf.id))
        first = len(self.sentences)
        # The text above the leaves of each new section: headings, and the names of files and folders.
        paths = {
            section: " ".join((place_of(section[0]), title, *section[1]))
            for section, title in {section_of(leaf): leaf.title for leaf in fresh}.items()
            if section not in self._path_terms
        }
        places = self._finder.places([*(readable(leaf.text) for leaf in fresh), *paths.values()])
        for section, positions in zip(paths, places[len(fresh) :], strict=True):
            self._path_terms[section] = frozenset([term for _, term in positions])
        for leaf, positions in zip(fresh, places, strict=False):
            self._add(leaf, positions)
        if not self._term_weights:
            # The idf of each term among the known leaves, scaled to sum to 1. A part of a run that none of the leaves holds has
            # no weight: it may span two words.
            held: dict[int, set[str]] = defaultdict(set)
            for (leaf, _), terms in zip(self.sentences, self.covered_terms, strict=True):
                held[leaf.id] |= terms
            counts = Counter(term for terms in held.values() for term in terms)
            parts = self.asked.telling.parts - counts.keys()
            raw = {
                term: 0.0 if term in parts else inverse_frequency(counts[term], len(held))
                for term in sorted(self.asked.terms)
            }
            total = sum(raw.values()) or 1.0
            self._term_weights = {term: weight / total for term, weight in raw.items()}
        if len(self) == first:
            return
        sizes = [len(leaf.sentences) for leaf in fresh]
        of_leaf = [
            (
                leaf.id,
                self._numbers.setdefault(section_of(leaf), len(self._numbers)),
                self._numbers.setdefault(leaf.doc_id, len(self._numbers)),
                self.scores.get(leaf.id, 0.0),
                1 / self._ranks.get(leaf.id, np.inf),
                leaf.body > leaf.start or not leaf.start,
            )
            for leaf in fresh
        ]
        *numbers, scores, ranks, headed = np.repeat(of_leaf, sizes, axis=0).T
        starts, tokens = np.array([(s.start, s.tokens) for leaf in fresh for s in leaf.sentences]).T
        self.places = np.hstack([self.places, np.array([*numbers, starts, tokens], np.int64)])
        self._cosines = np.concatenate([self._cosines, sentence_cosines(fresh, self.asked.vector)])
        # Most sentences hold the same terms as others.
        shares = {held: self.share(held) for held in {*self.terms[first:], *self.covered_terms[first:]}}
        wanted, nothing = self.asked.wanted, np.zeros(len(scores))
        columns = (
            scores,
            ranks,
            [shares[held] for held in self.terms[first:]],
            [shares[held] for held in self.covered_terms[first:]],
            # the first sentence under its heading, or of its document
            headed * (np.diff(numbers[0], prepend=-1) != 0),
            np.minimum(tokens, 100) / 50,
            [offers(sentence.text, wanted) for sentence in self.sentences[first:]] if wanted else nothing,
            [share for leaf in fresh for share in self._exact_shares(leaf)] if self._names else nothing,
        )
        self.fixed = np.concatenate([self.fixed, np.array(columns, np.float32).T])

    def _add(self, leaf: LeafSentences, places: Sequence[tuple[int, str]]) -> None:
        """Add a leaf. `places` are the positions of the question's terms in its text."""
        section = section_of(leaf)
        self.leaves[leaf.id] = leaf
        first, count = len(self.sentences), len(leaf.sentences)
        self.members.setdefault(section, []).extend(range(first, first + count))
        self._first[leaf.id] = first
        for lead in leaf.leads or ():
            self.leads[first + lead.number] = leaf.id - lead.back, lead.of
        self.sentences += [SentenceInLeaf(leaf, number) for number in range(count)]
        terms = [_NONE] * count
        if places:
            bounds = [(sentence.start - leaf.start, sentence.end - leaf.start) for sentence in leaf.sentences]
            terms = [frozenset([term for at, term in places if start <= at < end]) for start, end in bounds]
        self.terms += terms
        above = self._path_terms[section]
        self.covered_terms += [held | above for held in terms] if above else terms

    def _exact_shares(self, leaf: LeafSentences) -> Iterator[float]:
        """Yield, for each sentence of a leaf, the share of the question's exact names that it has.

        Its headings count too, and a line above that begins with an exact name, until a line begins with another one.
        """
        key = search_key(leaf.title, leaf.headings, f"{leaf.doc_id}\n{leaf.text}")
        if key.isascii() and not any(digits in key for digits in self._digits):
            yield from [0.0] * len(leaf.sentences)
            return
        path = exact_keys(search_key(leaf.title, leaf.headings, leaf.doc_id))
        above = _NONE
        for sentence in leaf.sentences:
            text = leaf.text[sentence.start - leaf.start : sentence.end - leaf.start]
            above = exact_keys(text, opening=True) or above
            whole, mentioned = path | above, exact_keys(text)
            yield fsum(max(name.match(whole), MENTION * name.match(mentioned)) for name in self._names) / len(
                self._names
            )

    def at(self, leaf: int, number: int) -> int | None:
        """Return the candidate for sentence `number` of a leaf (counted from the end if negative), or None if it is unknown."""
        size = len(self.leaves[leaf].sentences) if leaf in self.leaves else 0
        return self._first[leaf] + number % size if -size <= number < size else None

    def beside(self, candidate: int, step: int) -> int | None:
        """Return the candidate before (-1) or after (1) this one in its section, or None if it is unknown."""
        sentence = self.sentences[candidate]
        if 0 <= sentence.number + step < len(sentence.leaf.sentences):
            return candidate + step
        found = self.at(self._leaf_beside(sentence.leaf.id, step), min(step, 0))
        return found if found is not None and self.sentences[found].section == sentence.section else None

    def _leaf_beside(self, leaf: int, step: int) -> int:
        """Return the next leaf before or after this one, without known leaves that have no sentences."""
        leaf += step
        while leaf in self.leaves and not self.leaves[leaf].sentences:
            leaf += step
        return leaf

    def bundle(self, candidate: int, *, previous: bool = True) -> tuple[int, ...] | None:
        """Return the candidates to show with this one, itself included, in the order of the text.

        These are its lead, the lead of that one, and, with `previous`, the sentence that its first word points back to. What says
        little without the next one comes with it. Returns None if one of them is unknown.
        """
        chain = [candidate]
        while (lead := self.leads.get(chain[-1])) is not None:
            found = self.at(*lead)
            if found is None:
                return None
            chain.append(found)
        if previous and len(chain) == 1 and self.needs_previous(candidate):
            before = self.beside(candidate, -1)
            chain += [before] if before is not None else []
        announced = [candidate]
        while (following := self._after_announcement(announced[-1])) is not None:
            announced.append(following)
        return (*reversed(chain), *announced[1:])

    def says_nothing(self, candidate: int) -> bool:
        """Return true for a tag or a directive alone, and for a line of front matter that repeats the title."""
        sentence = self.sentences[candidate]
        text = sentence.text
        is_title = text.startswith("title:") and text[6:].strip(" \"'") == sentence.leaf.title
        return is_title or _NOTHING.fullmatch(text) is not None

    def _after_announcement(self, candidate: int) -> int | None:
        """Return the candidate that this one announces: the next one behind tags, unless that needs another one."""
        sentence, above = self.sentences[candidate], [candidate]
        is_open = announces(sentence.text) or self.says_nothing(candidate)
        following = self.beside(candidate, 1) if is_open else None
        while following is not None and self.says_nothing(following):
            above.append(following)
            following = self.beside(following, 1)
        if following is None:
            return None
        lead, kind = self.leads.get(following), sentence.sentence.kind
        if lead is None:
            return following if kind == "prose" else None
        # a label in code, such as "Options:", needs what the code below needs
        is_label = kind == "code" and "\n" not in sentence.text and lead == self.leads.get(candidate)
        return following if is_label or self.at(*lead) in above else None

    def missing(self, among: Iterable[int]) -> list[int]:
        """Return the unknown leaves that hold the leads of these candidates, or what these candidates announce."""
        leaves = []
        for i in among:
            leaf, number = self.sentences[i]
            if i in self.leads:
                leaves.append(self.leads[i][0])
            if number + 1 == len(leaf.sentences) and announces(self.sentences[i].text):
                leaves.append(self._leaf_beside(leaf.id, 1))
        return [leaf for leaf in dict.fromkeys(leaves) if leaf not in self._first]

    def needs_previous(self, candidate: int) -> bool:
        """Return true if it depends on the sentence before it. This never holds for the first sentence of a section."""
        sentence = self.sentences[candidate]
        headed = bool(sentence.leaf.headings or sentence.leaf.title)
        marks = sentence.leaf.leads is None
        return not self.fixed[candidate, 4] and needs_previous(sentence.text, headed, marks=marks)

    def vectors(self) -> FloatArray | None:
        """Return the vectors of all candidates, one row each, or None without an embedder or if no leaf is embedded yet."""
        if self._vectors[0] < len(self.leaves):
            self._vectors = len(self.leaves), sentence_vectors(list(self.leaves.values()))
        return self._vectors[1]

    def compares(self) -> bool:
        """Return true if the question and a candidate have vectors."""
        return not np.isnan(self._cosines).all()

    @property
    def weights(self) -> Mapping[str, float]:
        """The built-in weights, for candidates with or without vectors, replaced by the given ones."""
        own = WEIGHTS if self.compares() else TEXT_WEIGHTS
        return {**own, **self._weights} if self._weights else own

    def cosines(self) -> FloatArray:
        """Return the cosines of all candidates with the question, or zeros without an embedder.

        A sentence that is not embedded yet gets the mean of the others, which is neutral.
        """
        return neutral(self._cosines)

    def cosine_scale(self) -> float:
        """Return the factor that gives the cosines the spread that the weights were fitted for."""
        vectors = self.vectors() if self._rescaled else None
        return 1.0 if vectors is None else scale_to_fitted(vectors)

    def share(self, terms: Iterable[str]) -> float:
        """Return the share of these terms in the question, by weight. `fsum` makes it independent of the order of the terms."""
        return fsum(map(self._term_weights.__getitem__, terms))


@frozen
class Candidates:
    """The candidates of a pool as judged by the signals.

    Attributes:
        relevance: the probability that each is needed, shape (candidates,).
        reranked: the log-odds that the reranker added, by candidate.
    """

    pool: SentencePool
    signals: PoolSignals
    relevance: FloatArray
    reranked: Mapping[int, float] = field(default_factory=dict)

    def best(self, count: int) -> list[int]:
        """Return the `count` most relevant candidates, best first."""
        return by_score(self.relevance)[:count]

    def evidence(self, among: Iterable[int], *, previous: bool = True) -> tuple[Evidence, ...]:
        """Return these candidates as evidence, the most relevant first."""
        pool = self.pool
        cosines = pool.cosines().tolist() if pool.compares() else [None] * len(pool)
        ranked = sorted(among, key=lambda i: -self.relevance[i])
        # the question's terms in all candidates of each document
        held: dict[str, set[str]] = {pool.sentences[i].leaf.doc_id: set() for i in ranked}
        for (doc_id, _), members in pool.members.items():
            if doc_id in held:
                held[doc_id].update(*(pool.covered_terms[i] for i in members))
        found = []
        for i in ranked:
            sentence = pool.sentences[i]
            links = self.signals.links.get(sentence.section)
            lead = max(links, key=lambda link: link.strength).evidence if links else None
            led = pool.covered_terms[lead] if lead is not None else _NONE
            one = Evidence(
                span=sentence.span,
                text=sentence.text,
                needed=tuple(pool.sentences[j].span for j in pool.bundle(i, previous=previous) or (i,)),
                relevance=float(self.relevance[i]),
                cosine=cosines[i],
                terms=pool.share(pool.terms[i]),
                path_terms=pool.share(pool.covered_terms[i]),
                document_terms=pool.share(held[sentence.leaf.doc_id] | led),
                led_by=pool.sentences[lead].span if lead is not None else None,
                reranked=self.reranked.get(i),
                kind=sentence.sentence.kind,
                exact=float(pool.fixed[[i] if lead is None else [i, lead], -1].max()),
            )
            found.append(one)
        return tuple(found)


def judge(pool: SentencePool, signals: PoolSignals) -> Candidates:
    """Judge the pool by its features, the signals among them, and by the reranker's scores."""
    z, added = log_odds(pool, signals), {}
    if (reranked := signals.reranked) is not None:
        more = np.asarray(evidence(z[reranked.asked], reranked.logits, reranked.calibration), np.float32)
        z[reranked.asked] += more
        added = dict(zip(reranked.asked, more.tolist(), strict=True))
    return Candidates(pool, signals, np.asarray(1 / (1 + np.exp(-z)), np.float32), added)


def scale_to_fitted(vectors: FloatArray) -> float:
    """Return the factor that gives the cosines of these vectors, shape (candidates, dimension), the spread `SPREAD`.

    The vectors of many embedders lie in a narrow cone: all cosines are high and differ little.
    """
    count = len(vectors)
    if count < 2:
        return 1.0
    centre = vectors.mean(axis=0, dtype=np.float64)
    mean_cosine = (count * float(centre @ centre) - 1) / (count - 1)
    return SPREAD / max(1 - mean_cosine, 1e-3)


def log_odds(pool: SentencePool, signals: PoolSignals) -> FloatArray:
    """Return the log-odds that each candidate is needed, by its features alone, shape (candidates,)."""
    weights = pool.weights
    z = features_of(pool, signals) @ np.array([weights[name] for name in FEATURES], np.float32) + weights["bias"]
    return np.asarray(z, np.float32)


def features_of(pool: SentencePool, signals: PoolSignals) -> FloatArray:
    """Return the features, shape (candidates, features)."""
    if not pool.sentences:
        return np.empty((0, len(FEATURES)), np.float32)
    known, features = pool.judged
    if known is signals and len(features) == len(pool):
        return features
    leaf, rank, terms, path_terms, first, length, offered, exact = pool.fixed.T
    cosine = pool.cosines() * np.float32(pool.cosine_scale())
    sections, documents = pool.places[[SECTION, DOCUMENT]]
    document = np.bincount(documents, leaf)[documents].astype(np.float32)
    elsewhere = document - np.bincount(sections, leaf)[sections].astype(np.float32)
    scores, named = terms + cosine, np.zeros(len(pool), np.float32)
    for section in signals.named:
        if members := pool.members.get(section):
            named[max(members, key=scores.__getitem__)] = 1
    onward = np.zeros(len(pool), np.float32)
    if signals.onward:
        onward[:] = [signals.onward.get(leaf, 0.0) for leaf in pool.places[LEAF].tolist()]
    link, near, rest, led = np.zeros((4, len(pool)), np.float32)
    for section, group in signals.links.items():
        members = pool.members[section]
        link[members] = max(one.strength for one in group)
        # evidence with an exact name leads to what it names
        led[members] = max(exact[one.evidence] for one in group)
        near[members] = max(one.strength * one.near for one in group)
        lacking = [(one.strength, pool.asked.terms - pool.covered_terms[one.evidence]) for one in group]
        for i in members:
            if held := pool.terms[i]:
                rest[i] = max(strength * pool.share(held & lacked) for strength, lacked in lacking)
    columns = {
        "cosine": cosine - cosine.max(),
        "leaf": leaf,
        "rank": rank * (not signals.named),
        "terms": terms / max(terms.max(), 1e-6),
        "path_terms": path_terms,
        "document": document / max(document.max(), 1e-6),
        "elsewhere": elsewhere / max(elsewhere.max(), 1e-6),
        "first": first,
        "named": named,
        "length": length,
        "offers": offered,
        "link": link,
        "near": near,
        "rest": rest,
        "onward": onward,
        "exact": np.maximum(exact, led) - exact.max(initial=0),
    }
    pool.judged = signals, np.array([columns[name] for name in FEATURES], np.float32).T
    return pool.judged[1]
