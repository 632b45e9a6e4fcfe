"""Names in a question: identifiers, versions and other numbers, and capitalised words, and their occurrence in texts.

In German, where all nouns are capitalised, a plain noun is a name only next to another capitalised word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from mergewise.text.languages import ENGLISH, question_languages
from mergewise.text.support.figures import figures, known_figures
from mergewise.text.support.names import DEMONYM, base_form, is_plain, is_strange, root, touch, words_of
from mergewise.text.terms import STOP_WORDS

NameKind: TypeAlias = Literal["code", "number", "name", "noun"]

_CODE = re.compile(r"`+([^`\n]{1,200})`+")
_NUMBER = re.compile(r"v?(\d+(?:[.,]\d+)*(?:(?:a|b|rc|dev|post)\d+)?)", re.IGNORECASE)
# an identifier with its parts, an option such as --no-headers, and a protocol such as HTTP/2
_PIECE = re.compile(
    r"(?<![\w-])--[^\W\d_][\w-]*|\b[A-Z]{2,}/\d+(?:\.\d+)*|(?<![^\W_])_*[^\W_]\w*(?:[.,]\w+)*(?P<called>\(|=(?=\w))?"
)
_HUMP = re.compile(r"(?<=[^\W_A-Z])(?=[A-Z])")
_PART = re.compile(r"\d+|[^\W\d_]+")
_INNER = re.compile(r"\w_+\w|__|[^\W\d_A-Z][A-Z]")
_MIXED = re.compile(r"(?=.*\d)[^\W\d_]{2}\w*")
_POSSESSIVE = re.compile(r"['’]s?\b")
_FILE = re.compile(
    r"[\w.-]+\.(?:c|cfg|conf|css|csv|go|html?|ini|js|json|lock|md|py|rs|rst|sh|sql|toml|ts|txt|xml|ya?ml)"
)
# English stop words that are German words too
_GERMAN_TOO = frozenset("am an do das die hat has i in so was will".split())
# languages that a question is told apart from German by
_LANGUAGES = dict.fromkeys((ENGLISH, "de", "fr", "es", "it", "pt", "nl"), 1)


class AskedName(NamedTuple):
    """A name in a question. A "noun" is a capitalised word of a language that capitalises all nouns."""

    text: str
    kind: NameKind

    @property
    def parts(self) -> tuple[str, ...]:
        """The words and numbers that an identifier consists of, in base form."""
        return tuple(_PART.findall(base_form(_HUMP.sub(" ", self.text))))

    def is_in(self, text: str) -> bool:
        """Return true if the text has the name in any case, in singular or plural, with any hyphens or underscores."""
        if self.kind == "number" and any(figure.held_by(known_figures(text)) for figure in figures(self.text)):
            return True
        return _pattern_of(self.kind, self.parts).search(base_form(text)) is not None

    @property
    def is_distinct(self) -> bool:
        """False for a plain noun and for a number that is no version, which say little about a document."""
        return self.kind in ("code", "name") or (self.kind == "number" and len(self.parts) > 1)

    @property
    def is_searchable(self) -> bool:
        """False for a name of stop words, which no index knows, and for a nation's adjective, which has other forms."""
        ordinary = self.kind in ("name", "noun") and DEMONYM.search(self.text.lower()) is not None
        return not ordinary and any(part not in STOP_WORDS and len(part) > 1 for part in self.parts)


@lru_cache(1024)
def _pattern_of(kind: NameKind, parts: tuple[str, ...]) -> re.Pattern[str]:
    if kind == "number":
        # 3.11 is in "3.11.2", but 11 is not in "3.11"
        return re.compile(r"(?<!\d)(?<!\d[.,])" + r"[.,]?".join(map(re.escape, parts)) + r"(?!\d)")
    *first, last = parts
    last = last[:-1] if len(last) > 3 and last.endswith("s") and last[-2] != "s" else last
    stem, ending = (root(last), r"\w{0,4}") if kind in ("name", "noun") and root(last) else (last, "(?:e?s)?")
    return re.compile(
        r"(?<![^\W_])" + r"[\W_]{0,2}".join([*map(re.escape, first), re.escape(stem) + ending]) + r"(?![^\W_])"
    )


@lru_cache(256)
def asked_names(question: str) -> tuple[AskedName, ...]:
    """Return the names in a question, each once, in order."""
    names: dict[tuple[str, ...], AskedName] = {}
    found = [*_coded_names(question), *_names_by_look(question)]
    taken = [match.span() for match in _CODE.finditer(question)]
    taken += [(start, start + len(name.text)) for start, name in found]
    found += (one for one in _capitalised_names(question) if not any(start <= one[0] < end for start, end in taken))
    for _, name in sorted(found, key=lambda one: one[0]):
        if name.parts:
            names.setdefault(name.parts, name)
    return tuple(names.values())


def _coded_names(question: str) -> Iterator[tuple[int, AskedName]]:
    for match in _CODE.finditer(question):
        for word in match[1].split():
            plain = word.strip("<>/()[]{}.,:;=\"'")
            if _NUMBER.fullmatch(plain):
                yield match.start(), AskedName(plain, "number")
            elif len(plain) > 1 and re.fullmatch(r"[\w-]+", plain):
                yield match.start(), AskedName(plain, "code")


def _names_by_look(question: str) -> Iterator[tuple[int, AskedName]]:
    """Yield identifiers and numbers. Of a dotted name, each part that looks like an identifier counts, or the last one."""
    for match in _PIECE.finditer(question):
        piece = match[0].rstrip("(=")
        if number := _NUMBER.fullmatch(piece):
            yield match.start(), AskedName(number[1], "number")
        elif piece.startswith("--") or "/" in piece or _FILE.fullmatch(piece):
            yield match.start(), AskedName(piece, "code")
        elif not piece[0].isdigit():
            parts = piece.split(".")
            identifiers = [part for part in parts if _INNER.search(part) or _MIXED.fullmatch(part)]
            called = parts[-1:] if match["called"] and len(parts[-1]) > 2 else []
            for part in dict.fromkeys([*identifiers, *called]):
                yield match.start() + piece.find(part), AskedName(part, "code")


def _capitalised_names(question: str) -> Iterator[tuple[int, AskedName]]:
    words = [word for word in words_of(question) if word.text[:1].isalpha()]
    if all(word.text[0].isupper() or word.text in STOP_WORDS for word in words):
        return  # a title
    marked = [word for word in words if word.text[0].isupper() and not word.opens]
    german = may_be_german(question)
    for at, word in enumerate(marked):
        plain = _POSSESSIVE.sub("", word.text)
        if len(plain) < 2 or (is_plain(plain) and not plain.isupper()):
            continue
        near = any(touch(question, word, other) for other in marked[max(0, at - 1) : at + 2])
        named = not german or is_strange(plain) or near
        yield word.start, AskedName(plain, "name" if named else "noun")


def may_be_german(question: str) -> bool:
    """Return True if no word of the question is English only, and its language may be German."""
    english = any(word.lower() in STOP_WORDS - _GERMAN_TOO for word in re.findall(r"\w+", question))
    return not english and "de" in question_languages(question, _LANGUAGES)
