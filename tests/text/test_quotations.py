"""Quotations in a statement, and the search for their words in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.text.alignment import words
from mergewise.text.support.names import FEW_WORDS, holds_quotation, in_order, quotations_in

SOURCE = in_order(words("The council met in Bremen, and the mayor resigned on the same day."))


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("He said “we met in Bremen” there.", ["we met in Bremen"]),
        ("Er sagte „wir trafen uns“ dort.", ["wir trafen uns"]),
        ("Il dit «nous y étions» là.", ["nous y étions"]),
        ("他说「我们在那里」。", ["我们在那里"]),
        ('He said "we met" and "we left".', ["we met", "we left"]),
        ("“One” and “two”", ["One", "two"]),
        ('A 5" pipe and a 7" pipe', []),
        ('It is" not one"', []),
        ("“across\nlines”", []),
        ("“never closed", []),
        ("no quotation", []),
        ("“”", []),
    ],
)
def test_quotation_marks_of_several_languages(text: str, quoted: list[str]) -> None:
    found = list(quotations_in(text))
    assert [words_quoted for _, _, words_quoted in found] == quoted
    for start, end, inner in found:
        assert inner in text[start:end]
        assert text[start + 1 : end - 1] == inner


@pytest.mark.parametrize(
    ("quotation", "held"),
    [
        ("the council met in Bremen", True),
        ("The Council met in BREMEN", True),
        ("the council met … resigned on the same day", True),
        ("the council met ... [and the mayor] resigned on the same day", True),
        ("the council did not meet in Bremen", False),
        ("the council met … the mayor was elected", False),
        ("in Bremen the council met", False),
        ("Hamburg", True),
        ("in Hamburg", True),
        ("left for Hamburg", False),
        ("ouncil met in Breme", False),
    ],
)
def test_a_quotation_needs_its_words_in_order(quotation: str, held: bool) -> None:
    assert holds_quotation(quotation, [SOURCE]) is held


def test_the_parts_of_a_quotation_may_be_in_several_texts() -> None:
    other = in_order(words("She was elected again in May."))
    assert holds_quotation("the council met in Bremen … elected again in May", [SOURCE, other])
    assert not holds_quotation("resigned on the same day she was elected", [SOURCE, other])
    assert not holds_quotation("the council met in Bremen", [])


@given(st.lists(st.sampled_from("abcd"), max_size=12), st.integers(0, 12), st.integers(0, 6))
def test_every_run_of_words_is_held(forms: list[str], first: int, size: int) -> None:
    run = forms[first : first + size]
    assert holds_quotation(" ".join(run), [in_order(forms)])


@given(st.lists(st.sampled_from("abc"), max_size=10), st.lists(st.sampled_from("abc"), max_size=5))
def test_runs_match_a_search_at_every_position(forms: list[str], run: list[str]) -> None:
    stands = any(forms[i : i + len(run)] == run for i in range(len(forms)))
    assert holds_quotation(" ".join(run), [in_order(forms)]) is (stands or len(run) < FEW_WORDS)
