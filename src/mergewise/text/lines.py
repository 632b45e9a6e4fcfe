"""Lines of a text, numbered from 1 as editors do."""

from __future__ import annotations


def line_at(text: str, offset: int) -> int:
    """The number of the line that holds this offset."""
    return text.count("\n", 0, offset) + 1


def line_starts(text: str) -> list[int]:
    """The offsets at which lines begin."""
    starts = [0]
    while found := text.find("\n", starts[-1]) + 1:
        starts.append(found)
    return starts
