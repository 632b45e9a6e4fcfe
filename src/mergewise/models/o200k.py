"""Tokens of OpenAI's encoding o200k (GPT-4o to GPT-5), counted without its packages and without a network.

`scripts/o200k.py` converts the ranks. A text is cut into pieces by the encoding's expression. Python's `re` lacks its Unicode
classes, so it runs over a text of the same length with one letter for each class. The bytes of a piece are merged by rank.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from functools import cache, lru_cache
from heapq import heapify, heappop, heappush
from itertools import accumulate, pairwise
from pathlib import Path
from unicodedata import category

FILE = Path(__file__).parent / "o200k" / "ranks.bin"
TOKENS = 199_998

_CLASSES = {"Lu": "B", "Lt": "B", "Ll": "a", "L": "o", "M": "x", "N": "1"}
_UPPER, _LOWER, _BEFORE = "BDELMRSTVox", "adelmrstvox", "[ \t./'x]?"
_SUFFIX = "(?:'(?:[stmdSTMD]|[rR][eE]|[vV][eE]|[lL][lL]))?"
_PIECE = re.compile(
    f"{_BEFORE}[{_UPPER}]*[{_LOWER}]+{_SUFFIX}|{_BEFORE}[{_UPPER}]+[{_LOWER}]*{_SUFFIX}|1{{1,3}}| ?[./'x]+[\r\n/]*"
    "|[ \t\r\n]*[\r\n]+|[ \t\r\n]+(?![^ \t\r\n])|[ \t\r\n]+"
)


class _Classes(dict[int, str]):
    """The letter of each character's class. Characters that the expression names stand for themselves."""

    def __missing__(self, code: int) -> str:
        character, kind = chr(code), category(chr(code))
        letter = _CLASSES.get(kind) or _CLASSES.get(kind[0], ".")
        if character in " \r\n/'delmrstvDELMRSTV":
            letter = character
        elif character.isspace() and not "\x1c" <= character <= "\x1f":
            letter = "\t"
        self[code] = letter
        return letter


_classes = _Classes({ord("ſ"): "s"})


def count_o200k(texts: Sequence[str]) -> list[int]:
    """Count the o200k tokens of each text, as a `TokenCounter`. Special tokens in a text are plain text."""
    spans = [[match.span() for match in _PIECE.finditer(text.translate(_classes))] for text in texts]
    return [sum([_tokens(text[start:end]) for start, end in own]) for text, own in zip(texts, spans, strict=True)]


@lru_cache(200_000)
def _tokens(piece: str) -> int:
    """Count the tokens of a piece: merge the neighbours of the lowest rank until no merge is left."""
    ranks, text = _ranks(), piece.encode("utf-8", "replace")
    if text in ranks:
        return 1
    count = len(text)
    # the end of the part that begins at each byte, 0 if none does, and the beginning of the part before
    ends, before = list(range(1, count + 1)), list(range(-1, count - 1))
    merges = [(ranks[text[i : i + 2]], i, i + 2) for i in range(count - 1) if text[i : i + 2] in ranks]
    heapify(merges)
    while merges:
        _, start, end = heappop(merges)
        middle = ends[start]
        # a neighbour was merged in the meantime
        if not 0 < middle < len(text) or ends[middle] != end:
            continue
        ends[start], ends[middle] = end, 0
        count -= 1
        beyond = ends[end] if end < len(text) else 0
        if beyond:
            before[end] = start
        for first, last in ((start, beyond), (before[start], end)):
            if first >= 0 and (rank := ranks.get(text[first:last])) is not None:
                heappush(merges, (rank, first, last))
    return count


@cache
def _ranks() -> dict[bytes, int]:
    """Return the rank of each token. The file has the lengths of all tokens in a byte each, then their bytes."""
    packed = zlib.decompress(FILE.read_bytes())
    cuts = accumulate(packed[:TOKENS], initial=TOKENS)
    return {packed[start:end]: rank for rank, (start, end) in enumerate(pairwise(cuts))}
