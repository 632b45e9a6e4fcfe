"""Chunks of a fixed size, with no regard for sentences: the baseline Fixed-Size of M-RAG (section 3.1).

Where we differ, and why:
- tokens are those of the counter that ships with the package;
- a chunk ends between words, so that it has up to `size` tokens and never half a word; only a word that is longer than a chunk is
  cut. In scripts without spaces a character counts as a word;
- the title, and the headings that stand above all of a chunk, are searched and embedded with it, as for every other view, so that
  strategies differ in where they cut alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from mergewise.designs.mrag.chunks.records import BY_SIZE, FIXED, FixedSettings, rows_from
from mergewise.index.windows import windows
from mergewise.models.record import Models
from mergewise.protocols import TokenCounter
from mergewise.store.views import ViewRows
from mergewise.text.sentences import split_long
from mergewise.text.spans import Part
from mergewise.types import DocumentRows

_SPACELESS = "぀-ヿ㐀-鿿\uf900-\ufaff"  # kana, Chinese characters
_WORD = re.compile(rf"[{_SPACELESS}][^\w\s]*\s*|[^\s{_SPACELESS}]+\s*")


def build(documents: Sequence[DocumentRows], settings: FixedSettings, models: Models) -> list[ViewRows]:
    """The chunks of each document."""
    bounds = [fixed_bounds(rows.document.text, settings.size, models.count_tokens) for rows in documents]
    return rows_from(FIXED, documents, bounds, [BY_SIZE] * len(documents), models)


def fixed_bounds(text: str, size: int, count_tokens: TokenCounter) -> list[Part]:
    """Where chunks of as many whole words as `size` tokens hold stand in the text, one after the other."""
    words = [piece for word in _words(text) for piece in _pieces(text, word, size, count_tokens)]
    sizes = count_tokens([text[start:end] for start, end in words])
    return [(words[first][0], words[end - 1][1]) for first, end in windows(sizes, size, 0)]


def _words(text: str) -> list[Part]:
    """Words with the white space after them: they tile the text."""
    starts = [match.start() for match in _WORD.finditer(text)]
    return list(pairwise([0, *starts[1:], len(text)])) if text else []


def _pieces(text: str, word: Part, size: int, count_tokens: TokenCounter) -> list[Part]:
    """The word itself, or pieces of at most `size` tokens."""
    if 3 * (word[1] - word[0]) <= size:  # a Korean syllable has up to three tokens, no character more
        return [word]
    return split_long(text, *word, size, lambda piece: count_tokens([piece])[0])
