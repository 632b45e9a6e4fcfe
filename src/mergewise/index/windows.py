"""Overlapping windows over a row of units, which are never cut."""

from __future__ import annotations

from collections.abc import Sequence


def windows(sizes: Sequence[int], size: int, overlap: int) -> list[tuple[int, int]]:
    """Ranges (first, end) of units: each of at most `size`, and the next goes back over at most `overlap` of it.

    A unit above `size` stands alone. Every window but the first brings something new, every unit is in one, and the last
    window ends with the last unit: a tail shorter than the overlap is never dropped, and never a window of its own.
    """
    ranges: list[tuple[int, int]] = []
    first = 0
    while first < len(sizes):
        end, total = first + 1, sizes[first]
        while end < len(sizes) and total + sizes[end] <= size:
            total += sizes[end]
            end += 1
        ranges.append((first, end))
        if end == len(sizes):
            break
        first = _back(sizes, first, end, size, overlap)
    return ranges


def _back(sizes: Sequence[int], first: int, end: int, size: int, overlap: int) -> int:
    """Where the window after (first, end) begins: as far back as the overlap allows and the next unit still fits."""
    start, shared = end, 0
    room = min(overlap, size - sizes[end])
    while start - 1 > first and shared + sizes[start - 1] <= room:
        start -= 1
        shared += sizes[start]
    return start
