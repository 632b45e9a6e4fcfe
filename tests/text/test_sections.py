from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mergewise.text.sections import headings_at, markdown_headings, paragraphs, search_key, shared_path, split_key


def test_headings_outside_code_blocks() -> None:
    text = "# One\n\ntext\n\n```py\n# not one\n```\n\n## Two ##\nmore\n#no\n####### seven\n"
    found = [(h.level, h.title, text[h.start : h.end]) for h in markdown_headings(text)]
    assert found == [(1, "One", "# One\n"), (2, "Two", "## Two ##\n")]


def test_the_headings_in_force() -> None:
    text = "intro\n# A\na\n## B\nb\n### C\nc\n## D\nd\n# E\ne\n"
    outline = markdown_headings(text)
    found = {letter: headings_at(outline, text.index(f"\n{letter}\n") + 1) for letter in "abcde"}
    assert found == {"a": ("A",), "b": ("A", "B"), "c": ("A", "B", "C"), "d": ("A", "D"), "e": ("E",)}
    assert headings_at(outline, 0) == ()


def test_a_very_long_heading_is_cut() -> None:
    text = "# " + "Owls " * 1000 + "\n\nThey eat mice.\n"
    [heading] = headings_at(markdown_headings(text), len(text))
    assert heading.startswith("Owls Owls") and heading.endswith("…") and len(heading) <= 300


def test_the_shared_beginning_of_paths() -> None:
    assert shared_path([("A", "B", "C"), ("A", "B", "D"), ("A", "B")]) == ("A", "B")
    assert shared_path([("A", "B"), ("X", "B")]) == ()
    assert shared_path([("A",)]) == ("A",)


@given(st.lists(st.sampled_from(["word", "\n", "\n\n", " \n \n", " "]), max_size=40).map("".join))
def test_paragraphs_tile(text: str) -> None:
    spans = paragraphs(text, 0, len(text))
    assert "".join(text[start:end] for start, end in spans) == text


@given(st.text(), st.lists(st.text(min_size=1).filter(str.strip), max_size=4), st.text())
def test_a_search_key_can_be_split(title: str, headings: list[str], text: str) -> None:
    def flat(part: str) -> str:
        return " ".join(part.replace("›", ">").split())

    key = search_key(title, headings, text)
    assert split_key(key) == (flat(title), tuple(map(flat, headings)), text)
