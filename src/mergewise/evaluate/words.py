"""Texts as words that can be compared: the one form in which gold texts are looked for.

Upper and lower case, widths and forms of one character, and punctuation of any script tell nothing. Where a script puts no
blanks between words (Chinese, Japanese, Thai and others) or writes particles onto them (Korean), each character is a word.
"""

from __future__ import annotations

import re
import string
import unicodedata
from functools import lru_cache

from mergewise.text.languages.analysis import DENSE, UNSPACED
from mergewise.text.terms import MARKS

_CHARACTER = re.compile(rf"[{DENSE}{UNSPACED}][{MARKS}]*")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_GROUPS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_DECIMAL = re.compile(r"(?<![\d.,])(\d+)[.,](?=\d+(?![.,]?\d))(?:(?<=\.)|(?=\d{1,2}(?!\d)))")
# a letter of nobody's, where a number has its decimal point
_POINT = "\U000f0000"


class _Punctuation(dict[int, str]):
    """A table for `str.translate`: punctuation of any script becomes `instead`, what is not seen goes."""

    def __init__(self, instead: str) -> None:
        super().__init__({ord(character): instead for character in string.punctuation})
        # a space of no width parts words of Thai or Khmer
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
    """The words of a text, a blank before and after each, without articles. A number is one word: 3.5, and 1,200 as 1200."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    whole = _DECIMAL.sub(rf"\1{_POINT}", _GROUPS.sub("", plain.lower()))
    return f" {' '.join(_words(whole.translate(_AS_BLANK)))} "


def normalise_answer(text: str) -> str:
    """The words of an answer as SQuAD's script leaves them: punctuation goes without a blank, `U.S.` is `us`."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(_words(plain.lower().translate(_AS_NOTHING)))


def _words(text: str) -> list[str]:
    text = _ARTICLES.sub(" ", text)
    return (text if text.isascii() else _CHARACTER.sub(r" \g<0> ", text)).split()
