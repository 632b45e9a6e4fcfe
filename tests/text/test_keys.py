from __future__ import annotations

from mergewise.text.keys import heading_path, place_of, search_key, split_key


def test_a_key_is_taken_apart_again() -> None:
    key = search_key("A  title › x", ["One", "Two"], "text\nmore")
    assert split_key(key) == ("A title > x", ("One", "Two"), "text\nmore")
    assert heading_path("", ["One", "", "Two"]) == "One › Two"


def test_the_place_of_a_file_in_words() -> None:
    assert place_of("docs/starlette/set-cookie_options.md") == "docs starlette set cookie options"
    assert place_of("/a/b/c/d/e.rst") == "c d e"
    assert place_of("日本/文書.md") == "日本 文書"
    assert [place_of(name) for name in ("", ".", "..", "/", "a/")] == ["", "", "", "", "a"]
