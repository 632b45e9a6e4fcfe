"""Names that sections define, and their mentions in other texts.

A name is a run of folded words joined by spaces: lower case, without accents and possessive s. A section defines its heading,
the title of the document that it opens, the subject of its first sentence if the sentence describes the subject ("X is a ..."),
and the other names in it ("known as Y", "(Z)"). The number of a document is a name in each of its spellings: "PEP 8", "pep-0008".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from mergewise.text.terms import LETTERS, STOP_WORDS

LONGEST = 6  # words of a name in running text
LONGEST_TITLE = 12  # words of a title that is a name
# Characters of a first sentence that are searched for other names.
DEFINING = 300

NAME_WORD = rf"{LETTERS}(?:['’.&-]{LETTERS})*"
"""The pattern of a word in a name."""
_WORD = re.compile(NAME_WORD)
_BRACKETS = re.compile(r"\s*\([^()]*\)")
_SMALL = "of|the|de|der|du|von|van|and|da|la|le|el|al|bin|ibn|in|on|for|to|a|&"
_PART = r"[A-Z0-9À-ÖØ-Þ][\w.'’&-]*"
_RUN = rf"{_PART}(?:\s+(?:(?:{_SMALL})\s+)*{_PART})*"
_SUBJECT = re.compile(rf"[\"“'‘`*_]*((?:The\s+|An?\s+)?{_RUN})")
_SAYS_WHAT = re.compile(r"\b(?:is|was|are|were|refers?|means|denotes)\b")
_OTHER = re.compile(
    rf"\b(?:known as|called|nicknamed|abbreviated(?: as| to)?|also|or simply|born|short for)\s+[\"“'‘`*_]*({_RUN})"
)
# the series and the number of a document, alone or before its title
_NUMBERED = re.compile(r"([A-Z]{2,6}|[a-z]{2,6})[ -]?0*(\d{1,6})(?:(?:\s*:|\s+[–—-])\s+(?=\S)|\Z)")
_NUMBERS_ONLY = re.compile(r"[A-Z][\w -]*:\s*\d{1,6}(?:[,\s]+\d{1,6})*(?:\s*\([^()\n]*\))?\s*")
_PADDED = re.compile(r"((?:[a-z]{2,6}-?)?)0+(\d{1,6})")
_SHORT = re.compile(r"\(\s*[\"“'‘]?([A-Z][\w.&-]{1,15})[\"”'’]?\s*\)")


@dataclass(frozen=True, slots=True)
class Words:
    """The folded words of a text, each `marked` if it was written with a capital or a digit."""

    folded: tuple[str, ...]
    marked: tuple[bool, ...]


class Mention(NamedTuple):
    """A name that some section defines, as words `first .. last - 1` of a text."""

    name: str
    first: int
    last: int


def words_of(text: str) -> Words:
    raw = _WORD.findall(text)
    return Words(tuple(_fold(word) for word in raw), tuple(not word[0].islower() for word in raw))


def with_series(field: str, title: str) -> str:
    """Spell out the numbers of a header field: "Obsoletes: 2616" below "RFC 9110: ..." becomes "Obsoletes: RFC 2616"."""
    series = _NUMBERED.match(title) if _NUMBERS_ONLY.fullmatch(field) else None
    return field if series is None else re.sub(r"\d+", rf"{series[1]} \g<0>", field)


def without_accents(word: str) -> str:
    if word.isascii():
        return word
    return "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))


@lru_cache(100_000)
def _fold(word: str) -> str:
    word = without_accents(word.lower())
    if word[-1:].isdecimal():
        padded = _PADDED.fullmatch(word)
        return padded[1] + padded[2] if padded else word
    return word.removesuffix("'s").removesuffix("’s") if word[-1:] == "s" else word


def names_of_title(title: str) -> set[str]:
    """Return the names in a title: as written and without its brackets, each also without its article.

    "RFC 9110: HTTP Semantics" also gives its two parts.
    """
    names = set()
    forms = {title, _BRACKETS.sub("", title)} if "(" in title else {title}
    if numbered := _NUMBERED.match(title):
        forms |= {f"{numbered[1]} {numbered[2]}", title[numbered.end() :]}
    for form in forms:
        words = [_fold(word) for word in _WORD.findall(form)]
        names.add(" ".join(words))
        if len(words) > 1 and words[0] in {"the", "a", "an"}:
            names.add(" ".join(words[1:]))
    return {name for name in names if _is_name(name)}


def names_defined(titles: Sequence[str], first_sentence: str) -> set[str]:
    """Return the names that a section with these titles and this first sentence defines."""
    names = set[str]().union(*map(names_of_title, titles))
    for numbered in filter(None, map(_NUMBERED.match, titles)):
        names |= {f"{numbered[1].lower()}{sign}{numbered[2]}" for sign in ("", "-")}
    if subject := _SUBJECT.match(first_sentence):
        if _SAYS_WHAT.search(first_sentence):
            names |= {name for name in names_of_title(subject[1]) if " " in name.removeprefix("the ")}
        opening = first_sentence[:DEFINING]
        for other in (*_OTHER.finditer(opening), *_SHORT.finditer(opening)):
            names |= names_of_title(other[1])
    return names


def _is_name(name: str) -> bool:
    """Return true unless it is a stop word, a number of few digits, or a whole sentence."""
    words = name.split()
    if len(words) == 1:
        return len(name) > 1 and name not in STOP_WORDS and not (name.isdigit() and len(name) < 4)
    return 0 < len(words) <= LONGEST_TITLE


def possible_names(words: Words, most: int = LONGEST) -> list[tuple[str, int, int]]:
    """Return every run of up to `most` words that could be a name, longest first at each word, as the parts of a `Mention`.

    A single word must be marked: written with a capital or a digit. In a longer run the first and the last word must each be
    marked or not be a stop word, and a run whose first word is not marked has at most three words.
    """
    possible: list[tuple[str, int, int]] = []
    folded, marked = words.folded, words.marked
    count = len(folded)
    ends = [mark or word not in STOP_WORDS for word, mark in zip(folded, marked, strict=True)]
    for first, word in enumerate(folded):
        starts = marked[first]
        if not starts and word in STOP_WORDS:
            continue
        longest = min(count, first + (most if starts else 3))
        for last in range(longest, first + 1, -1):
            if ends[last - 1]:
                possible.append((" ".join(folded[first:last]), first, last))
        if starts and len(word) > 1 and word not in STOP_WORDS:
            possible.append((word, first, first + 1))
    return possible


def mentions(possible: Iterable[tuple[str, int, int]], known: Collection[str]) -> list[Mention]:
    """Return the known ones of the possible names, from left to right. Of overlapping names, the first and longest counts."""
    kept: list[Mention] = []
    position = 0
    for name, first, last in possible:
        if first >= position and name in known:
            kept.append(Mention(name, first, last))
            position = last
    return kept
