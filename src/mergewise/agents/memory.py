"""The parts of documents that a session was shown, so that they are not shown again."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from mergewise.extend import union
from mergewise.types import Document, Part, Span

MOST_DOCUMENTS = 1_000
"""Documents of a session. Beyond them, the one that was shown longest ago is forgotten."""


class Memory:
    """Parts shown, by document and the state of its text, in offsets. `parts` are JSON values."""

    def __init__(self, parts: dict[str, list[list[int]]] | None = None) -> None:
        self.parts = parts or {}

    def new(self, document: Document, span: Span) -> list[Part]:
        """Return the parts of the span that were not shown."""
        left, at = list[Part](), span.start
        for start, end in [*self.parts.get(_key(document), ()), (span.end, span.end)]:
            left.append((at, min(start, span.end)))
            at = max(at, end)
        return [(start, end) for start, end in left if start < end]

    def add(self, document: Document, parts: Iterable[Part]) -> None:
        """Remember the parts."""
        key = _key(document)
        known = [(start, end) for start, end in self.parts.pop(key, ())]
        self.parts[key] = [[start, end] for start, end in union([*known, *parts])]
        while len(self.parts) > MOST_DOCUMENTS:
            del self.parts[next(iter(self.parts))]


def _key(document: Document) -> str:
    return f"{crc32(document.text.encode('utf-8', 'replace')):08x} {document.id}"
