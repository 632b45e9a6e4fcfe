"""Search words for texts in languages other than English: stems, and parts of words that need no stemmer.

A word gives its stem and its 4-grams, marked by `#`, so that other forms of the word are found if the stemmer fails or the
language is wrong. Scripts without spaces give characters and pairs of them, or runs of three (Thai). Questions and documents
are analysed in the same way. A change here needs another `VERSION`, which is part of the column's name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache

from mergewise.text.languages.table import language_of
from mergewise.text.names import without_accents
from mergewise.text.terms import DENSE, MARKS, UNSPACED, composed, stemmer

VERSION = 1
GRAM, PAIR, RUN = 4, 2, 3  # letters

_LETTER = rf"[^\W_{DENSE}{UNSPACED}]"
WORD = rf"{_LETTER}++(?:[{MARKS}]++{_LETTER}*+)*+"
"""The pattern of a word of a script with spaces, without apostrophes."""
# Scripts whose accents are often left out. Scripts of India are excluded, since their marks are vowels.
_FOLDED = re.compile(r"[A-Za-zÀ-ɏͰ-ԯ֐-ۿḀ-῿]")
# Its tones are letters.
_UNFOLDED = frozenset({"vi"})


def search_words(text: str, languages: Iterable[str]) -> str:
    """Return the search words of a text by the rules of each language, separated by spaces, in order and with repeats."""
    among = tuple(languages)
    words: list[str] = []
    for _, piece, size in pieces(composed(text)[0]):
        if not size:
            words += _words_of(piece, among)
        elif size == PAIR:
            words += piece
            words += grams(piece, size)
        else:
            words += grams(piece, size) or [piece]
    return " ".join(words)


def question_words(question: str, languages: Iterable[str]) -> str:
    """Return the search words of a question, each once."""
    return " ".join(dict.fromkeys(search_words(question, languages).split()))


def pieces(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield the start of each word, the word, and 0, or of each run of a script without spaces the size of its parts."""
    for match in _piece().finditer(text):
        yield match.start(), match[0], _SIZES[str(match.lastgroup)]


_SIZES = {"word": 0, "dense": PAIR, "unspaced": RUN}


@cache
def _piece() -> re.Pattern[str]:
    """Return the pattern, compiled on first use, since an index in English never needs it."""
    return re.compile(rf"(?P<dense>[{DENSE}]+)|(?P<unspaced>[{UNSPACED}]+)|(?P<word>{WORD})")


@lru_cache(100_000)
def _words_of(word: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    forms: dict[str, None] = {}
    for language in languages:
        lowered = lower_case(word, language)
        forms |= dict.fromkeys(
            (stem(lowered, language), *("#" + gram for gram in grams(_fold(lowered, language), GRAM)))
        )
    return tuple(forms)


def stem(lowered: str, language: str) -> str:
    """Return the stem of a word in lower case, without accents in most scripts."""
    algorithm = language_of(language).stemmer
    return _fold(stemmer(algorithm).stemWord(lowered) if algorithm else lowered, language)


def lower_case(word: str, language: str) -> str:
    """Convert to lower case in normal form (NFKC), by Turkish rules for Turkish, without combining dots."""
    word = unicodedata.normalize("NFKC", word)
    if language == "tr":
        word = word.replace("I", "ı").replace("İ", "i")
    return word.lower().replace("i\u0307", "i")


def _fold(word: str, language: str) -> str:
    if word.isascii() or language in _UNFOLDED or not _FOLDED.match(word):
        return word
    return without_accents(word.replace("ß", "ss").replace("ı", "i"))


def grams(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(len(text) - size + 1)]


# The length of a text in a unit that is comparable between scripts: the tokens of English text of the same length.
#
# A token of the built-in counter holds 4.9 characters of English, 3 of German, and 1.2 of Russian, Greek and Arabic, where it
# knows only single letters. Such sizes would split documents in these languages four times as finely. `benchmarks/languages.py`
# measures it.

# Letters, digits and marks of a token in English, and tokens of a character in Hangul and in scripts without spaces.
LETTERS_PER_TOKEN = 4.56
DENSE_TOKENS = 0.9

_DENSE = re.compile(r"[぀-ヿㇰ-ㇿ㐀-䶿一-鿿\uf900-\ufaffᄀ-ᇿ㄰-㆏가-힯]")
_SPACE = re.compile(r"\s")
_PUNCTUATION = re.compile(rf"(?![{MARKS}])[^\w\s]|_")


def neutral_lengths(texts: Sequence[str]) -> list[int]:
    """Return the length of each text in tokens of English, at least 1 unless it is blank."""
    lengths = []
    for text in texts:
        counts = [len(pattern.findall(text)) for pattern in (_SPACE, _PUNCTUATION, _DENSE)]
        _, punctuation, dense = counts
        letters = len(text) - sum(counts)
        lengths.append(-int(-(letters / LETTERS_PER_TOKEN + DENSE_TOKENS * dense + punctuation) // 1))
    return lengths
