"""The content of a source for the judge: sentences and clauses, names, numbers and dates, and words in order.

A source is read once. A statement may be judged by several sources together.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, NamedTuple

from mergewise.text.alignment import TOKEN, words
from mergewise.text.markup import readable
from mergewise.text.sentences import split_sentences
from mergewise.text.spans import indent_of, texts_at
from mergewise.text.support.denial import clauses, says_no
from mergewise.text.support.figures import DateMention, Figure, dates, figures, known_figures
from mergewise.text.support.names import (
    PlacedWord,
    base_form,
    counts_as_german,
    german_words,
    in_order,
    initials,
    placed_words,
    root,
)
from mergewise.text.terms import content_terms
from mergewise.types import Part, frozen

_UNSPACED = re.compile(r"[぀-ヿ㐀-鿿가-힯]{2,}")  # characters that are words or parts of words
_RUN_ON = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]{3,}")  # Thai and others, written without spaces
_NEAR = 80  # characters
_STOPS = frozenset(".!?:;…。！？：；\"”')]»*_`|>-")


class Extract(NamedTuple):
    """The part `text[start:end]` of a text, by which a statement is judged."""

    text: str
    start: int
    end: int

    def find(self, stated: str) -> Part | None:
        """Return the first place of these characters."""
        at = self.text.find(stated, self.start, self.end)
        return (at, at + len(stated)) if stated and at >= 0 else None

    def cuts(self, start: int, end: int) -> bool:
        """Return true if an edge of the extract cuts the sentence at these offsets."""
        before, after = self.text[:start][-_NEAR:], self.text[end:][:_NEAR]
        cut_before = start == self.start and _goes_on(before, "")
        return cut_before or (end == self.end and bool(after.strip()) and _goes_on(self.text[end - 1], after))


def _goes_on(before: str, after: str) -> bool:
    """Return true if a sentence continues between the two: no stop and no end of a line."""
    before, gap = before.rstrip(), before[len(before.rstrip()) :]
    gap += after[: indent_of(after)]
    return bool(before) and before[-1] not in _STOPS and "\n" not in gap


@frozen
class SourceClause:
    """A clause of a source, without mark-up."""

    text: str
    terms: frozenset[str]
    negates: bool


@frozen
class KnownSentence(SourceClause):
    """A sentence of a source at `place`. `cut` is true if an edge of its extract cuts it."""

    place: Part
    forms: frozenset[str]  # normalised words
    cut: bool


@dataclass(frozen=True)
class ReadSource:
    """The content of a source, or of several `together`, in which each field is the union of the sources' fields."""

    extracts: tuple[Extract, ...]
    sentences: tuple[KnownSentence, ...]
    clauses: tuple[SourceClause, ...]
    dates: tuple[DateMention, ...]
    words: tuple[PlacedWord, ...]
    readable_words: tuple[PlacedWord, ...]
    # Titles with their headings: their words in order, and the forms of these words.
    paths: tuple[str, ...]
    path_forms: tuple[frozenset[str], ...]
    path_terms: frozenset[str]
    numbers: frozenset[str]
    stems: frozenset[str]
    exact: frozenset[str]  # words as written
    initials: frozenset[str]
    german: tuple[Part, ...]

    @classmethod
    def of(cls, extracts: Sequence[Extract], path: str) -> ReadSource:
        sentences: list[KnownSentence] = []
        for extract in extracts:
            for a, b in split_sentences(extract.text[extract.start : extract.end]):
                start, end = extract.start + a, extract.start + b
                shown, cut = readable(extract.text[start:end]), extract.cuts(start, end)
                known = known_terms(shown), says_no(shown), (start, end), _forms(shown), cut
                sentences.append(KnownSentence(shown, *known))
        plain = [*(sentence.text for sentence in sentences), path]
        raw = [text[start:end] for text, start, end in extracts]
        starts = [extract.start for extract in extracts]
        placed = [placed_words(text, start) for text, start in zip(raw, starts, strict=True)]
        blanked = [
            of_raw if (shown := readable(text)) == text else placed_words(shown, start)
            for text, start, of_raw in zip(raw, starts, placed, strict=True)
        ]
        return cls(
            extracts=tuple(extracts),
            sentences=tuple(sentences),
            clauses=tuple(SourceClause(c, terms_of(c), says_no(c)) for s in sentences for c in clauses(s.text)),
            dates=tuple(mention for text in (*raw, path) for mention in dates(text)),
            words=tuple(chain.from_iterable(placed)),
            readable_words=tuple(chain.from_iterable(blanked)),
            paths=(in_order(words(path)),),
            path_forms=(_forms(path),),
            path_terms=known_terms(path),
            numbers=frozenset[str]().union(*map(known_figures, (*raw, path))),
            stems=stems(" ".join(plain)),
            exact=frozenset(word for text in plain for word in TOKEN.findall(text)),
            initials=initials(plain),
            german=(german_words(" ".join(plain[:-1])),),
        )

    @classmethod
    def together(cls, sources: Sequence[ReadSource]) -> ReadSource:
        united: list[Any] = []
        for field in fields(cls):
            column = [getattr(source, field.name) for source in sources or [cls.of([], "")]]
            sets = isinstance(column[0], frozenset)
            united.append(frozenset().union(*column) if sets else tuple(chain.from_iterable(column)))
        return cls(*united)

    @cached_property
    def terms(self) -> frozenset[str]:
        return self.path_terms.union(*(sentence.terms for sentence in self.sentences))

    @cached_property
    def names(self) -> frozenset[str]:
        """The forms of all words."""
        return frozenset[str]().union(*self.path_forms, *(sentence.forms for sentence in self.sentences))

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        return self.names | self.stems

    @cached_property
    def ordinary(self) -> frozenset[str]:
        """The words that occur somewhere without a capital."""
        return frozenset(filter(str.islower, self.exact))

    @cached_property
    def demonyms(self) -> frozenset[str]:
        """The common parts of names of countries and of their people."""
        return frozenset(filter(None, map(root, self.names)))

    @cached_property
    def is_german(self) -> bool:
        return counts_as_german(sum(count for count, _ in self.german), sum(german for _, german in self.german))

    @cached_property
    def orders(self) -> list[WordOrder]:
        """The words in order, as written and without mark-up."""
        return [WordOrder(self.words), WordOrder(self.readable_words)]

    @cached_property
    def texts(self) -> list[str]:
        """The words in order, and those of titles and headings, for looking up quotations."""
        return [*(order.text for order in self.orders), *self.paths]

    def places_of(self, forms: Sequence[str]) -> list[Part] | None:
        """Return the places of the sentences that hold these words in this order, or None if there are none."""
        for order in self.orders:
            if (places := order.find(forms)) is not None:
                sentences = (sentence.place for sentence in self.sentences)
                return [s for s in sentences if any(s[0] < end and start < s[1] for start, end in places)]
        return None


