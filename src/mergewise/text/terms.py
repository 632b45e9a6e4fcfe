"""Content terms: the stems of the words that carry a question's meaning."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

_WORD = re.compile(r"[぀-ヿ㐀-鿿가-힯]|[^\W_]+(?:['’][^\W_]+)*")
STOP_WORDS = frozenset(
    """
    a an the this that these those there here it its he she his her him they them their we us our you your i me my
    is are was were be been being am do does did done doing have has had having can could may might must shall should
    will would of in on at by for from with without into onto to as than and or but not no nor so if then else about
    what which who whom whose when where why how many much any some all each both either neither between during
    after before over under again also very just only own same such too s t
    """.split()
)


def content_terms(text: str) -> frozenset[str]:
    """The stems of the words that are no (English) stop words; in scripts without spaces, single characters."""
    return frozenset(_stem(word) for word in (w.lower() for w in _WORD.findall(text)) if word not in STOP_WORDS)


def spelled_terms(text: str) -> dict[str, str]:
    """The content terms, each with the first word of the text that has this stem."""
    words = [word for word in _WORD.findall(text) if word.lower() not in STOP_WORDS]
    return {_stem(word.lower()): word for word in reversed(words)}


class TermFinder:
    """Finds its terms in texts: `terms & content_terms(text)`, but several times as fast.

    Only words that begin like one of the terms are stemmed, since a stem keeps all letters of its word but the last two.
    """

    def __init__(self, terms: frozenset[str]) -> None:
        beginnings = sorted({term[: max(1, len(term) - 2)] for term in terms}, key=lambda b: (-len(b), b))
        alternatives = "|".join(map(re.escape, beginnings)) or "(?!)"
        self._terms = terms
        self._candidate = re.compile(rf"(?<![^\W_])(?<![^\W_]')(?:{alternatives})[^\W_]*(?:'[^\W_]+)*")

    def find(self, text: str) -> frozenset[str]:
        return frozenset(term for _, term in self.positions(text))

    def positions(self, text: str) -> list[tuple[int, str]]:
        """The offsets of words whose stem is one of the terms, each with that term, in the order of the text."""
        lowered = text.lower()
        pattern = self._candidate if lowered.isascii() else _WORD
        return [
            (match.start(), stem)
            for match in pattern.finditer(lowered if len(lowered) == len(text) else text)
            if (word := match[0].lower()) not in STOP_WORDS and (stem := _stem(word)) in self._terms
        ]


@cache
def _stemmer() -> Any:
    """PyStemmer is written in C and holds the interpreter's lock while it stems a word, so that threads may share one stemmer."""
    import Stemmer

    return Stemmer.Stemmer("english", 0)


@lru_cache(100_000)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word.replace("’", "'")))
