"""Heading lines of contexts: what they leave out, and what can be restored from the text alone."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.text.blocks import heading_cost_line, heading_line, path_levels, render, shown_levels
from mergewise.types import Passage, Span

NAMES = st.sampled_from(["", "Cats", "cats", "Food", "Fish  and\nrice", "A › B", "[2] Forged", "Sleep"])
PATHS = st.tuples(NAMES, st.lists(NAMES, max_size=3).map(tuple))
TEXTS = st.one_of(
    st.sampled_from(
        ["Cats sleep.", "Food is dear.", "[1]\nCats", "One.\n\n[2] › Forged\nTwo.", "A\r [3] B", "› Food", "\\[1]"]
    ),
    st.text(max_size=20),
).filter(lambda text: text.strip() == text and text)


def passage(doc: str, path: tuple[str, tuple[str, ...]], text: str, verbatim: bool = True) -> Passage:
    return Passage(text, 1.0, (Span(doc, 0, len(text)),), verbatim, *path)


PASSAGES = st.lists(st.builds(passage, st.sampled_from("ab"), PATHS, TEXTS), max_size=6)


def test_levels_that_the_line_above_shows_are_blank() -> None:
    paths = [("Cats", ("Food", "Fish")), ("Cats", ("Food", "Mice")), ("Cats", ("Sleep",)), ("Cats", ()), ("Cats", ())]
    text = render([passage("a", path, "Text.") for path in paths])
    assert text.replace("\nText.", "").split("\n\n") == [
        "[1] Cats › Food › Fish",
        "[2] › › Mice",
        "[3] › Sleep",
        "[4] Cats",
        "[5] Cats",
    ]


def test_another_document_has_its_own_title() -> None:
    path = ("Guide", ("Use",))
    assert render([passage("a", path, "One."), passage("b", path, "Two.")]) == (
        "[1] Guide › Use\nOne.\n\n[2] Guide › Use\nTwo."
    )


@pytest.mark.parametrize(
    ("title", "headings", "text", "shown"),
    [
        ("Cats", ("cats", "Food"), "Fish.", ("Cats", "Food")),  # repeats the title
        ("Cats", ("Food", "Food"), "Fish.", ("Cats", "Food")),  # repeats the level above
        ("Cats", ("Food", "Fish", "Food"), "Fish.", ("Cats", "Food", "Fish", "Food")),
        ("Cats", ("Food",), "Food is fish.", ("Cats", "")),
        ("Cats", ("Food",), "FOOD: fish.", ("Cats", "")),
        ("Cats", ("Food",), "Foods are fish.", ("Cats", "Food")),
        ("Ada Moor", (), "Ada\nMoor was a queen.", ("",)),
        ("", ("", "Food"), "Fish.", ("Food",)),
    ],
)
def test_shown_levels(title: str, headings: tuple[str, ...], text: str, shown: tuple[str, ...]) -> None:
    assert shown_levels(title, headings, text) == shown


def test_empty_titles_leave_no_mark() -> None:
    assert heading_line(3, ()) == "[3]"
    assert heading_cost_line("", ("", "Food")) == "[9] Food"
    assert heading_cost_line("Cats", ("Food",)) == "[9] Cats › Food"


@given(PASSAGES)
def test_each_number_begins_one_line_and_leads_to_its_full_path_and_text(passages: list[Passage]) -> None:
    text = render(passages)
    lines = re.split(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text)
    numbers = [line.split()[0] for line in lines if re.match(r"[ \t]*\[\d+\]", line)]
    assert numbers == [f"[{n}]" for n in range(1, len(passages) + 1)]
    above: list[str] = []
    pieces = re.split(r"^\[\d+\]", text, flags=re.MULTILINE)[1:]
    for number, (one, piece) in enumerate(zip(passages, pieces, strict=True), 1):
        line, _, body = piece.partition("\n")
        levels = [level.strip() for level in line.split("›")] if line.strip() else []
        levels = [level or above[at] for at, level in enumerate(levels[:-1])] + levels[-1:]
        body = body.removesuffix("\n\n") if number < len(passages) else body
        assert re.sub(r"(?m)^([ \t]*)\\(?=\[\d+\])", r"\1", body.replace("\r", "\n")) == re.sub(
            r"(?m)^([ \t]*)\\(?=\[\d+\])", r"\1", one.text.replace("\r", "\n")
        )
        full = list(path_levels(one.title, one.headings))
        if full and (not levels or not levels[-1]):
            assert " ".join(one.text.split()).casefold().startswith(full[-1].casefold())
            full[-1], levels = "", levels or [""]
        assert levels == full
        above = levels
