"""Exact names: versions, clauses, sections of laws, identifiers with digits, addresses and dates, each a term as a whole.

A name is a run of letters and digits with a digit in it, joined by dots, hyphens and the like. Its key is the same for each way
to write it: "v3.12.4-rc.1" and "3.12.4rc1", "CVE‑2021‑44228" and "cve-2021-44228", "§§ 312g" and "§ 312G", "3 March 2021" and
"2021-03-03". Another number of the same form has another key.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import NamedTuple

from mergewise.text.support.figures import dates
from mergewise.text.terms import STOP_WORDS

PREFIX = 0.5
"""Match of a longer name that begins with the name, such as 3.12.4 for 3.12. A whole name matches with 1."""
REACH = 64  # numbers below and above an absent one that are looked up

_NAME = re.compile(r"(?:§{1,2}[ \u00a0]?)?(?<!\w)(?<!\d,)[^\W_]++(?:[.:‐‑–-][^\W_]++)*+(?!_)")
_DIGIT = re.compile(r"\d")
_DASHES = str.maketrans({"‐": "-", "‑": "-", "–": "-", " ": ""})
_LETTER_JOINS = re.compile(r"(?<=[^\W\d_])[.:-](?=\d)|(?<=\d)[.:-](?=[^\W\d_])|^v(?=\d)|^§(?=§)")
# the part of a key that indexes have, without the letters before it: documents list CVE-2021-44228 as 2021-44228
_CORE = re.compile(
    r"(?:[^\W\d_]{2,}+)?((?:§|[^\W\d_])?\d+[^\W\d_]?(?:[.:-]\d+[^\W\d_]?)*(?:(?:a|b|c|m|rc|alpha|beta|dev|post|pre)\d*)?)"
)
# a search for digits is four times as fast as one for words
_JOINED = re.compile(r"\d(?<![\d,]\d)[^\W_]*+(?:[.:‐‑–-][^\W_]++)++")
_LETTER = re.compile(r"(?<![^\W_])[^\W\d_][.-]?\Z")
# a day before its month, or before its year; the words of a month are near
_DAY = re.compile(
    r"\d(?<!\d\d)\d?(?:st|nd|rd|th|er|\.)?(?:,?\s{1,2}\d{4}|\s(?:of\s|de\s)?[^\W\d_]{3,10}\.?,?\s(?:de\s)?\d{4})(?!\d)"
)
_SECTION = re.compile(r"§ ?\d+[^\W_]*+")
_JOIN = re.compile(r"[.:-]")
# a code of digits and letters, unless it is a quantity with its unit, an ordinal, or a word with a number
_CODE = re.compile(r"(?!\d+[^\W\d]{1,3}\Z)\d+[^\W\d]\w*|[^\W\d_]\d+")
_LABEL = re.compile(r"(?:([^\W\d_]+)[\s/_]|#)\Z")
_NUMBER = re.compile(r"(?<=[^\W\d_]{2})\d+\Z")
_LAST = re.compile(r"(?<=\d)(?P<letter>[a-z])\Z|(?P<digits>\d+)(?P<after>(?![a-z]\Z)\D*)\Z")


class ExactName(NamedTuple):
    """An exact name `text[start:end]`, or a number with the word before it as label."""

    start: int
    end: int
    key: str
    label: str = ""
    is_date: bool = False

    @property
    def is_joined(self) -> bool:
        """False for a number or a word with digits, which any search has as one term."""
        return self.key[0] == "§" or _JOIN.search(self.key) is not None

    @property
    def keys(self) -> tuple[str, ...]:
        """The key and the part that indexes have, or the key of a number with and without its label."""
        core = _CORE.fullmatch(self.key) if self.is_joined else None
        other = core[1] if core else self.label + self.key
        return (self.key, other)

    @property
    def is_indexed(self) -> bool:
        """False for a date, which documents write in many ways, and for a form that indexes leave out."""
        return not self.is_date and (not self.is_joined or _CORE.fullmatch(self.key) is not None)

    def match(self, keys: Collection[str]) -> float:
        """Return 1 if the keys of a text have the name, `PREFIX` if a longer name begins with it, else 0."""
        if not keys or any(key in keys for key in self.keys):
            return float(bool(keys))
        return PREFIX * any(_begins(self.key, key) for key in keys)


def exact_key(name: str) -> str:
    key = name if name.isascii() else unicodedata.normalize("NFKC", name).translate(_DASHES)
    return _LETTER_JOINS.sub("", key.casefold())


def exact_names(text: str, *, dated: bool = True) -> Iterator[ExactName]:
    """Yield the exact names of a text, and its numbers. With `dated`, dates in words are names as well."""
    for match in _NAME.finditer(text):
        if _DIGIT.search(match[0]):
            key = exact_key(match[0])
            label = _LABEL.search(text, max(0, match.start() - 30), match.start()) if key.isdigit() else None
            yield ExactName(*match.span(), key, (label[1] or "#").casefold() if label else "")
    for mention in dates(text) if dated else ():
        for date in mention.readings:
            if all(date):
                yield ExactName(mention.start, mention.end, "{:04}-{:02}-{:02}".format(*date), is_date=True)


@lru_cache(4096)
def exact_keys(text: str, dated: bool = False) -> frozenset[str]:
    """Return the keys of the exact names and numbers of a text."""
    return frozenset(key for name in exact_names(text, dated=dated) for key in name.keys)


_OPENING = re.compile(r"[\W_]*(?:[^\W\d_]+[.:]?\s)?(?=§|[^\W_]*[.:‐‑–-]?\d)")


@lru_cache(4096)
def opening_keys(text: str) -> frozenset[str]:
    """Return the keys of the exact name that opens a text, perhaps after a word, or nothing."""
    opening = _OPENING.match(text)
    name = _NAME.match(text, opening.end()) if opening else None
    return frozenset(ExactName(0, 0, exact_key(name[0])).keys) if name and not name[0].isdigit() else frozenset()


@lru_cache(256)
def asked_exactly(question: str) -> tuple[ExactName, ...]:
    """Return the exact names that a question asks for, without plain quantities.

    A single number counts after a word, as in "error 1033", if it has three digits or more or ends the question.
    """
    found: list[ExactName] = []
    for name in sorted(exact_names(question), key=lambda name: (name.start, -name.end)):
        written = question[name.start : name.end]
        if not name.is_joined and not _CODE.fullmatch(name.key) and (written.isalnum() or written[0].isdigit()):
            telling = name.label and name.label not in STOP_WORDS
            if not telling or (len(name.key) < 3 and question[name.end :].strip(" ?.!")):
                continue
        if not found or name.start >= found[-1].end:
            found.append(name)
    return tuple(found)


def _begins(key: str, other: str) -> bool:
    return other.startswith(key) and _JOIN.match(other, len(key)) is not None


# -- terms of an index


def index_terms(text: str) -> Iterator[str]:
    """Yield the terms that an index has for the exact names of a text beside its words: each whole, and its beginnings.

    A term begins with "=", which no word has, and a beginning ends with a dot. Single numbers and words are no such terms.
    """
    for match in _JOINED.finditer(text):
        start = match.start()
        letter = _LETTER.search(text, max(0, start - 3), start)
        yield from _terms_of((letter[0] if letter else "") + match[0])
    for match in _DAY.finditer(text):
        for name in exact_names(text[max(0, match.start() - 12) : match.end()]):
            if name.is_date:
                yield "=" + name.key
    for section in _SECTION.findall(text.replace("\u00a0", " ")) if "§" in text else ():
        yield from _terms_of(section)


@lru_cache(100_000)
def _terms_of(name: str) -> tuple[str, ...]:
    core = _CORE.fullmatch(exact_key(name))
    if core is None:
        return ()
    parent, dot, _ = core[1].rpartition(".")
    # a single number begins too many names
    return (f"={core[1]}", f"={parent}.") if dot and not parent.isdigit() else (f"={core[1]}",)


def question_terms(name: ExactName) -> dict[str, float]:
    """Return the terms of an index that match a name, with the match of each."""
    number = _NUMBER.search(name.key)
    words = {} if name.is_joined else {name.key: 1.0, number[0] if number else name.key: 1.0}
    return {**words, **{"=" + key: 1.0 for key in name.keys}, **{f"={key}.": PREFIX for key in name.keys}}


def neighbours(name: str) -> tuple[list[str], list[str]]:
    """Return names of the same form below and above a name, nearest first: 3.12.8 and 3.12.10 for 3.12.9, then 3.13.0."""
    found: tuple[list[str], list[str]] = [], []
    match = _LAST.search(name)
    if match is None:
        return found
    if letter := match["letter"]:
        letters = [name[:-1] + chr(code) for code in range(ord("a"), ord("z") + 1)]
        at = ord(letter) - ord("a")
        return [*letters[:at][::-1], name[:-1]], letters[at + 1 :]
    before, digits, after = name[: match.start()], match["digits"], match["after"]

    def nth(number: int) -> str:
        return f"{before}{number:0{len(digits) if digits[0] == '0' else 1}}{after}"

    value = int(digits)
    found[0].extend(nth(number) for number in range(value - 1, max(-1, value - 1 - REACH), -1))
    found[1].extend(nth(number) for number in range(value + 1, value + 1 + REACH))
    if "." in before[-1:]:
        # the last of the version before, and the first of the next one
        lower, upper = neighbours(before[:-1])
        found[0].extend([before[:-1], *(f"{one}.{number}" for one in lower[:3] for number in range(30, -1, -1))])
        found[1].extend(f"{one}{ending}" for one in upper[:3] for ending in ("", ".0", ".1") if "." in one + ending)
    return found
