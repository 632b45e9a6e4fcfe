"""The vocabulary of a unigram model (Kudo, arXiv:1804.10959) with 250,000 pieces, whose tokenizer is ready at once.

To load all pieces takes half a second, which a question would wait for. But the tokens of a text depend only on the pieces that
occur in it. So for short texts, a tokenizer is made of these pieces alone. They are looked up in a sorted list.

`pieces.txt` holds the pieces sorted by their bytes, one a line, and `scores.bin` their scores. The number of a piece is its rank.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mergewise.models.tokens import SURROGATE
from mergewise.types import Part

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.normalizers import Normalizer

FEW = 4000
"""Maximum of characters for which pieces are looked up, instead of loading all of them."""

WORDS = 10_000
"""Number of words whose pieces are kept."""

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"


class Tokens(NamedTuple):
    """The numbers of a text's tokens, with the marks of beginning and end, and their places in characters."""

    ids: list[int]
    offsets: list[Part]


@cache
def vocabulary(folder: Path) -> Vocabulary:
    """Return the vocabulary of a folder, loaded once per process."""
    return Vocabulary(folder)


class Vocabulary:
    """The pieces of a folder and their scores. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._bytes = (folder / "pieces.txt").read_bytes()
        self._ends = np.flatnonzero(np.frombuffer(self._bytes, np.uint8) == ord("\n")).tolist()
        self._scores = np.fromfile(folder / "scores.bin", "<f4")
        marks = [bisect_left(self._ranks, mark.encode(), key=self._piece) for mark in (UNKNOWN, BEGIN, END)]
        # questions share many words
        self._found_in = lru_cache(WORDS)(self._pieces_of)
        # an unknown character costs more than the least likely piece
        self._always = [*marks, int(self._scores.argmin())]

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        texts = [SURROGATE.sub("\ufffd", text) for text in texts]
        if "_whole" in self.__dict__ or sum(map(len, texts)) > FEW:
            return [Tokens(encoding.ids, encoding.offsets) for encoding in self._whole.encode_batch(texts)]
        found = (number for text in texts for number in self._found(text))
        numbers = list(dict.fromkeys([*self._always, *found]))
        encodings = self._tokenizer(numbers).encode_batch(texts)
        return [Tokens([numbers[i] for i in encoding.ids], encoding.offsets) for encoding in encodings]

    @property
    def _ranks(self) -> range:
        return range(len(self._ends))

    @cached_property
    def _whole(self) -> Tokenizer:
        return self._tokenizer(self._ranks)

    @cached_property
    def _normalizer(self) -> Normalizer:
        from tokenizers import Regex, normalizers

        spaces = normalizers.Replace(Regex(" {2,}"), " ")
        return normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), spaces])

    def _tokenizer(self, numbers: Sequence[int]) -> Tokenizer:
        from tokenizers import Tokenizer, models, pre_tokenizers, processors

        unknown, begin, end = map(numbers.index, self._always[:3])
        pieces = [(self._piece(number).decode(), float(self._scores[number])) for number in numbers]
        # "</s>" in a document is plain text. Normalised texts have no line breaks, so they never hold these pieces.
        for mark in (begin, end):
            pieces[mark] = "\n" + pieces[mark][0], pieces[mark][1]
        tokenizer = Tokenizer(models.Unigram(pieces, unk_id=unknown))
        tokenizer.normalizer = self._normalizer
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{BEGIN} $A {END}", special_tokens=[(BEGIN, begin), (END, end)]
        )
        return tokenizer

    def _found(self, text: str) -> Iterator[int]:
        """Yield the numbers of all pieces that occur in a text."""
        for word in set(self._normalizer.normalize_str(text).split(" ")):
            yield from self._found_in(word)

    def _pieces_of(self, word: str) -> list[int]:
        part, found = ("\u2581" + word).encode(), []
        for start in range(len(part)):
            low, ranks = 0, self._ranks
            for end in range(start + 1, len(part) + 1):
                prefix = part[start:end]
                low = bisect_left(ranks, prefix, low, key=self._piece)
                if low == len(ranks) or not (piece := self._piece(low)).startswith(prefix):
                    break
                if piece == prefix:
                    found.append(low)
        return found

    def _piece(self, rank: int) -> bytes:
        return self._bytes[self._ends[rank - 1] + 1 if rank else 0 : self._ends[rank]]
