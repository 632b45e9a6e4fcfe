from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mergewise.generate.marks import MarkFilter, MarkReader, escape_marks, marked_texts, without_unknown


@pytest.mark.parametrize(
    ("mark", "numbers", "removed"),
    [
        ("[1]", [1], 0), ("[01]", [1], 0), ("[1, 2]", [1, 2], 0), ("[1;2]", [1, 2], 0), ("[1 2]", [1, 2], 0),
        ("[1、2]", [1, 2], 0),
        ("[2, 1, 2]", [2, 1], 0), ("[1-3]", [1, 2, 3], 0), ("[1–3]", [1, 2, 3], 0), ("[1 — 2]", [1, 2], 0),
        ("[1-2, 7]", [1, 2, 7], 0), ("[2-7]", [2, 3, 7], 1), ("[3-9, 11]", [3, 7], 2), ("[8-9]", [], 1), ("[3-1]", [], 1),
        ("[1-999999999]", [1, 2, 3, 7], 1), ("[1-" + "9" * 5000 + "]", [], 1), ("[" + "1" * 5000 + "]", [], 1),
        ("【1】", [1], 0), ("［１］", [1], 0), ("［１，２］", [1, 2], 0), ("[１-３]", [1, 2, 3], 0), ("【9】", [], 1),
        ("[0]", [], 1), ("[-1]", [], 1), ("[−2]", [], 1), ("[1000]", [], 1), ("[999]", [], 1), ("[123456]", [], 1),
        ("[1, -2]", [1], 1), ("[[1]]", [1], 0), ("[[1], [2]]", [1, 2], 0), ("[1[2]]", [1, 2], 0), ("[98[99]]", [], 2),
        ("[98[1]]", [1], 1), ("[1,\n2]", [1, 2], 0),
        ("[Source 1]", [1], 0), ("[Sources 1, 2]", [1, 2], 0), ("[source: 1, source: 2]", [1, 2], 0), ("[doc1]", [1], 0),
        ("[Doc_2]", [2], 0), ("[citation:3]", [3], 0), ("[cite: 1, 9]", [1], 1), ("[Source #7]", [7], 0), ("[Source 9]", [], 1),
        ("[^1]", [1], 0), ("[^9]", [], 1), ("【1†source】", [1], 0), ("【2†L10-L20】", [2], 0),
        ("【9†source】", [], 1), ("[来源 1]", [1], 0), ("【来源：2】", [2], 0), ("[Quelle 1; Quelle 3]", [1, 3], 0),
    ],
)  # fmt: skip
def test_forms_of_marks(mark: str, numbers: list[int], removed: int) -> None:
    pieces = [piece for piece in marked_texts(f"Said {mark}.", {1, 2, 3, 7}) if piece.numbers or piece.removed]
    assert [(list(piece.numbers), piece.removed) for piece in pieces] == [(numbers, removed)]
    shown = " " + "".join(f"[{n}]" for n in numbers) if numbers else ""
    assert without_unknown(f"Said {mark}.", {1, 2, 3, 7}) == (f"Said{shown}.", removed)


@pytest.mark.parametrize(
    "text",
    [
        "In [1984].", "The war [1914-1918].", "Editions [1984, 1999].", "Of [2024-05-01].", "In 【1984】.",
        "[2019a]", "[]", "[ ]", "[-]",
        "[x]", "[1.5]", "[12:30]", "[Table 3]", "[Source]", "[^x]", "[#9]", "[resource 9]", "[Source 1984]", "Use `[^9]`.",
        "[Sourc",        "Use `x[0]`.", "Use `x[-1]` and `y[1-3]`.", "```\ny[9]\n```", "```\ny[9]", "[9",
        "9]", "[9 x]", "`x[9", "[[[[", "]]]]", "[9[9[9",
    ],
)  # fmt: skip
def test_years_code_and_other_brackets_stay(text: str) -> None:
    assert without_unknown(text, {1, 2}) == (text, 0)


def test_a_year_that_is_the_number_of_a_source_is_a_mark() -> None:
    assert [piece.numbers for piece in marked_texts("So [1500].", range(1, 1600)) if piece.numbers] == [(1500,)]


@given(
    st.lists(
        st.sampled_from(
            [
                "Oaks ",
                "[1]",
                "[2, 3]",
                "[",
                "]",
                "1",
                "\\",
                "\\\\",
                " ",
                "【",
                "】",
                "［７］",
                "[1984]",
                "[0]",
                "[^1]",
                "Source ",
                "†",
            ]
        )
    )
)
@example(["[", "1", "[1984]", "]"])
@example(["[", "[0]", " ", "1", "]"])
@example(["[", "1", "†", "[1]"])
def test_escaped_marks_are_text(parts: list[str]) -> None:
    text = "".join(parts)
    escaped = escape_marks(text)
    assert not [piece for piece in marked_texts(escaped, range(1, 1000)) if piece.numbers]
    assert escape_marks(escaped) == escaped and len(escaped) <= len(text) + text.count("[") + text.count(
        "【"
    ) + text.count("［")


