"""Normalised texts: the form in which gold texts are compared.

Case, character width, compatibility forms and punctuation are ignored. In scripts without blanks between words (Chinese,
Japanese, Thai and others) or with particles attached to words (Korean), each character is a word.
"""

from __future__ import annotations

import re
import string
import unicodedata
from functools import lru_cache

from mergewise.extend import DENSE, MARKS, UNSPACED

_CHARACTER = re.compile(rf"[{DENSE}{UNSPACED}][{MARKS}]*")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_GROUPS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_DECIMAL = re.compile(r"(?<![\d.,])(\d+)[.,](?=\d+(?![.,]?\d))(?:(?<=\.)|(?=\d{1,2}(?!\d)))")
# a private-use character that stands for a decimal point, so that punctuation rules leave it
_POINT = "\U000f0000"


class _Punctuation(dict[int, str]):
    """A table for `str.translate` that replaces punctuation of any script with `instead` and drops format characters."""

    def __init__(self, instead: str) -> None:
        super().__init__({ord(character): instead for character in string.punctuation})
        # the zero-width space separates words of Thai and Khmer
        self[0x200B] = " "
        self._instead = instead

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = unicodedata.category(character)
        self[code] = self._instead if kind.startswith("P") else "" if kind == "Cf" else character
        return self[code]


_AS_BLANK, _AS_NOTHING = _Punctuation(" "), _Punctuation("")


@lru_cache(1024)
def normalise(text: str) -> str:
    """Return the words of a text without articles, with a blank before and after each.

    A number is one word: 3.5 stays, and 1,200 becomes 1200.
    """
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    whole = _DECIMAL.sub(rf"\1{_POINT}", _GROUPS.sub("", plain.lower()))
    return f" {' '.join(_words(whole.translate(_AS_BLANK)))} "


def normalise_answer(text: str) -> str:
    """Return the words of an answer as SQuAD's script does: punctuation is removed without a blank, so `U.S.` becomes `us`."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(_words(plain.lower().translate(_AS_NOTHING)))


def _words(text: str) -> list[str]:
    text = _ARTICLES.sub(" ", text)
    return (text if text.isascii() else _CHARACTER.sub(r" \g<0> ", text)).split()
