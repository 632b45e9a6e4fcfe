from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mergewise.text.spans import union

parts = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)).map(lambda p: (p[0], p[0] + p[1])), max_size=8)


def test_parts_that_overlap_or_touch_are_one() -> None:
    assert union([(8, 9), (0, 3), (3, 5), (4, 6)]) == [(0, 6), (8, 9)]
    assert union([]) == []


def test_white_space_of_a_text_joins_parts_and_words_do_not() -> None:
    text = "one  two x six"
    assert union([(0, 3), (5, 8), (11, 14)], text) == [(0, 8), (11, 14)]
    assert union([(0, 3), (5, 8)]) == [(0, 3), (5, 8)]


@given(parts)
def test_every_character_is_held_once(some: list[tuple[int, int]]) -> None:
    held = [i for start, end in union(some) for i in range(start, end)]
    assert held == sorted({i for start, end in some for i in range(start, end)})
