"""Paragraphs of a document that statements are held to: which of their sentences support one, and what they do not hold of it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

from mergewise.designs.mrag.grounding.denial import DENIES, OPPOSED, clauses, says_no
from mergewise.designs.mrag.grounding.figures import Figure, dates, figures, holds_date, known_figures, roman
from mergewise.designs.mrag.grounding.written import (
    ENGLISH,
    TOKEN,
    Word,
    folded,
    forms,
    initials,
    is_german,
    is_marked,
    is_plain,
    is_strange,
    root,
    touch,
    words_of,
)
from mergewise.text.alignment import words
from mergewise.text.markup import readable
from mergewise.text.sentences import split_sentences
from mergewise.text.spans import Part
from mergewise.text.statements import ENOUGH, Said, covering, holds_quotation, in_order, quotations_in
from mergewise.text.terms import STOP_WORDS, content_terms

FlagKind: TypeAlias = Literal["number", "date", "name", "quotation", "negation", "opposite", "clause"]


class Flag(NamedTuple):
    """What the paragraphs do not hold of a sentence."""

    kind: FlagKind
    text: str


class Judgement(NamedTuple):
    """The places (start, end) of the document that a statement rests on, none where it has no support; what is wrong with it."""

    support: tuple[Part, ...]
    flagged: tuple[Flag, ...] = ()


class Paragraphs:
    """The paragraphs of one value, read once."""

    def __init__(self, paragraphs: Sequence[Part], text: str, path: str) -> None:
        self.text = text
        parts = _apart((max(0, start), min(end, len(text))) for start, end in paragraphs)
        self._spans = [span for start, end in parts for span in _sentences(text, start, end)]
        plain = [_plain(text, start, end) for start, end in self._spans]
        self._said = [Said(_known_terms(sentence), says_no(sentence)) for sentence in plain]
        self._clauses = [
            (Said(_terms(clause), says_no(clause)), DENIES.search(clause) is not None)
            for sentence in plain
            for clause in clauses(sentence)
        ]
        self._held = [frozenset(folded(word.text) for word in words_of(sentence)) for sentence in plain]
        self._above = frozenset(folded(word.text) for word in words_of(path))
        self._path = _known_terms(path)
        self._all = self._path.union(*(sentence.terms for sentence in self._said))
        self._names = self._above.union(*self._held)
        self._vocabulary = self._names | _stems(" ".join([*plain, path]))
        self._small = frozenset(w.text for said in (*plain, path) for w in words_of(said) if w.text.islower())
        self._short = initials([*plain, path])
        self._demonyms = frozenset(filter(None, map(root, self._names)))
        self._exact = frozenset(word.text for said in (*plain, path) for word in words_of(said))
        written = [*(text[start:end] for start, end in parts), path]
        self._numbers = frozenset[str]().union(*map(known_figures, written))
        self._dates = [mention for part in written for mention in dates(part)]
        self._parts = parts
        self._orders = [_Order(text, parts), _Order(_readable_parts(text, parts), parts)]
        self._texts = [order.text for order in self._orders]
        self._german = is_german(" ".join(plain))

    # -- one statement

    def judge(self, stated: str) -> Judgement:
        """Whether the paragraphs support the sentence, and where."""
        copied = self._copied(stated)
        if copied is not None:
            return Judgement(copied)
        plain = readable(stated)
        if not words(plain):
            return Judgement(self._verbatim(stated))  # a rule, a dash
        wanted = self._wanted(plain)
        left, chosen = self._support(wanted)
        flags = tuple(dict.fromkeys(self._flags(plain, wanted, chosen)))
        enough = wanted and len(left) <= (1 - ENOUGH) * len(wanted)
        return Judgement(tuple(self._spans[i] for i in chosen) if enough and not flags else (), flags)

    def _verbatim(self, stated: str) -> tuple[Part, ...]:
        """The first place where these characters stand."""
        for start, end in self._parts:
            if (at := self.text.find(stated, start, end)) >= 0:
                return ((at, at + len(stated)),)
        return ()

    def _copied(self, stated: str) -> tuple[Part, ...] | None:
        """The sentences that hold these words in this order."""
        said = forms(stated)
        if not said:
            return None
        for order in self._orders:
            if (found := order.find(said)) is not None:
                return tuple(s for s in self._spans if any(s[0] < end and start < s[1] for start, end in found))
        return None

    def _support(self, wanted: frozenset[str]) -> tuple[frozenset[str], list[int]]:
        left, chosen = covering(wanted, self._said)
        return left - self._path, chosen

    def _wanted(self, stated: str) -> frozenset[str]:
        """The terms of a statement; of a figure that can be read in several ways, the one that the paragraphs know."""
        found = figures(stated)
        read = (min(figure.readings or figure.parts, key=lambda r: (r not in self._numbers, r)) for figure in found)
        return _terms(_without(stated, found)).union(f"#{reading}" for reading in read)

    def _flags(self, stated: str, wanted: frozenset[str], chosen: Sequence[int]) -> Iterator[Flag]:
        yield from self._wrong_figures(stated)
        yield from self._wrong_names(stated)
        for _, _, quotation in quotations_in(stated):
            if not holds_quotation(quotation, self._texts):
                yield Flag("quotation", quotation)
        yield from self._turned(stated, wanted, chosen)
        for clause in clauses(stated):
            said = self._wanted(clause)
            if len(said) > 1 and said.isdisjoint(self._all):
                yield Flag("clause", clause.strip())

    def _wrong_figures(self, stated: str) -> Iterator[Flag]:
        mentions = dates(stated)
        for mention in mentions:
            if not holds_date(mention, self._dates, self._numbers):
                yield Flag("date", stated[mention.start : mention.end])
        for figure in figures(stated):
            dated = any(mention.start <= figure.start < mention.end for mention in mentions)
            if not dated and not figure.held_by(self._numbers):
                yield Flag("number", stated[figure.start : figure.end])

    # -- names

    def _wrong_names(self, stated: str) -> Iterator[Flag]:
        dated = [(mention.start, mention.end) for mention in dates(stated)]
        named = [
            word
            for word in words_of(stated)
            if is_marked(word.text) and not any(start <= word.start < end for start, end in dated)
        ]
        german = is_german(stated) or (self._german and ENGLISH.search(stated) is None)
        for number, word in enumerate(named):
            after = named[number + 1] if number + 1 < len(named) else None
            before = named[number - 1] if number else None
            beside = [
                other
                for other in (before, after)
                if other is not None and touch(stated, word, other) and not (other.opens and is_plain(other.text))
            ]
            if not self._has(word) and (
                not german or is_strange(word.text) or any(not self._has(other) for other in beside)
            ):
                yield Flag("name", word.text)
            elif after in beside and after is not None and not german and not self._together(word, after):
                yield Flag("name", stated[word.start : after.end])

    def _has(self, word: Word) -> bool:
        form = folded(word.text)
        if form in STOP_WORDS and len(word.text) > 1 and word.text.isupper():  # WHO, US
            return word.text in self._exact or word.text in self._short
        if form in STOP_WORDS or (word.opens and is_plain(word.text)):
            return True
        if form in self._vocabulary or _stems(word.text) <= self._vocabulary or word.text in self._short:
            return True
        number = roman(word.text)
        return (number > 0 and str(number) in self._numbers) or (root(form) or form) in self._demonyms

    def _together(self, first: Word, second: Word) -> bool:
        """Whether two names that stand side by side may be one: a sentence has both, or one of them is an ordinary word there."""
        names = [folded(word.text) for word in (first, second)]
        if any(name in self._small or name not in self._names for name in names):
            return True
        return any(held.issuperset(names) for held in (*self._held, self._above))

    # -- meaning turned around

    def _turned(self, stated: str, wanted: frozenset[str], chosen: Sequence[int]) -> Iterator[Flag]:
        if says_no(stated) and not any(self._said[i].negates or self._denies(i) for i in chosen):
            yield Flag("negation", stated)
        for clause in (clause for clause in clauses(stated) if len(_terms(clause)) > 1):
            if self._differs_in_no(clause, DENIES.search(stated) is not None):
                yield Flag("negation", clause.strip())
        held = frozenset[str]().union(*(self._said[i].terms for i in chosen))
        for here, there in OPPOSED:
            if wanted & here and not wanted & there and held & there and not held & here:
                yield Flag("opposite", " ".join(sorted(wanted & here)))

    def _denies(self, number: int) -> bool:
        return DENIES.search(_plain(self.text, *self._spans[number])) is not None

    def _differs_in_no(self, clause: str, denied: bool) -> bool:
        """Whether the clauses of the paragraphs that hold most of this one, names aside, say no where it does not, or do not
        where it does. A word such as "failed", in the statement or in them, may say no in another way."""
        ordinary = [w.text for w in words_of(clause) if not is_marked(w.text) or w.text.lower() in self._small]
        wanted = _terms(" ".join(ordinary)) - self._path
        shared = [(len(wanted & said.terms), said.negates, denies) for said, denies in self._clauses]
        most = max((count for count, _, _ in shared), default=0)
        if most <= ENOUGH * len(wanted):
            return False
        best = [(no, denies) for count, no, denies in shared if count == most]
        if says_no(clause):
            return not any(no or denies for no, denies in best)
        return not denied and all(no for no, _ in best)

    # -- what stands for a sentence without support

    def nearest(self, stated: str) -> Part | None:
        """The sentence that shares most with the stated one, by the root of its length; None where none shares anything."""
        stated_terms = self._wanted(readable(stated))
        wanted = stated_terms - self._path or stated_terms
        best, most = None, 0.0
        for span, said in zip(self._spans, self._said, strict=True):
            near = len(wanted & said.terms) / max(1, len(said.terms)) ** 0.5
            if near > most and not self._is_torn(span):
                best, most = span, near
        return best

    def _is_torn(self, span: Part) -> bool:
        """Whether an edge of the paragraphs cuts the sentence."""
        before, after = self.text[: span[0]][-_NEAR:], self.text[span[1] :][:_NEAR]
        cut = any(span[0] == start for start, _ in self._parts) and _goes_on(before, "")
        return cut or (
            any(span[1] == end for _, end in self._parts)
            and bool(after.strip())
            and _goes_on(self.text[span[1] - 1], after)
        )


def _goes_on(before: str, after: str) -> bool:
    """Whether a sentence goes on between the two: no stop, and no end of a line."""
    before, gap = before.rstrip(), before[len(before.rstrip()) :]
    gap += after[: len(after) - len(after.lstrip())]
    return bool(before) and before[-1] not in _STOPS and "\n" not in gap


_NEAR = 80  # characters
_STOPS = frozenset(".!?:;…。！？：；\"”')]»*_`|>-")


def _apart(parts: Iterable[Part]) -> list[Part]:
    """The parts that are not empty, in order; what overlaps is one, what only touches is not."""
    apart: list[Part] = []
    for start, end in sorted(part for part in parts if part[0] < part[1]):
        if apart and start < apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        else:
            apart.append((start, end))
    return apart


def _readable_parts(text: str, parts: Sequence[Part]) -> str:
    """The text, of which these parts are read without their mark-up."""
    pieces, at = [], 0
    for start, end in parts:
        pieces += [text[at:start], readable(text[start:end])]
        at = end
    return "".join([*pieces, text[at:]])


def _sentences(text: str, start: int, end: int) -> list[Part]:
    return [(start + a, start + b) for a, b in split_sentences(text[start:end])]


def _plain(text: str, start: int, end: int) -> str:
    return readable(text[start:end])


# -- words in order

_UNSPACED = re.compile(r"[぀-ヿ㐀-鿿가-힯]{2,}")  # characters are words or parts of words
_RUN_ON = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]{3,}")  # Thai and others, written without spaces


class _Order:
    """The words of the paragraphs in their order, with the offsets at which they stand."""

    def __init__(self, text: str, parts: Sequence[Part]) -> None:
        found = [
            (form, match.start(), match.end())
            for start, end in parts
            for match in TOKEN.finditer(text, start, end)
            for form in words(match[0])
        ]
        self.text = in_order([form for form, _, _ in found])
        self._places = [(start, end) for _, start, end in found]
        self._offsets = [0, *accumulate(len(form) + 1 for form, _, _ in found)]

    def find(self, said: Sequence[str]) -> list[Part] | None:
        """Where these words stand one after the other."""
        at = self.text.find(in_order(said))
        if at < 0:
            return None
        first = bisect_right(self._offsets, at) - 1
        return self._places[first : first + len(said)]


def _terms(text: str) -> frozenset[str]:
    """Content terms; where words have no spaces between them, pairs of characters too, or threes of an alphabet's."""
    found = content_terms(_RUN_ON.sub(" ", text))
    if text.isascii():
        return found
    pairs = (run[i : i + 2] for run in _UNSPACED.findall(text) for i in range(len(run) - 1))
    threes = (run[i : i + 3] for run in _RUN_ON.findall(text) for i in range(len(run) - 2))
    return found.union(pairs, threes)


def _known_terms(text: str) -> frozenset[str]:
    """The terms of a sentence of the paragraphs: its figures in every form."""
    return _terms(_without(text, figures(text))).union(f"#{reading}" for reading in known_figures(text))


def _without(text: str, found: Sequence[Figure]) -> str:
    """The text without its figures."""
    bounds = [0, *(edge for figure in found for edge in (figure.start, figure.end)), len(text)]
    return " ".join(text[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True))


def _stems(text: str) -> frozenset[str]:
    return content_terms(" ".join(TOKEN.findall(text)))
