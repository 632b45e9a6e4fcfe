"""Chunks of a fixed size that ignore sentences: the baseline Fixed-Size of M-RAG (section 3.1).

Differences from the paper:
- Tokens are counted by the built-in tokenizer.
- A chunk ends between words and has at most `size` tokens. Only a word longer than a chunk is cut. In scripts without spaces a
  character counts as a word.
- A chunk is searched and embedded with its title and shared headings, as in every other view, so that strategies differ only in
  how they split.
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
from mergewise.text.spans import texts_at
from mergewise.types import DocumentRows, Part

_SPACELESS = "぀-ヿ㐀-鿿\uf900-\ufaff"  # kana, Chinese characters
_WORD = re.compile(rf"[{_SPACELESS}][^\w\s]*\s*|[^\s{_SPACELESS}]+\s*")


def build(documents: Sequence[DocumentRows], settings: FixedSettings, models: Models) -> list[ViewRows]:
    """Split each document into chunks."""
    bounds = [fixed_bounds(rows.document.text, settings.size, models.count_tokens) for rows in documents]
    return rows_from(FIXED, documents, bounds, [BY_SIZE] * len(documents), models)


def fixed_bounds(text: str, size: int, count_tokens: TokenCounter) -> list[Part]:
    """Return the offsets of consecutive chunks of whole words, with at most `size` tokens each."""
    words: list[Part] = []
    # Each word has the white space after it. They tile the text.
    starts = [match.start() for match in _WORD.finditer(text)]
    for start, end in pairwise([0, *starts[1:], len(text)]) if text else ():
        if 3 * (end - start) <= size:  # no character has more than three tokens (Korean syllables)
            words.append((start, end))
        else:
            words += split_long(text, start, end, size, lambda piece: count_tokens([piece])[0])
    sizes = count_tokens(texts_at(text, words))
    return [(words[first][0], words[end - 1][1]) for first, end in windows(sizes, size, 0)]
