from __future__ import annotations

from mergewise.text.sections import LONGEST_NAME, heading_path, place_of, short_name


def test_a_path_of_headings() -> None:
    assert heading_path("", ["One", "", "Two"]) == "One › Two"


def test_the_place_of_a_file_in_words() -> None:
    assert place_of("docs/starlette/set-cookie_options.md") == "docs starlette set cookie options"
    assert place_of("/a/b/c/d/e.rst") == "c d e"
    assert place_of("日本/文書.md") == "日本 文書"
    assert [place_of(name) for name in ("", ".", "..", "/", "a/")] == ["", "", "", "", "a"]


def test_a_long_name_is_cut() -> None:
    assert short_name("x" * LONGEST_NAME) == "x" * LONGEST_NAME and short_name("") == ""
    assert short_name("x" * 298 + "  " + "y" * 9000) == "x" * 298 + "…"
