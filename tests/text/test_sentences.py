from __future__ import annotations

from itertools import pairwise

import pytest
import sentencex
from hypothesis import assume, given
from hypothesis import strategies as st

from mergewise.text import sentences as module
from mergewise.text.sentences import split_long, split_sentences

MIXED = st.lists(
    st.sampled_from(
        ["Dr. Who met J. R. Tolkien. ", "It cost $3.50! ", "- item\n", "1. first\n", "\n\n", "```py\nx = 1. Y\n\nz\n```\n",
         "| a | b |\n", "# Head\n", "Title\n=====\n", "中文句子。第二句！", "word ", "\t", "\u00a0",
         "e.g. this ", "(In. Brackets.) ", "🎉 "]
    )
    | st.text(max_size=20),
    max_size=30,
).map("".join)  # fmt: skip


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text)]


@given(MIXED)
def test_only_white_space_lies_outside_the_sentences(text: str) -> None:
    position = 0
    for start, end in split_sentences(text):
        assert position <= start < end <= len(text)
        assert not text[position:start].strip()
        assert text[start:end] == text[start:end].strip()
        position = end
    assert not text[position:].strip()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mr. Smith met Dr. Who. He left.", ["Mr. Smith met Dr. Who.", "He left."]),
        ("J. R. R. Tolkien wrote it. Then he slept.", ["J. R. R. Tolkien wrote it.", "Then he slept."]),
        ("Take vitamin C. The end.", ["Take vitamin C.", "The end."]),
        ("Pi is 3.14 here. See Fig. 3 for it.", ["Pi is 3.14 here.", "See Fig. 3 for it."]),
        ("It works, e.g. here. And so on.", ["It works, e.g. here.", "And so on."]),
        ("Wrapped\nat eighty. Next\none.", ["Wrapped\nat eighty.", "Next\none."]),
        ("One.\n\nTwo without stop\n\nThree.", ["One.", "Two without stop", "Three."]),
        ("- a one\n- b two. B three.\n", ["- a one", "- b two.", "B three."]),
        ("1. First\n2. Second one.", ["1. First", "2. Second one."]),
        ("Run:\n```sh\nls. -l\n\npwd. Now\n```\nDone.", ["Run:", "```sh\nls. -l\n\npwd. Now\n```", "Done."]),
        ("| a. B | c |\n|---|---|\n| 1. x | 2 |\n", ["| a. B | c |", "|---|---|", "| 1. x | 2 |"]),
        ("# Heading. Two\nBody.", ["# Heading. Two", "Body."]),
        ("Title\n=====\n\nBody.", ["Title\n=====", "Body."]),
        ("Before it.\nTitle\n=====\nBody.", ["Before it.", "Title\n=====", "Body."]),
        ("中文句子。第二句！好的？", ["中文句子。", "第二句！", "好的？"]),
        ("(It ended. It did.) Next.", ["(It ended. It did.)", "Next."]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_known_cases(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def words(text: str) -> int:
    return len(text.split())


SAID = [
    "Dr. Who met J. R. Tolkien (see Fig. 3) at noon. ", "It cost $3.50! ", "中文句子。", "\"Yes,\" he said. ", "Was it? ",
]  # fmt: skip


@given(st.lists(st.sampled_from([*SAID, "word " * 300]), min_size=1, max_size=12), st.integers(1, 9))
def test_windows_change_nothing(said: list[str], times: int) -> None:
    """Segment a block longer than a window like a single block."""
    text = "".join(said) * times
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_WINDOW", len(text))
        whole = split_sentences(text)
        # A longer one may be cut, since a window has a maximum size.
        assume(all(end - start <= module._LONGEST_WINDOW // 2 for start, end in whole))
        patch.setattr(module, "_WINDOW", 300)
        assert split_sentences(text) == whole


@pytest.mark.slow
def test_a_long_block_is_segmented_in_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """`sentencex` takes minutes for a few megabytes of "漢字。" in one call."""
    given: list[int] = []
    segment = sentencex.segment

    def counted(language: str, text: str) -> list[str]:
        given.append(len(text))
        return list(segment(language, text))

    monkeypatch.setattr(sentencex, "segment", counted)
    assert len(split_sentences("漢字。" * 10_000)) == 10_000
    assert max(given) <= 2000 and sum(given) < 40_000
    given.clear()
    assert len(split_sentences("word " * 1500)) == 1, "no sentence ends where a window does"
    given.clear()
    assert len(split_sentences("„" * 1_000_000)) == 125, "but one without end would take the square of its length"
    assert max(given) <= 8000 and sum(given) < 2_000_000
    given.clear()
    split_sentences("A title\nby the author " + "![a](data:" * 6_400)
    assert max(given) <= 8000, "nor does a short piece at the end of a window let it grow"


@given(
    st.lists(st.text(alphabet="ab,;. \n中", min_size=1, max_size=12), min_size=1, max_size=60).map(" ".join),
    st.integers(1, 9),
)
def test_long_pieces_tile_and_hold_the_limit(text: str, limit: int) -> None:
    pieces = split_long(text, 0, len(text), limit, words)
    assert "".join(text[start:end] for start, end in pieces) == text
    assert all(left[1] == right[0] for left, right in pairwise(pieces))
    for start, end in pieces:
        assert end - start <= 1 or (words(text[start:end]) <= limit and end - start <= 12 * limit)


def test_a_long_sentence_is_cut_at_a_clause() -> None:
    text = "the first clause of the sentence goes here, and the second clause of it goes there"
    pieces = split_long(text, 0, len(text), 10, words)
    assert [text[start:end] for start, end in pieces] == [
        "the first clause of the sentence goes here, ",
        "and the second clause of it goes there",
    ]


def test_a_run_without_spaces_is_cut_too() -> None:
    text = "x" * 10_000
    assert max(end - start for start, end in split_long(text, 0, len(text), 20, words)) <= 240


def test_a_sentence_without_end_is_cut_between_words() -> None:
    text = "„word„ " * 6000
    spans = split_sentences(text)
    assert max(end - start for start, end in spans) <= 8000
    assert all(text[start:end].strip() == text[start:end] for start, end in spans)
    assert {word for start, end in spans for word in text[start:end].split()} == {"„word„"}


@pytest.mark.parametrize(
    "text",
    [
        "Use a :class:`~logging.StreamHandler` for it.",
        "Set :meth:`!foo.Bar.baz` or :attr:`.Request.Max`.",
        "The ``a.B. C d`` of it.",
        "See https://a.org/x.Html?y.Z for more.",
        "Since version 3.4.Final it works.",
        "A logging.StreamHandler, a logging.Handler() and an a.Bc.De.",
    ],
)
def test_names_roles_code_and_addresses_are_not_cut(text: str) -> None:
    assert sentences(f"Before. {text} Next one.") == ["Before.", text, "Next one."]


def test_a_missing_space_does_not_join_sentences() -> None:
    assert sentences("It ended in 2019.Next came it.") == ["It ended in 2019.", "Next came it."]


def test_options_and_fields_begin_blocks() -> None:
    assert sentences(
        "-o FILE, --out FILE  Write to it.\n                     Always.\n-v  Verbose\n:param x: a thing"
    ) == ["-o FILE, --out FILE  Write to it.", "Always.", "-v  Verbose", ":param x: a thing"]
