"""Which rows are read together: padding is worked through like text, and every run of the network has a price of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache


def alike(lengths: Sequence[int], price: int) -> list[list[int]]:
    """The places of the rows, each group in order, so that the whole costs least.

    A group costs its longest row times the number of its rows, and `price` tokens. In some best partition the rows of each group
    stand next to each other by length, so the cuts between them are found by dynamic programming, in O(n^2).
    """
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])

    @cache
    def best(first: int) -> tuple[int, int]:
        """What the rows from here on cost, and where their first group ends."""
        if first == len(order):
            return 0, first
        ends = range(first + 1, len(order) + 1)
        return min((price + lengths[order[first]] * (end - first) + best(end)[0], -end) for end in ends)

    for start in reversed(range(len(order))):
        best(start)
    groups, first = [], 0
    while first < len(order):
        end = -best(first)[1]
        groups.append(sorted(order[first:end]))
        first = end
    return groups


def common_beginning(rows: Sequence[Sequence[int]]) -> int:
    """How many tokens all rows begin with; each keeps one token at least of its own."""
    first, last = min(rows, key=list), max(rows, key=list)
    most = min(map(len, rows)) - 1
    return next((i for i in range(most) if first[i] != last[i]), max(0, most))
