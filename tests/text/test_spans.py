from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.readers import SUFFIXES
from mergewise.text.spans import CONVERTED, has_lines, line_at, line_starts, margin_at, union

parts = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)).map(lambda p: (p[0], p[0] + p[1])), max_size=8)


def test_overlapping_or_touching_parts_are_joined() -> None:
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


@given(st.text("ab\n", max_size=30))
def test_lines_match_split(text: str) -> None:
    starts = line_starts(text)
    assert [text[a:].split("\n")[0] for a in starts] == text.split("\n")
    for offset in range(len(text)):
        assert line_at(text, offset) == max(n for n, start in enumerate(starts, 1) if start <= offset)


def test_the_margin_of_an_offset_is_white_space_that_begins_its_line() -> None:
    text = "if x:\n\n\trun()\n    a b\n"
    assert [margin_at(text, text.index(word)) for word in ("if", "run", "a b", "b\n")] == ["", "\t", "    ", ""]
    assert margin_at(text, len(text)) == ""


@pytest.mark.parametrize("suffix", sorted(SUFFIXES))
def test_a_format_has_lines_if_its_reader_changes_nothing(suffix: str) -> None:
    """Each new reader must decide: lines of the text are lines of the file, or the suffix is among the converted ones."""
    if suffix not in CONVERTED:
        source = "Title\n=====\n\nOne line\nand another.\n\n- item\n"
        assert SUFFIXES[suffix](source.encode()).text == source


def test_a_document_without_suffix_is_its_own_source() -> None:
    assert has_lines("note-1") and has_lines("src/a.py") and has_lines("Docs/Read.MD")
    assert not has_lines("report.PDF") and not has_lines("a.b/page.html")
