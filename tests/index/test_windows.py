"""Overlapping windows against a literal search for the widest overlap."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mergewise.index.windows import windows

SIZES = st.lists(st.integers(0, 12), max_size=14)


def literal(sizes: list[int], size: int, overlap: int) -> list[tuple[int, int]]:
    """Return windows of maximum length. Each begins at the earliest possible unit."""
    ranges: list[tuple[int, int]] = []
    first = 0
    while first < len(sizes):
        ends = [end for end in range(first + 1, len(sizes) + 1) if end == first + 1 or sum(sizes[first:end]) <= size]
        last = first + 1
        for end in ends:
            if all(sum(sizes[first:e]) <= size for e in range(first + 2, end + 1)):
                last = end
        ranges.append((first, last))
        if last == len(sizes):
            break
        starts = [
            start
            for start in range(first + 1, last + 1)
            if sum(sizes[start:last]) <= overlap and sum(sizes[start : last + 1]) <= size
        ]
        first = min(starts, default=last)
    return ranges


@given(SIZES, st.integers(1, 20), st.integers(0, 20))
def test_windows_equal_a_literal_search(sizes: list[int], size: int, overlap: int) -> None:
    assert windows(sizes, size, overlap) == literal(sizes, size, overlap)


@given(SIZES, st.integers(1, 20), st.integers(0, 20))
def test_windows_cover_all_units_and_each_adds_a_new_one(sizes: list[int], size: int, overlap: int) -> None:
    ranges = windows(sizes, size, overlap)
    assert {unit for first, end in ranges for unit in range(first, end)} == set(range(len(sizes)))
    for first, end in ranges:
        assert sum(sizes[first:end]) <= size or end == first + 1
    for (first, end), (following, last) in pairwise(ranges):
        assert first < following <= end < last
        assert sum(sizes[following:end]) <= overlap
    assert not ranges or ranges[-1][1] == len(sizes)