@pytest.mark.parametrize("text", ["[Table 3]", "In [1984].", "items[0]", "[x]", "[1.5]", "[", "1]", "\\[3]"])
def test_other_brackets_are_not_escaped(text: str) -> None:
    assert escape_marks(text) == text


def test_marks_of_a_source_are_text() -> None:
    sources = ["Oaks live for\nlong [2], says Smith [7].", "Elms die."]
    text = "Oaks live for long [2], says Smith [7] [1]. Elms die [2]. Long [2]."
    assert without_unknown(text, {1, 2}) == (text.replace(" [7]", ""), 1)
    pieces = marked_texts(text, {1, 2}, sources)
    assert "".join(piece.text for piece in pieces) == (
        r"Oaks live for long \[2], says Smith \[7] [1]. Elms die [2]. Long [2]."
    )
    assert [piece.numbers for piece in pieces if piece.numbers] == [(1,), (2,), (2,)]
    for size in range(1, 9):
        reader = MarkReader({1, 2}, sources)
        shown = [piece for at in range(0, len(text), size) for piece in reader.add(text[at : at + size])]
        assert "".join(p.text for p in [*shown, *reader.end()]) == "".join(p.text for p in pieces)


def test_marks_in_unclosed_brackets_are_read() -> None:
    """Unclosed brackets stay, and closed brackets inside are marks."""
    assert without_unknown("A [98 [99] x] [1 [2] y", {1, 2}) == ("A [98 x] [1 [2] y", 1)
    assert without_unknown("A [98 [99[1]] [[2] x", {1, 2}) == ("A [98 [1] [[2] x", 1)


answers = st.lists(
    st.sampled_from(
        ["Oaks", " live", " ", "[1]", "[2]", "[9]", "[1, 9]", "[", "]", "1", ",", "`", "```", "\n", "x[0]", ".", "-", "[1-3]",
         "【", "】", "\\", "^", "Source", "s", "†", "L3", "doc", "ument"]
    ),
    max_size=25,
)  # fmt: skip


@given(answers, st.integers(1, 4))
@example(["【", "doc", "ument", "[1]", "】"], 1)
def test_pieces_give_the_same_text_as_the_whole(parts: list[str], size: int) -> None:
    """Any division into pieces shows the text without invalid marks."""
    text = "".join(parts)
    shown: list[str] = []
    stream = MarkFilter({1, 2}, shown.append)
    for start in range(0, len(text), size):
        stream.add(text[start : start + size])
    stream.end()
    assert "".join(shown) == without_unknown(text, {1, 2})[0].strip()


@given(answers)
def test_every_remaining_mark_has_a_source(parts: list[str]) -> None:
    kept, removed = without_unknown("".join(parts), {1, 2})
    assert "`" in kept or without_unknown(kept, {1, 2}) == (kept, 0)
    assert removed <= sum(map(str.isdigit, "".join(parts)))


def test_a_mark_is_not_shown_before_it_is_known() -> None:
    shown: list[str] = []
    stream = MarkFilter({1}, shown.append)
    for piece in ("Oaks", " live", " [", "7", "]", " long [1", "].", " `a", "[0]` ["):
        stream.add(piece)
    assert shown == ["Oaks", " live", " long", " [1].", " `a[0]`"]
    stream.end()
    assert "".join(shown) == "Oaks live long [1]. `a[0]` ["


def test_a_mark_is_shown_as_soon_as_it_ends() -> None:
    shown: list[str] = []
    stream = MarkFilter({1}, shown.append)
    for piece in ("Oaks", " [1", "]", "[1]", "[1]"):
        stream.add(piece)
    assert shown == ["Oaks", " [1]", "[1]", "[1]"]


LONG = 20_000
ANSWERS = {
    "prose": "Oaks live long [1]. Birches grow [9] fast. ",
    "spaces": " ",
    "marks": "[1][9]",
    "opening": "[",
    "closing": "]",
    "number": "1",
    "line of code": "a",
    "nested": "[1 [",
    "fences": "``` a\n",
    "words": "sources ",
    "words in brackets": "[source 1, ",
    "notes": "[1†s",
    "backticks": "`",
}


@pytest.mark.parametrize("repeated", ANSWERS)
@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("begins", ["", "[", "`", "```", "[[1]", "x  ", "[1†"])
def test_every_character_is_read_a_bounded_number_of_times(
    repeated: str, size: int, begins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Count the characters that are read again after being held back, for a text that streams in small pieces."""
    looked = 0
    read = MarkReader._read

    def count_characters(reader: MarkReader, text: str, last: bool) -> None:
        nonlocal looked
        looked += len(text)
        read(reader, text, last)

    monkeypatch.setattr(MarkReader, "_read", count_characters)
    text = (begins + ANSWERS[repeated] * LONG)[:LONG] + ("]" * LONG if repeated == "opening" else "")
    stream = MarkFilter({1}, lambda piece: None)
    for start in range(0, len(text), size):
        stream.add(text[start : start + size])
    stream.end()
    assert len(text) <= looked <= 4 * len(text) + 10
