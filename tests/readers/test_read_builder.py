"""The builder's offsets and the grid of merged cells."""

from __future__ import annotations

from mergewise.readers.builder import Builder, one_line, tidy
from mergewise.readers.table import Cell, fill_grid
from mergewise.types import Heading, Page


def test_offsets() -> None:
    builder = Builder()
    builder.page()
    builder.heading(1, " A \n title ")
    builder.paragraph("text")
    builder.page()
    builder.page()
    builder.item("one\nmore")
    builder.item("two", marker="2.", depth=1)
    builder.paragraph(" \n ")
    builder.verbatim("\n  code  \n\n  end\n")
    builder.page()
    parsed = builder.build()
    assert parsed.text == "A title\n\ntext\n\n- one\n  more\n  2. two\n\n  code\n\n  end"
    assert parsed.outline == (Heading(1, "A title", 0, 7),)
    length = len(parsed.text)
    assert parsed.pages == (Page(1, 0, 15), Page(2, 15, 15), Page(3, 15, length), Page(4, length, length))
    assert parsed.title == "A title"


def test_empty_builder() -> None:
    assert Builder().build().text == ""


def test_invisible_characters_are_removed() -> None:
    assert one_line("a\x00\xad\u200bb\xa0 \tc\ufffe\ud800") == "ab c"
    assert tidy(" a \n\n b\tc ") == "a\nb c"


def test_each_row_of_a_merged_cell_has_its_text() -> None:
    rows = [[Cell("a", 2), Cell("b", rows=3)], [Cell("c", rows=2), Cell("d")], [Cell("e")], [Cell("f")]]
    assert fill_grid(rows) == [["a", "", "b"], ["c", "d", "b"], ["c", "e", "b"], ["f"]]
