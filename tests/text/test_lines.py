from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.readers import SUFFIXES
from mergewise.text.lines import CONVERTED, has_lines, line_at, line_starts


@given(st.text("ab\n", max_size=30))
def test_lines_are_those_of_split(text: str) -> None:
    starts = line_starts(text)
    assert [text[a:].split("\n")[0] for a in starts] == text.split("\n")
    for offset in range(len(text)):
        assert line_at(text, offset) == max(n for n, start in enumerate(starts, 1) if start <= offset)


@pytest.mark.parametrize("suffix", sorted(SUFFIXES))
def test_a_format_has_lines_where_its_reader_changes_nothing(suffix: str) -> None:
    """Whoever adds a reader decides: lines of the text are lines of the file, or the suffix is among the converted ones."""
    if suffix not in CONVERTED:
        source = "Title\n=====\n\nOne line\nand another.\n\n- item\n"
        assert SUFFIXES[suffix](source.encode()).text == source


def test_what_has_no_suffix_is_its_own_source() -> None:
    assert has_lines("note-1") and has_lines("src/a.py") and has_lines("Docs/Read.MD")
    assert not has_lines("report.PDF") and not has_lines("a.b/page.html")
