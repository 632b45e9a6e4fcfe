"""Overlapping windows over a sequence of units, which are never split."""

from __future__ import annotations

from collections.abc import Sequence


def windows(sizes: Sequence[int], size: int, overlap: int) -> list[tuple[int, int]]:
    """Return windows as ranges (first, end) of units, of at most `size`, with an overlap of at most `overlap`.

    A unit above `size` is a window by itself. Windows cover all units, and each adds at least one new unit. The last window ends
    with the last unit, so a tail shorter than the overlap is neither dropped nor a window by itself.
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
        # the next window starts as early as the overlap and the size of the next unit allow
        start, shared, room = end, 0, min(overlap, size - sizes[end])
        while start - 1 > first and shared + sizes[start - 1] <= room:
            start -= 1
            shared += sizes[start]
        first = start
    return ranges
