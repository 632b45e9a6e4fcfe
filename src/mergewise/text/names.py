"""Names that sections define, and their mentions in other texts.

A name is a run of folded words joined by spaces: lower case, without accents and possessive s. A section defines its heading,
the title of the document that it opens, the subject of its first sentence if the sentence describes the subject ("X is a ..."),
and the other names in it ("known as Y", "(Z)"). The number of a document is a name in each of its spellings: "PEP 8", "pep-0008".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from mergewise.text.terms import DENSE, LETTERS, MARKS, STOP_WORDS, UNSPACED
from mergewise.types import Part

LONGEST = 6  # words of a name in running text
LONGEST_TITLE = 12  # words of a title that is a name
LONGEST_DENSE = 6  # characters of a name in a script without spaces
SURE_DENSE = 4  # characters from which such a name is unlikely to be a part of other words
MOST_NAMES = 500  # possible names of a text
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

_DENSE = re.compile(rf"[々{DENSE}{UNSPACED}]")
# runs of katakana and of hiragana, single other characters, and words of other scripts between them
_UNIT = re.compile(rf"[ァ-ヿㇰ-ㇿ]+|[぀-ゟ]+|[々{DENSE}]|[{UNSPACED}][{MARKS}]*|[^々{DENSE}{UNSPACED}]+|.")
_HIRAGANA = re.compile("[぀-ゟ]")
_SET_OFF = re.compile(
    "|".join(
        rf"{begin}[^{begin}{end}\n]{{1,40}}{end}"
        for begin, end in ("``", "“”", "„“", "«»", "「」", "『』", "《》", (r"\*\*", r"\*\*"))
    )
)
_OPENING = re.compile(r"(?:\A|[.:!?…\n])[\W\d_]*\Z")
_DOTTED = re.compile(r"[a-z]{2,}(?:\.[a-z]{2,})+")
_ENDING = re.compile(r"(?<=\w\w)['’][^\W\d_]{1,6}\Z")
# Languages that write every noun with a capital.
_NOUNS = frozenset({"de", "lb"})


class Words(NamedTuple):
    """The folded words of a text. In scripts without spaces, each character is a word.

    Attributes:
        text: The text.
        folded: The words.
        marked: Words that look like names: with a capital where capitals mark names, with a digit, in quotation marks, bold, or
            code.
        unsure: Words that may be names, but look like any other word: nouns in German, all words of scripts without capitals,
            and capitalised words at the start of a sentence.
        places: Start and end of each word in the text.
    """

    text: str = ""
    folded: tuple[str, ...] = ()
    marked: tuple[bool, ...] = ()
    unsure: tuple[bool, ...] = ()
    places: tuple[Part, ...] = ()

    def is_joined(self, first: int, last: int) -> bool:
        """Return true if two of the words `first .. last - 1` follow each other without a space."""
        return any(one[1] == other[0] for one, other in pairwise(self.places[first:last]))

    def written(self, first: int, last: int) -> str:
        """Return the words `first .. last - 1` as the text writes them."""
        return self.text[self.places[first][0] : self.places[last - 1][1]]


class Mention(NamedTuple):
    """A name that some section defines, as words `first .. last - 1` of a text."""

    name: str
    first: int
    last: int

    def is_sure(self, words: Words) -> bool:
        """Return false for a word that looks like any other, and for few characters of a script without spaces."""
        least = SURE_DENSE if words.is_joined(self.first, self.last) else 2
        return any(words.marked[self.first : self.last]) or self.last - self.first >= least


def words_of(text: str, languages: Collection[str] = ()) -> Words:
    """Return the words of a text in one of the languages. Without any, capitals mark names."""
    nouns = bool(languages) and _NOUNS.issuperset(languages)
    set_off = bytearray(len(text))
    for match in _SET_OFF.finditer(text):
        set_off[match.start() : match.end()] = b"\1" * len(match[0])
    words: list[tuple[str, bool, bool, Part]] = []
    for match in _WORD.finditer(text):
        start = match.start()
        spaced = match[0].isascii() or _DENSE.search(match[0]) is None
        for word in (match[0],) if spaced else _UNIT.findall(match[0]):
            # a strange word has a digit, a capital after another letter, or a dot
            strange = any(map(str.isupper, word[1:])) or (
                not word.isalpha() and (any(map(str.isdigit, word)) or bool(_DOTTED.fullmatch(word)))
            )
            capital = not strange and word[0].isupper()
            marked = strange or bool(set_off[start])
            if capital and not marked and not nouns:
                marked = _OPENING.search(text, max(0, start - 14), start) is None
            own = _ENDING.sub("", word) if capital and "tr" in languages else word
            words.append((_fold(own), marked, not marked and not word[0].islower(), (start, start + len(own))))
            start += len(word)
    return Words(text, *zip(*words, strict=True)) if words else Words(text)


@lru_cache(100_000)
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


def names_defined(titles: Sequence[str], first_sentence: str, language: str = "") -> set[str]:
    """Return the names that a section with these titles and this first sentence defines.

    The sentence gives none in a language that writes every noun with a capital.
    """
    names = set[str]().union(*map(names_of_title, titles))
    for numbered in filter(None, map(_NUMBERED.match, titles)):
        names |= {f"{numbered[1].lower()}{sign}{numbered[2]}" for sign in ("", "-")}
    if language not in _NOUNS and (subject := _SUBJECT.match(first_sentence)):
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

    A single word must be marked or unsure. In a longer run the first and the last word must each be so or not be a stop word, and
    a run whose first word is neither has at most three words. A run of characters has up to `LONGEST_DENSE`.
    """
    possible: list[tuple[str, int, int]] = []
    folded, count = words.folded, len(words.folded)
    likely = [mark or unsure for mark, unsure in zip(words.marked, words.unsure, strict=True)]
    ends = [like or word not in STOP_WORDS for word, like in zip(folded, likely, strict=True)]
    joined = [one[1] == other[0] for one, other in pairwise(words.places)] + [False]
    for first, word in enumerate(folded):
        if not ends[first] or _HIRAGANA.match(word):
            continue
        longest = min(count, first + (LONGEST_DENSE if joined[first] else most if likely[first] else 3))
        shortest = 3 if joined[first] and not words.marked[first] else 2
        runs = [word]
        for last in range(first + 1, longest):
            runs.append(runs[-1] + ("" if joined[last - 1] else " ") + folded[last])
        possible += ((runs[n - 1], first, first + n) for n in range(len(runs), shortest - 1, -1) if ends[first + n - 1])
        if likely[first] and len(word) > 1 and word not in STOP_WORDS:
            possible.append((word, first, first + 1))
        if len(possible) >= MOST_NAMES:
            break
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
