"""Terms of a question by the rules of its languages, and the texts that hold them.

A term of a script with spaces is the stem of a word. Scripts without spaces give pairs of characters, or runs of three (Thai).
A term in a third of an index's leaves says nothing, and neither does a typical word of the language. English has rules of its
own (`text.terms`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import TypeAlias

from mergewise.text.languages.analysis import WORD, grams, lower_case, pieces, stem
from mergewise.text.languages.detection import ENGLISH
from mergewise.text.languages.table import language_of
from mergewise.text.spans import texts_at
from mergewise.text.terms import TermFinder, composed, english_terms
from mergewise.types import Part

COMMON = 1 / 3  # share of leaves from which a term says nothing
BEGINNING = 4  # letters of a word that may begin another one
AFFIX = 2  # letters of a part before or after an apostrophe that says nothing
# signs between words that identifiers join, and a letter after the Latin ones
_GAPS, _LATIN_END = ("", " ", "_", "-"), "\u0250"

_HAN = r"㐀-䶿一-鿿\uf900-\ufaff"
_KATA, _HIRA, _HANGUL = "゠-ヿㇰ-ㇿ", "ぁ-ゟ", "가-힣"
# A part of a word. A pair that spans two scripts is none, and hiragana is a particle unless it may end a verb or an adjective.
_PART = re.compile(
    rf"[{_HAN}](?![をはがのにへとでも])[{_HAN}{_HIRA}]?|[{_KATA}]+|[{_HANGUL}]+|[^{_HAN}{_KATA}{_HIRA}{_HANGUL}]+"
)


TermPlace: TypeAlias = tuple[int, int, tuple[str, ...]]
"""The start and the end of a term in a text, and its forms. The first form stands for the term."""


class Terms:
    """The telling terms of a question.

    Args:
        question: The question.
        shares: Languages that it may be in (English if empty), with the share of leaves that hold each form of a word.
    """

    def __init__(self, question: str, shares: Mapping[str, Mapping[str, float]] | None = None) -> None:
        self.question = question = composed(question)[0]
        self.languages = tuple(shares or ())
        self._languages = self.languages if set(self.languages) - {ENGLISH} else ()
        self._common = {form for known in (shares or {}).values() for form, share in known.items() if share >= COMMON}
        self._places = self._telling(question)
        self.all = frozenset(term for _, _, (term, *_) in self._places)
        # words in camelCase, whose parts are terms, too, and parts of runs in scripts without spaces: most that span two words
        # are in no text
        parts = (term for term in self.all if self._languages and not _word().match(term))
        whole = (one[2][0] for one, other in pairwise(self._places) if other[0] < one[1])
        self.parts = frozenset([*parts, *whole])

    def within(self, text: str) -> frozenset[str]:
        """Return the telling terms of another text by the same rules."""
        return frozenset(term for _, _, (term, *_) in self._telling(text))

    def spellings(self, terms: Collection[str]) -> list[str]:
        """Return some of the terms as the question spells them, in its order. Characters that follow each other are joined."""
        runs: list[Part] = []
        for start, end, (term, *_) in self._places:
            if term in terms:
                runs.append((runs.pop()[0] if runs and start < runs[-1][1] else start, end))
        return list(dict.fromkeys(texts_at(self.question, runs)))

    def joined_words(self) -> dict[str, tuple[str, ...]]:
        """Map two or three adjacent words, written as one, to their terms: "maxretries" for "max retries" and `max_retries`."""
        joined = {}
        for size in 2, 3:
            for run in zip(*(self._places[at:] for at in range(size)), strict=False):
                word = "".join(self.question[start:end] for start, end, _ in run).lower()
                is_one = all(
                    one[1] <= other[0] and self.question[one[1] : other[0]] in _GAPS for one, other in pairwise(run)
                )
                if is_one and max(word) < _LATIN_END:
                    joined[word] = tuple(term for _, _, (term, *_) in run)
        return joined

    def finder(self) -> TermFinder | FormFinder:
        """Return a search for the terms in texts. A word that joins some, as identifiers do, has them all."""
        terms: dict[str, tuple[str, ...]] = {form: forms[:1] for _, _, forms in self._places for form in forms}
        for word, own in self.joined_words().items():
            for form in (form for _, _, forms in self._telling(word) for form in forms):
                terms[form] = terms.get(form, ()) + own
        return FormFinder(terms, self._languages) if self._languages else TermFinder(terms)

    def held(self, texts: Sequence[str]) -> list[frozenset[str]]:
        """Return the terms that each of the texts has."""
        return [frozenset(term for _, term in places) for places in self.finder().places(texts)]

    def _telling(self, text: str) -> list[TermPlace]:
        if not self._languages:
            return [(start, end, (term,)) for start, end, term in english_terms(text)]
        return [place for place in term_places(text, self._languages) if self._common.isdisjoint(place[2])]


class FormFinder:
    """A search for terms in texts by the forms of their words, as `TermFinder` is for English.

    A term that none of the first texts holds is found where its word begins a longer one, or the other way round: a part of a
    compound, or another inflection.
    """

    def __init__(self, terms: Mapping[str, tuple[str, ...]], languages: tuple[str, ...]) -> None:
        self._terms, self._languages = terms, languages
        self._parts = [form for form in terms if not _word().match(form)]
        self._met: dict[str, tuple[str, ...]] = {}  # the terms of each word seen so far
        self._unmet: Collection[str] | None = None  # the forms that none of the first texts holds

    def places(self, texts: Sequence[str]) -> list[list[tuple[int, str]]]:
        """Return, for each text, the offsets of the terms, with the term: words, then parts of runs."""
        texts, offsets = zip(*map(composed, texts), strict=True) if texts else ((), ())
        matches = [list(_word().finditer(text)) for text in texts]
        words = {match[0] for of_text in matches for match in of_text} - self._met.keys()
        if self._unmet is None:
            asked = self._terms.keys() & {form for word in words for form in term_forms(word, self._languages)}
            met = {term for form in asked for term in self._terms[form]}
            self._unmet = [form for form in self._terms.keys() - self._parts if met.isdisjoint(self._terms[form])]
        for word in words:
            forms = term_forms(word, self._languages)
            same = [form for form in forms if form in self._terms]
            same = same or [unmet for unmet in self._unmet for form in forms if begins(unmet, form)]
            self._met[word] = tuple(dict.fromkeys(term for form in same for term in self._terms[form]))
        found: list[list[tuple[int, str]]] = []
        for text, places, own in zip(texts, offsets, matches, strict=True):
            known = ((match, terms) for match in own if (terms := self._met[match[0]]))
            held = [
                (match.start(), term)
                for match, terms in known
                if not _is_affix(text, match.start(), match[0], self._languages)
                for term in terms
            ]
            for part in self._parts if not text.isascii() else ():
                at = -1
                while (at := text.find(part, at + 1)) >= 0:
                    held.append((at, self._terms[part][0]))
            found.append([(places[at], term) for at, term in held])
        return found


def term_places(text: str, languages: tuple[str, ...]) -> Iterator[TermPlace]:
    """Yield the terms of a text, without typical words of the languages."""
    for start, piece, size in pieces(text):
        if size:
            for at, gram in enumerate(grams(piece, size) or [piece], start):
                if _PART.fullmatch(gram):
                    yield at, at + len(gram), (gram,)
        elif (forms := term_forms(piece, languages)) and not _is_affix(text, start, piece, languages):
            yield start, start + len(piece), forms


def shares_of_forms(texts: Iterable[str], language: str) -> dict[str, float]:
    """Return the share of the texts that hold each form of a word."""
    held = [{forms[0] for _, _, forms in term_places(text, (language,))} for text in texts]
    return {form: count / len(held) for form, count in Counter(form for forms in held for form in forms).items()}


@lru_cache(100_000)
def term_forms(word: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    """Return the stems of a word in each of the languages, or nothing for a typical word of one of them."""
    forms: dict[str, None] = {}
    for language in languages:
        lowered = lower_case(word, language)
        if lowered in language_of(language).words.split():
            return ()
        forms[stem(lowered, language)] = None
    return tuple(form for form in forms if len(form) > 1 or len(word) == 1)


def begins(one: str, other: str) -> bool:
    """Return true if one of the words begins the other, and both are long enough."""
    return min(len(one), len(other)) >= BEGINNING and (one.startswith(other) or other.startswith(one))


@cache
def _word() -> re.Pattern[str]:
    return re.compile(WORD)


def _is_affix(text: str, start: int, word: str, languages: tuple[str, ...]) -> bool:
    """Return true for the ending of a Turkish name, which an apostrophe separates, and for an article as in "l'index"."""
    after = start > 1 and text[start - 1] in "'’" and text[start - 2].isalnum()
    before = text[start + len(word) : start + len(word) + 1] in ("'", "’")
    return (after and "tr" in languages) or ((after or before) and len(word) <= AFFIX)
