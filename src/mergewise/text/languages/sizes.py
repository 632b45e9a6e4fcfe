"""The length of a text in a unit that is comparable between scripts: the tokens of English text of the same length.

A token of the built-in counter holds 4.9 characters of English, 3 of German, and 1.2 of Russian, Greek and Arabic, where it
knows only single letters. Such sizes would split documents in these languages four times as finely. `benchmarks/languages.py`
measures it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mergewise.text.terms import MARKS

# Letters, digits and marks of a token in English, and tokens of a character in Hangul and in scripts without spaces.
LETTERS_PER_TOKEN = 4.56
DENSE = 0.9

_DENSE = re.compile(r"[぀-ヿㇰ-ㇿ㐀-䶿一-鿿\uf900-\ufaffᄀ-ᇿ㄰-㆏가-힯]")
_SPACE = re.compile(r"\s")
_PUNCTUATION = re.compile(rf"(?![{MARKS}])[^\w\s]|_")


def neutral_lengths(texts: Sequence[str]) -> list[int]:
    """Return the length of each text in tokens of English, at least 1 unless it is blank."""
    return [_length(text) for text in texts]


def _length(text: str) -> int:
    spaces, punctuation, dense = (sum(1 for _ in pattern.finditer(text)) for pattern in (_SPACE, _PUNCTUATION, _DENSE))
    letters = len(text) - spaces - punctuation - dense
    return -int(-(letters / LETTERS_PER_TOKEN + DENSE * dense + punctuation) // 1)
