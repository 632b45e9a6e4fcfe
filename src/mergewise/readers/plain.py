"""Plain text: the decoded file is the text, and there is no outline to find."""

from __future__ import annotations

from mergewise.readers.builder import Parsed
from mergewise.readers.decoding import decode


def read_plain(data: bytes) -> Parsed:
    return Parsed(decode(data))
