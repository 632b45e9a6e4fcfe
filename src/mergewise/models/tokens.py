"""Word pieces by the vocabulary that ships with the package: no network, no special tokens, no truncation.

The `minilm` embedder uses the same vocabulary. Truncation and padding are states of a `tokenizers.Tokenizer`, and in the
shared one they are never turned on: a caller with a limit cuts the lists that come back.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from mergewise.errors import UsageError
from mergewise.files import regular_bytes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from tokenizers import Encoding, Tokenizer

    from mergewise.protocols import TokenCounter

    OffsetArray: TypeAlias = npt.NDArray[np.int32]

VOCABULARY = Path(__file__).parent / "minilm" / "tokenizer.json"
SURROGATE = re.compile("[\ud800-\udfff]")


@cache
def wordpiece() -> Tokenizer:
    """The shipped tokenizer, loaded once a process. Shared between threads and uses: do not change its state."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(VOCABULARY))
    # A document that quotes "[SEP]" means these five characters; they must not end the model's input.
    tokenizer.encode_special_tokens = True
    return tokenizer


def encode(texts: Sequence[str], *, marks: bool, offsets: bool) -> list[Encoding]:
    """Word pieces of each text, with the `marks` of beginning and end or without. Without `offsets` is faster."""
    tokenizer = wordpiece()
    encode_batch = tokenizer.encode_batch if offsets else tokenizer.encode_batch_fast
    try:
        return list(encode_batch(list(texts), add_special_tokens=marks))
    except TypeError:
        # Half a surrogate pair is a Python character but not a Unicode one; broken files bring them.
        return list(encode_batch([SURROGATE.sub("\ufffd", text) for text in texts], add_special_tokens=marks))


def count_tokens(texts: Sequence[str]) -> list[int]:
    """Word pieces of each text. A `TokenCounter`.

    No word piece reaches over a space, so the pieces of a text are those of the words between its spaces. Words come again and
    again, so their counts are remembered; `benchmarks/tokens.py` measures what that saves.
    """
    known = _memory()
    counts: list[int] = []
    unknown: dict[int, list[str]] = {}
    for text in texts:
        words = text.replace("\n", " ").split(" ")
        try:
            counts.append(sum(map(known.get, words)))  # type: ignore[arg-type]
        except TypeError:  # None: a word is not known yet
            unknown[len(counts)] = words
            counts.append(0)
    if unknown:
        new = _count_words([word for word in set().union(*unknown.values()) if word not in known])
        known.update((word, count) for word, count in new.items() if len(word) <= LONGEST_REMEMBERED)
        for i, words in unknown.items():
            counts[i] = sum([new[word] if word in new else known[word] for word in words])
    return counts


MOST_REMEMBERED = 200_000
LONGEST_REMEMBERED = 40
"""Characters. What is longer is a link or an encoded picture, and will not come again."""

_remembered: dict[str, int] = {}


def _memory() -> dict[str, int]:
    """The words that have been counted. A full memory is replaced, not emptied: another thread may be reading it."""
    global _remembered
    if len(_remembered) > MOST_REMEMBERED:
        _remembered = {}
    return _remembered


# Within such a word, no word piece reaches over white space or punctuation of ASCII either.
_PART = re.compile(r"[!-/:-@\[-`{-~]|[^\t\r\n !-/:-@\[-`{-~]+")


def _count_words(words: Collection[str]) -> dict[str, int]:
    """Word pieces of each word, part by part: a part in the vocabulary is one piece, the tokenizer counts the others."""
    parts = {word: _PART.findall(word) for word in words}
    pieces = dict.fromkeys(chain.from_iterable(parts.values()), 1)
    number_of = wordpiece().token_to_id
    pieces.update(_count_parts([p for p in pieces if not p.isascii() or number_of(p.lower()) is None]))
    return {word: sum(map(pieces.__getitem__, split)) for word, split in parts.items()}


def _count_parts(parts: Collection[str]) -> dict[str, int]:
    """Word pieces of each part. The tokenizer gets all parts at once, with full stops between them."""
    if not parts:
        return {}
    (encoding,) = encode([_STOP.join(parts)], marks=False, offsets=False)
    stop = wordpiece().token_to_id(_STOP)
    counts = [0]
    for piece in encoding.ids:
        if piece == stop:
            counts.append(0)
        else:
            counts[-1] += 1
    return dict(zip(parts, counts, strict=True))


_STOP = "."


def token_offsets(text: str) -> OffsetArray:
    """Where each word piece stands in `text`: shape (tokens, 2), half-open, in characters."""
    import numpy as np

    (encoding,) = encode([text], marks=False, offsets=True)
    return np.array(encoding.offsets, dtype=np.int32).reshape(-1, 2)


_LONGEST = 1 << 29
"""Bytes of a tokenizer.json."""


def counter_from_file(path: Path) -> TokenCounter:
    """A `TokenCounter` by another model's `tokenizer.json`, so that budgets are exact for that model."""
    from tokenizers import Tokenizer

    try:
        # a folder's configuration may name it
        tokenizer = Tokenizer.from_buffer(regular_bytes(path, _LONGEST, follow=True))
    # the library raises bare exceptions
    except Exception as error:
        raise UsageError(
            f"{path} is not a tokenizer.json: {error}", "give the file of a Hugging Face tokenizer"
        ) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda texts: [len(e) for e in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
