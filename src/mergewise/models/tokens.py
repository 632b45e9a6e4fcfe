"""Word pieces by the vocabulary that ships with the package: no network, no special tokens, no truncation.

The `minilm` embedder uses the same vocabulary. Truncation and padding are states of a `tokenizers.Tokenizer`. In the shared
one they are never turned on: a caller that has a limit cuts the lists that come back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from mergewise.errors import UsageError

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
    """Word pieces of each text. A `TokenCounter`."""
    return [len(encoding) for encoding in encode(texts, marks=False, offsets=False)]


def token_offsets(text: str) -> OffsetArray:
    """Where each word piece stands in `text`: shape (tokens, 2), half-open, in characters."""
    import numpy as np

    (encoding,) = encode([text], marks=False, offsets=True)
    return np.array(encoding.offsets, dtype=np.int32).reshape(-1, 2)


def counter_from_file(path: Path) -> TokenCounter:
    """A `TokenCounter` by another model's `tokenizer.json`, so that budgets are exact for that model."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare exceptions
        raise UsageError(
            f"{path} is not a tokenizer.json: {error}", "give the file of a Hugging Face tokenizer"
        ) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda texts: [len(e) for e in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
