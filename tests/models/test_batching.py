"""Groups of rows of similar lengths, against all partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from mergewise.models.causal.rows import alike


def partitions(places: Sequence[int]) -> Iterator[list[list[int]]]:
    if not places:
        yield []
        return
    first, *rest = places
    for parts in partitions(rest):
        yield [[first], *parts]
        for number, part in enumerate(parts):
            yield [*parts[:number], [first, *part], *parts[number + 1 :]]


def cost(groups: Sequence[Sequence[int]], lengths: Sequence[int], price: int) -> int:
    return sum(price + len(group) * max(lengths[place] for place in group) for group in groups)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=7), st.integers(0, 40))
def test_the_partition_has_the_lowest_cost(lengths: list[int], price: int) -> None:
    groups = alike(lengths, price)
    assert sorted(place for group in groups for place in group) == list(range(len(lengths)))
    assert all(group == sorted(group) for group in groups)
    assert cost(groups, lengths, price) == min(cost(parts, lengths, price) for parts in partitions(range(len(lengths))))


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=60), st.integers(0, 500))
def test_rows_of_equal_length_stay_together(lengths: list[int], price: int) -> None:
    group_of = {place: number for number, group in enumerate(alike(lengths, price)) for place in group}
    assert len({(length, group_of[place]) for place, length in enumerate(lengths)}) == len(set(lengths))


def test_many_rows_do_not_recurse_deeply() -> None:
    assert len(alike([5] * 1000, 1)) == 1
