"""Exact names: versions, clauses, sections of laws, codes, addresses and dates, each a term as a whole.

A name is a number of several parts, or one with the letters before it. Its key is the same for each way to write it:
"v3.12.4-rc.1" and "3.12.4rc1", "CVE‑2021‑44228" and "cve-2021-44228", "§§ 312g" and "§ 312G", "3 March 2021" and "2021-03-03".
Another number of the same form has another key.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from string import ascii_lowercase
from typing import NamedTuple

from mergewise.text.support.figures import dates
from mergewise.text.terms import STOP_WORDS, fold

PREFIX = 0.5
"""Match of a longer name that begins with the name, such as 3.12.4 for 3.12. A whole name matches with 1."""
REACH = 64  # numbers below and above an absent one that are looked up
OPENING = 12  # characters of a text within which a name opens it

# a search for digits is four times as fast as one for words
_NUMBER = re.compile(
    r"\d(?<![\d,]\d)[^\W_]*+(?:[.:‐‑–-](?:\d[^\W_]*+|(?:a|b|rc|alpha|beta|dev|post|pre)(?![^\W\d_])[.-]?\d*+))*+"
)
_BEFORE = re.compile(r"(§|(?<![^\W_])[^\W\d_]*|)([ \u00a0/_#.‐‑–-]?)\Z")
# a day next to its month and year, which every text with a date has
_DATED = re.compile(
    r"\d(?<!\d\d)(?:\d?(?:[./-]\d\d?[./-]\d{4}|(?:st|nd|rd|th|er|\.)?(?:,?\s{1,2}\d{4}"
    r"|\s{1,3}(?:of\s|de\s)?[^\W\d_]{3,10}\.?,?\s{1,3}(?:del?\s)?\d{4}))(?!\d)|\d{3}(?:[/.]\d\d?[/.]\d|\s?[年년]))"
)
_DASH = re.compile("[‐‑–]")
_JOIN = re.compile("[.:-]")
_LETTER_JOIN = re.compile(r"(?<=\d)[.:-](?=[^\W\d_])|(?<=[^\W\d_])[.-](?=\d)")
# a number of three digits after a word, or of two at the end of the question, or a code, but no quantity with its unit
_SINGLE = re.compile(
    r"\S+ (?:\d\d|\d{3,} ?)|.* (?:\d+[^\W\d](?:[^\W\d]{3}|\w*\d)\w*|[^\W\d_](?:\d{2,}|.*(?! )[\W_].*)) ?"
)
_RANGE = re.compile(r"\d{1,3}-\d{1,3}")
# the year of a month, a season or a person
_YEAR = re.compile(r"(?<![^\W_])[A-Z]\w*\s(?:1[5-9]|20)\d\d\Z")
_LAST = re.compile(r"(?<!\d)\d{1,18}\Z|(?<=\d)[a-z]\Z")


class ExactName(NamedTuple):
    """An exact name `text[start:end]`.

    Attributes:
        key: The name in comparable form.
        other: The form that indexes have, without the word before it, or that of a single number with the word.
        is_joined: False for a number and a code, which any search has as one term.
    """

    start: int
    end: int
    key: str
    other: str
    is_joined: bool = True
    is_date: bool = False

    def match(self, keys: Collection[str]) -> float:
        """Return 1 if the keys of a text have the name, `PREFIX` if a longer name begins with it, else 0."""
        if self.key in keys or self.other in keys:
            return 1.0
        return PREFIX * any(key.startswith(self.key) and _JOIN.match(key, len(self.key)) for key in keys)


def exact_names(text: str) -> Iterator[ExactName]:
    """Yield the exact names of a text, its single numbers, and its dates."""
    for match in _NUMBER.finditer(text):
        number = _LETTER_JOIN.sub("", _DASH.sub("-", fold(match[0])))
        before = _BEFORE.search(text, max(0, match.start() - 30), match.start())
        assert before is not None
        word, mark = fold(before[1]) or "#" * (before[2] == "#"), before[2]
        # the word belongs to the name without a space between them
        is_part = word == "§" or (word not in ("", "v") and mark in ("", "-", ".", "‐", "‑", "–"))
        is_joined = word == "§" or _JOIN.search(number) is not None
        if is_part and len(word) == 1:
            number, word = word + number, ""
        start = before.start() if is_part else match.start()
        yield ExactName(start, match.end(), word * is_part + number, word * (not is_joined) + number, is_joined)
    for match in _DATED.finditer(text):
        first = max(0, match.start() - 20)
        for mention in dates(text[first : match.end() + 8]):
            for date in filter(all, mention.readings):
                key = "{:04}-{:02}-{:02}".format(*date)
                yield ExactName(first + mention.start, first + mention.end, key, key, is_date=True)


@lru_cache(4096)
def exact_keys(text: str, *, opening: bool = False) -> frozenset[str]:
    """Return the keys of the exact names and numbers of a text, or with `opening` of the exact name near its start."""
    names = exact_names(text)
    if opening:
        names = (name for name in names if name.is_joined and not name.is_date and name.start < OPENING)
    return frozenset(key for name in names for key in (name.key, name.other))


@lru_cache(256)
def asked_exactly(question: str) -> tuple[ExactName, ...]:
    """Return the exact names that a question asks for, without plain quantities.

    A single number counts after a word, as in "error 1033", if it has three digits or more, or two at the end of the question.
    A name does not go over the end of a line.
    """
    found: list[ExactName] = []
    for name in sorted(exact_names(question), key=lambda name: (name.start, -name.end)):
        written, label = question[name.start : name.end], name.other.removesuffix(name.key)
        goes_on = " " if question[name.end :].strip(" ?.!") else ""
        if name.is_joined:
            is_asked = not _RANGE.fullmatch(name.key)
        else:
            labelled = f"{label * (label not in STOP_WORDS)} {written}{goes_on}"
            is_asked = bool(_SINGLE.fullmatch(labelled)) and not _YEAR.search(question, 0, name.end)
        if is_asked and "\n" not in written and (not found or name.start >= found[-1].end):
            found.append(name)
    return tuple(found)


# -- terms of an index


def index_terms(text: str) -> Iterator[str]:
    """Yield the terms that an index has for the exact names of a text beside its words: each whole, and its beginning.

    A term begins with "=", which no word has, and a beginning ends with a dot. Single numbers and codes are no such terms.
    """
    for name in exact_names(text):
        if name.is_joined:
            yield "=" + name.other
            parent, dot, _ = name.other.rpartition(".")
            # a single number begins too many names
            if dot and not parent.isdigit():
                yield f"={parent}."


def question_terms(names: str) -> dict[str, float]:
    """Return the terms of an index that match exact names, with the match of each. The terms of a code may match others, too."""
    terms: dict[str, float] = {}
    for name in exact_names(names):
        if not name.is_joined and (number := re.search(r"\d{3,}\Z", name.key)):
            terms[number[0]] = 1.0
        if not name.is_joined:
            terms[name.key] = 1.0
        for key in (name.key, name.other):
            terms |= {f"={key}": 1.0, f"={key}.": PREFIX}
    return terms


def neighbours(name: str) -> tuple[list[str], list[str]]:
    """Return names of the same form below and above a name, nearest first: 3.12.8 and 3.12.10 for 3.12.9, then 3.13.0."""
    if (match := _LAST.search(name)) is None:
        return [], []
    before, last = name[: match.start()], match[0]
    if last.isdigit():
        at, width = min(int(last), REACH), len(last) * last.startswith("0")
        endings = [f"{n:0{width}}" for n in range(int(last) - at, int(last) + REACH)]
    else:
        endings = ["", *ascii_lowercase]
        at = endings.index(last)
    found = [before + ending for ending in endings[:at][::-1]], [before + ending for ending in endings[at + 1 :]]
    if before.endswith("."):
        # the last of the version before, and the first of the next one
        lower, upper = neighbours(before[:-1])
        found[0].extend(f"{one}.{n}" for one in lower[:3] for n in range(30, -1, -1))
        found[1].extend(f"{one}.{n}" for one in upper[:3] for n in range(2))
    return found
