"""Plain text: the decoded file is the text, and there is no outline to find. A header block gives title and metadata."""

from __future__ import annotations

from mergewise.readers.builder import Parsed
from mergewise.readers.decoding import decode
from mergewise.readers.header import header_pairs, title_in
from mergewise.readers.metadata import found


def read_plain(data: bytes) -> Parsed:
    text = decode(data)
    pairs = header_pairs(text)
    return Parsed(text, title_in(pairs), metadata=found(pairs))
