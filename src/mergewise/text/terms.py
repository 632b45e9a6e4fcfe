"""Content terms: the stems of the words that carry a question's meaning.

Words are compared in one form (`fold`), so that a text that spells the same letters with other characters has the same terms.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from mergewise.protocols import BoolArray, IntArray

# Combining marks, with the letters between them: vowels of Hindi or Thai, and separate accents. `\w` does not match
# them.
MARKS = (
    r"\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1-\u05c2\u05c4-\u05c5\u05c7\u0610-\u061a\u064b-\u065f"
    r"\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0711-\u07f3\u07fd\u0816-\u082d\u0859-\u085b\u0898-\u08e1"
    r"\u08e3-\u0963\u0981-\u09e3\u09fe-\u0a75\u0a81-\u0ae3\u0afa-\u0b63\u0b82-\u0bd7\u0c00-\u0c63\u0c81-\u0c83"
    r"\u0cbc-\u0d4d\u0d57-\u0d63\u0d81-\u0df3\u0e31-\u0e3a\u0e47-\u0e4e\u0eb1-\u0ecd\u0f18-\u0f19\u0f35\u0f37"
    r"\u0f39\u0f3e-\u0f84\u0f86-\u0fbc\u0fc6\u102b-\u103e\u1056-\u109d\u135d-\u135f\u1712-\u1734\u1752-\u17d3"
    r"\u17dd\u180b-\u180d\u180f-\u193b\u1a17-\u1a1b\u1a55-\u1a7f\u1ab0-\u1b44\u1b6b-\u1b73\u1b80-\u1bf3"
    r"\u1c24-\u1c37\u1cd0-\u1cd2\u1cd4-\u1cf9\u1dc0-\u1dff\u20d0-\u20f0\u2cef-\u2cf1\u2d7f-\u2dff\u302a-\u302f"
    r"\u3099-\u309a\ua66f-\ua672\ua674-\ua67d\ua69e-\ua6f1\ua802-\ua827\ua82c\ua880-\ua8c5\ua8e0-\ua8f1"
    r"\ua8ff-\ua92d\ua947-\ua953\ua980-\ua9c0\ua9e5-\uaa4d\uaa7b-\uaac1\uaaeb-\uaaef\uaaf5-\uaaf6\uabe3-\uabea"
    r"\uabec-\uabed\ufb1e\ufe00-\ufe0f\ufe20-\ufe2f"
)
LETTERS = rf"[^\W_]++(?:[{MARKS}]++[^\W_]*+)*+"
"""The pattern of a run of letters and digits, with their combining marks."""
DENSE = r"぀-ヿㇰ-ㇿ㐀-䶿一-鿿\uf900-\ufaff가-힯"
"""The characters of Chinese, Japanese and Korean, which have no spaces between names and particles."""
UNSPACED = r"฀-๿຀-໿က-႟ក-៿"
"""The characters of Thai, Lao, Burmese and Khmer, which have no spaces between words."""
WORD = rf"[぀-ヿ㐀-鿿가-힯]|{LETTERS}(?:['’]{LETTERS})*"
"""The pattern of a word, or of a single character in scripts without spaces."""
_WORD = re.compile(WORD)
STOP_WORDS = frozenset(
    """
    a an the this that these those there here it its he she his her him they them their we us our you your i me my
    is are was were be been being am do does did done doing have has had having can could may might must shall should
    will would of in on at by for from with without into onto to as than and or but not no nor so if then else about
    what which who whom whose when where why how many much any some all each both either neither between during
    after before over under again also very just only own same such too s t
    """.split()
)


def fold(word: str) -> str:
    """Return the word in lower case, in Unicode's form without ligatures and full width (NFKC)."""
    return word.lower() if word.isascii() else unicodedata.normalize("NFKC", word).casefold()


def composed(text: str) -> tuple[str, Sequence[int]]:
    """Return the text with each letter and its marks as one character (NFC), and the offset of each of its characters."""
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return text, range(len(text))
    parts = [(*match.span(), unicodedata.normalize("NFC", match[0])) for match in _CLUSTER.finditer(text)]
    offsets = [
        max(start, end - len(part) + at) if at else start for start, end, part in parts for at in range(len(part))
    ]
    return "".join(part for *_, part in parts), offsets


# a character with its marks, or with the vowel and the end of its Korean syllable
_CLUSTER = re.compile(rf".[{MARKS}\u1160-\u11ff]*+", re.DOTALL)


# a capital in camelCase, between parts of three letters or more
_HUMP = re.compile(r"(?<=[a-z]{3})(?=[A-Z][a-z]{2})")


def english_terms(question: str) -> Iterator[tuple[int, int, str]]:
    """Yield the start, the end and the stem of each word of a question, and of each part in camelCase, without stop words."""
    for match in _WORD.finditer(question):
        humps = [match.start() + hump.start() for hump in _HUMP.finditer(match[0])]
        parts = pairwise([match.start(), *humps, match.end()]) if humps else ()
        for start, end in [match.span(), *parts]:
            if (word := fold(question[start:end])) not in STOP_WORDS:
                yield start, end, _stem(word)


def content_terms(text: str) -> frozenset[str]:
    """Return the stems of all words except (English) stop words, or single characters in scripts without spaces."""
    words = map(fold, _WORD.findall(composed(text)[0]))
    return frozenset(_stem(word) for word in words if word not in STOP_WORDS)