def _forms(text: str) -> frozenset[str]:
    return frozenset(map(base_form, TOKEN.findall(text)))


class WordOrder:
    """Words in order, with their offsets."""

    def __init__(self, placed: Sequence[PlacedWord]) -> None:
        self.text = in_order([word.form for word in placed])
        self._places = [(word.start, word.end) for word in placed]
        self._offsets = [0, *accumulate(len(word.form) + 1 for word in placed)]

    def find(self, forms: Sequence[str]) -> list[Part] | None:
        """Return the places of these words in a row, or None."""
        at = self.text.find(in_order(forms))
        if at < 0:
            return None
        first = bisect_right(self._offsets, at) - 1
        return self._places[first : first + len(forms)]


# -- terms


def terms_of(text: str) -> frozenset[str]:
    """Return the content terms. Scripts without spaces also give pairs of characters, or runs of three for alphabets."""
    terms = content_terms(_RUN_ON.sub(" ", text))
    if text.isascii():
        return terms
    pairs = (run[i : i + 2] for run in _UNSPACED.findall(text) for i in range(len(run) - 1))
    threes = (run[i : i + 3] for run in _RUN_ON.findall(text) for i in range(len(run) - 2))
    return terms.union(pairs, threes)


def known_terms(text: str) -> frozenset[str]:
    """Return the terms of a source's sentence, with its figures in every form."""
    return terms_of(without_figures(text, figures(text))).union(f"#{reading}" for reading in known_figures(text))


def without_figures(text: str, found: Sequence[Figure]) -> str:
    bounds = [0, *(edge for figure in found for edge in (figure.start, figure.end)), len(text)]
    return " ".join(texts_at(text, zip(bounds[::2], bounds[1::2], strict=True)))


def stems(text: str) -> frozenset[str]:
    return content_terms(" ".join(TOKEN.findall(text)))
