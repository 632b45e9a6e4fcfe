"""Word pieces by the vocabulary that ships with the package, without network access, special tokens or truncation.

The `minilm` embedder uses the same vocabulary. Truncation and padding are state of a `tokenizers.Tokenizer`. They stay off in the
shared tokenizer, so callers with a limit truncate the results themselves.
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
from mergewise.models.o200k import count_o200k

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from tokenizers import Encoding, Tokenizer

    from mergewise.protocols import TokenCounter

    OffsetArray: TypeAlias = npt.NDArray[np.int32]

VOCABULARY = Path(__file__).parent / "minilm" / "tokenizer.json"
SURROGATE = re.compile("[\ud800-\udfff]")


@cache
def load_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json`, loaded once per process. Callers and threads share it: do not change its state.

    Raises:
        UsageError: if the file is missing or invalid.
    """
    from tokenizers import Tokenizer

    try:
        # the path may come from a folder's configuration, so only a regular file of limited size is read
        tokenizer = Tokenizer.from_buffer(regular_bytes(path, _LONGEST, follow=True))
    # the library raises bare exceptions
    except Exception as error:
        raise UsageError(
            f"invalid tokenizer file {path}: {error}", "give the tokenizer.json of a Hugging Face tokenizer"
        ) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # "[SEP]" in a document is plain text, and must not end the model's input
    tokenizer.encode_special_tokens = True
    return tokenizer


def encode(texts: Sequence[str], *, marks: bool, offsets: bool, tokenizer: Tokenizer | None = None) -> list[Encoding]:
    """Split each text into tokens, with or without the `marks` of beginning and end. It is faster without `offsets`.

    Without a tokenizer, the tokens are word pieces of the shipped vocabulary.
    """
    tokenizer = tokenizer or load_tokenizer(VOCABULARY)
    encode_batch = tokenizer.encode_batch if offsets else tokenizer.encode_batch_fast
    try:
        return list(encode_batch(list(texts), add_special_tokens=marks))
    except TypeError:
        # broken files may hold lone surrogates, which Python accepts and the tokenizer rejects
        return list(encode_batch([SURROGATE.sub("\ufffd", text) for text in texts], add_special_tokens=marks))


def count_tokens(texts: Sequence[str]) -> list[int]:
    """Count the word pieces of texts, as a `TokenCounter`.

    Word pieces do not cross spaces, so the count of a text is the sum of its words' counts. Counts of words are cached, because
    words repeat (`benchmarks/tokens.py` measures the gain).

    Args:
        texts: the texts.

    Returns:
        The number of word pieces of each text.
    """
    known = _memory()
    counts: list[int] = []
    unknown: dict[int, list[str]] = {}
    for text in texts:
        words = text.replace("\n", " ").split(" ")
        try:
            counts.append(sum(map(known.get, words)))  # type: ignore[arg-type]
        # a word without a cached count gives None
        except TypeError:
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
"""Maximum of characters of a cached word. Longer ones are links or encoded pictures, which rarely repeat."""

_remembered: dict[str, int] = {}


def _memory() -> dict[str, int]:
    """Return the cache of word counts. A full cache is replaced, not cleared, because another thread may be reading it."""
    global _remembered
    if len(_remembered) > MOST_REMEMBERED:
        _remembered = {}
    return _remembered


# Within a word, word pieces do not cross ASCII white space or punctuation either.
_PART = re.compile(r"[!-/:-@\[-`{-~]|[^\t\r\n !-/:-@\[-`{-~]+")


def _count_words(words: Collection[str]) -> dict[str, int]:
    """Count the word pieces of each word, part by part. Parts in the vocabulary are one piece, the tokenizer counts the rest."""
    parts = {word: _PART.findall(word) for word in words}
    pieces = dict.fromkeys(chain.from_iterable(parts.values()), 1)
    number_of = load_tokenizer(VOCABULARY).token_to_id
    if unknown := [part for part in pieces if not part.isascii() or number_of(part.lower()) is None]:
        # The tokenizer gets all parts at once, separated by full stops.
        (encoding,) = encode([_STOP.join(unknown)], marks=False, offsets=False)
        stop, counts = number_of(_STOP), [0]
        for piece in encoding.ids:
            if piece == stop:
                counts.append(0)
            else:
                counts[-1] += 1
        pieces.update(zip(unknown, counts, strict=True))
    return {word: sum(map(pieces.__getitem__, split)) for word, split in parts.items()}


_STOP = "."


def token_offsets(text: str) -> OffsetArray:
    """Return the start and end of each word piece in characters, half-open, shape (tokens, 2)."""
    import numpy as np

    (encoding,) = encode([text], marks=False, offsets=True)
    return np.array(encoding.offsets, dtype=np.int32).reshape(-1, 2)


_LONGEST = 1 << 29
"""Maximum of bytes of a tokenizer.json."""


def token_counter(name: str | Path, chat: str = "") -> TokenCounter:
    """Return a `TokenCounter` by its name.

    Args:
        name: "o200k" (OpenAI's models, close for others), "wordpiece" (the shipped vocabulary), or the folder or `tokenizer.json`
            of a Hugging Face model, with or without "hf:". Empty for the counter of the chat model, or o200k if it is unknown.
        chat: Spec of the chat model.

    Raises:
        UsageError: for an invalid tokenizer file.
    """
    head, mark, tail = str(name or chat).partition("hf:")
    path = Path(head, tail)
    if path.is_dir():
        path /= "tokenizer.json"
    if path.name == "wordpiece" and not path.exists():
        return count_tokens
    # a folder of this name is no model unless the caller says so
    if not (name or mark) or (not path.exists() and (not name or path.name == "o200k")):
        return count_o200k
    tokenizer = load_tokenizer(path)
    return lambda texts: [len(e) for e in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