def spelled_terms(text: str) -> dict[str, str]:
    """Map the content terms to the first word of the text with this stem."""
    return {term: text[start:end] for start, end, term in reversed(list(english_terms(text)))}


# Characters of texts whose words `TermFinder` does not look for together: words need the full pattern, or lower case may have
# another length, or the folded word other letters.
_UNUSUAL = re.compile(
    "[^\0-\xa9\xab-\xb1\xb4\xb6-\xb8\xbb\xbf-\xde\xe0-\u012f\u0131\u0134-\u013e\u0141-\u0148\u014a-\u017e\u0180-\u01c3"
    "\u01cd-\u01ef\u01f4-\u02af\u0370-\u0373\u0375-\u0379\u037b-\u038f\u0391-\u03af\u03b1-\u03c1\u03c3-\u03cf\u03d7-\u03ef"
    "\u03fa-\u0482\u048a-\u0586\u2000-\u206f\u20a0-\u20cf\u2116-\u2118\u2120-\u2123\u2190-\u245f\u2500-\u2c7b]"
)
_USUAL_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


@cache
def _letters() -> BoolArray:
    """Return which of the usual characters are letters or digits."""
    return np.array([chr(code).isalnum() for code in range(0x2C80)])


class TermFinder(dict[str, tuple[str, ...]]):
    """A search for terms in texts, as fast as many calls of `content_terms`.

    It stems only words whose first three letters begin one of the stems, since a stem keeps the first letter of its word and all
    but the last two. As a dictionary, it maps each word seen so far to its terms.

    Args:
        terms: The terms that each stem stands for.
    """

    def __init__(self, terms: Mapping[str, tuple[str, ...]]) -> None:
        self._terms = terms
        # A table over the last five bits of each of the first three letters of a word.
        self._begins = np.zeros((32, 32, 32), bool)
        for first, *rest in ([ord(letter) & 31 for letter in stem] for stem in terms):
            second, third = (rest[at] if len(rest) > at + 2 else slice(None) for at in range(2))
            self._begins[first, second, third] = True

    def __missing__(self, word: str) -> tuple[str, ...]:
        folded = fold(word)
        self[word] = found = () if folded in STOP_WORDS else self._terms.get(_stem(folded), ())
        return found

    def places(self, texts: Sequence[str]) -> list[list[tuple[int, str]]]:
        """Return, for each text, the offsets of the words whose stem is a term, with that term, in order."""
        found: list[list[tuple[int, str]]] = [[] for _ in texts]
        lowered = {at: text.lower() for at, text in enumerate(texts) if text.isascii() or not _UNUSUAL.search(text)}
        usual, begins = list(lowered), np.cumsum([0, *(len(text) + 1 for text in lowered.values())])
        # Every character of a text needs two more.
        whole = "\n".join([*lowered.values(), "\n"]).replace("’", "'")
        # Where words begin whose stem may be one of the terms.
        codes = np.frombuffer(whole.encode("utf-16-le"), np.uint16)
        bits = codes & 31
        likely = np.flatnonzero(self._begins.take(bits[:-2] << 10 | bits[1:-1] << 5 | bits[2:]))
        # At the first letter, this index wraps to the end of the text, which is not a letter.
        before, is_letter = codes[likely - 1], _letters()
        # The part after an apostrophe within a word belongs to the word.
        within = is_letter[before] | (before == ord("'")) & is_letter[codes[likely - 2]]
        starts: IntArray = likely[~within]
        owners = begins.searchsorted(starts, "right") - 1
        offsets = (starts - begins[owners]).tolist()
        for start, owner, offset in zip(starts.tolist(), owners.tolist(), offsets, strict=True):
            if word := _USUAL_WORD.match(whole, start):
                for term in self[word[0]]:
                    found[usual[owner]].append((offset, term))
        for at in range(len(texts)) if len(usual) < len(texts) else ():
            if at not in lowered:
                text, offsets = composed(texts[at])
                matches = _WORD.finditer(text)
                found[at] = [(offsets[match.start()], term) for match in matches for term in self[match[0].lower()]]
        return found


@cache
def stemmer(algorithm: str) -> Any:
    """Return the Snowball stemmer of a language.

    PyStemmer is written in C and holds the interpreter's lock while it stems a word, so that threads may share one stemmer.
    """
    import Stemmer

    return Stemmer.Stemmer(algorithm, 0)


@lru_cache(100_000)
def _stem(word: str) -> str:
    return str(stemmer("english").stemWord(american(word.replace("’", "'"))))


# British endings with their American forms, which keep the first two letters of a word
_ENDINGS = (
    (r"(?<=\w\w)our", "or"),
    (r"(?<=\w\w\wi|\w\w\wy)s(?=(?:e[drs]?|ing|ations?)\Z)", "z"),
    (r"(?<=\w\w[btv])re(?=s?\Z)", "er"),
    (r"(?<=\w\w)ogue(?=s?\Z)", "og"),
)


def american(word: str) -> str:
    """Return a word in lower case with American endings. Some are no words, but the same for each spelling."""
    for british, ending in _ENDINGS:
        word = re.sub(british, ending, word)
    return word
