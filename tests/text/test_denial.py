"""Negations, and words that may deny something without a negation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.text.support.denial import OPPOSED, clauses, denies, says_no


@pytest.mark.parametrize(
    "text",
    [
        "The pump does not start.",
        "It never rained.",
        "The pump doesn't start.",
        "The pump doesn’t start.",
        "It runs without oil.",
        "Die Pumpe läuft nicht.",
        "Es gibt keine Pumpe.",
        "La pompe ne marche pas.",
        "La bomba nunca arranca.",
        "Насос не работает.",
        "Pumpen virker ikke.",
        "他不来。",
        "NOTHING was found, and NO pump runs.",
        "It is not only loud but not safe.",
    ],
)
def test_negations_in_several_languages(text: str) -> None:
    assert says_no(text)


@pytest.mark.parametrize(
    "text",
    [
        "The pump starts.",
        "The knot holds.",
        "It is noted in Norway.",
        "It is not only loud but safe.",
        "No more than five pumps run.",
        "It does so whether or not it rains.",
        "It shall not exceed five bar.",
        "It is no longer loud.",
        "",
    ],
)
def test_phrases_that_only_look_like_negations(text: str) -> None:
    assert not says_no(text)


@pytest.mark.parametrize(
    ("text", "other", "denied"),
    [
        ("The mission failed.", "The mission flew.", True),
        ("The pump lacks oil.", "The pump has oil.", True),
        ("The funds were insufficient.", "The funds were sufficient.", True),
        ("The funds were insufficient.", "The funds were large.", False),
        ("The result is irrelevant here.", "The result is relevant.", True),
        ("A non-linear model was used.", "A linear model was used.", True),
        ("The mission flew.", "The mission failed.", False),
        ("The uncle came.", "The clerk came.", False),
        ("", "The mission flew.", False),
    ],
)
def test_denials_without_a_negation(text: str, other: str, denied: bool) -> None:
    assert denies(text, other) is denied


@pytest.mark.parametrize(
    ("sentence", "parts"),
    [
        ("Cats sleep.", ["Cats sleep."]),
        ("Cats sleep, but dogs do not.", ["Cats sleep", ", ", "but dogs do not."]),
        ("Cats sleep while dogs bark", ["Cats sleep ", "while dogs bark"]),
        ("Sandy whiches", ["Sandy whiches"]),
        ("", []),
    ],
)
def test_clauses_worked_out_by_hand(sentence: str, parts: list[str]) -> None:
    assert list(clauses(sentence)) == parts


@given(st.lists(st.sampled_from(["cats", " ", ", ", "but", "which", ";", "—", "und"]), max_size=12).map("".join))
def test_clauses_tile_the_sentence(sentence: str) -> None:
    pieces = list(clauses(sentence))
    assert "".join(pieces) == sentence
    assert all(pieces)


def test_opposites_are_opposed_both_ways_and_have_nothing_in_common() -> None:
    assert all((other, one) in OPPOSED for one, other in OPPOSED)
    assert all(one.isdisjoint(other) for one, other in OPPOSED)
