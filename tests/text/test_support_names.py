"""Words with their offsets, their position in the sentence, and the tests for names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.text.support.names import (
    base_form,
    forms,
    german_words,
    initials,
    is_german,
    is_marked,
    is_plain,
    is_strange,
    root,
    touch,
    words_of,
)

TEXTS = st.text("Ab1 .-\n“»(日ß", max_size=30)


@given(TEXTS)
def test_words_have_their_offsets(text: str) -> None:
    words = words_of(text)
    for word in words:
        assert text[word.start : word.end] == word.text
    outside = set(range(len(text))) - {i for word in words for i in range(word.start, word.end)}
    assert not any(text[i].isalnum() for i in outside)


@pytest.mark.parametrize(
    ("text", "opening"),
    [
        ("Cats meet Dogs. Birds fly.", ["Cats", "Birds"]),
        ("One said: “Dogs bark” again", ["One", "Dogs"]),
        ("A list:\n- Cats\n- Dogs", ["A", "Cats", "Dogs"]),
        ("Vitamin B (Cats)", ["Vitamin", "Cats"]),
        ("He asked Why? Nobody knew", ["He", "Nobody"]),
        ("", []),
    ],
)
def test_words_that_open_a_sentence(text: str, opening: list[str]) -> None:
    assert [word.text for word in words_of(text) if word.opens and word.text[0].isupper()] == opening


@pytest.mark.parametrize(
    ("word", "marked", "strange"),
    [
        ("cats", False, False),
        ("Cats", True, False),
        ("eBay", True, True),
        ("NASA", True, True),
        ("b12", True, True),
        ("12", False, True),
        ("日", False, False),
    ],
)
def test_marks_of_names(word: str, marked: bool, strange: bool) -> None:
    assert (is_marked(word), is_strange(word)) == (marked, strange)


def test_words_that_open_sentences_are_plain_in_any_case() -> None:
    assert is_plain("However") and is_plain("THE") and is_plain("january")
    assert not is_plain("Bremen")


@pytest.mark.parametrize(
    ("text", "side_by_side"),
    [
        ("Van Gogh", True),
        ("Marie-Curie", True),
        ("J. Smith", True),
        ("Smith.Jones", False),
        ("Cats, Dogs", False),
        ("Cats  Dogs", False),
        ("Cats\nDogs", False),
    ],
)
def test_two_words_of_one_name_touch(text: str, side_by_side: bool) -> None:
    one, other = words_of(text)
    assert touch(text, one, other) is touch(text, other, one) is side_by_side


@pytest.mark.parametrize(
    ("word", "base"), [("Évora", "evora"), ("STRASSE", "strasse"), ("ﬁne", "fine"), ("Łódź", "łodz"), ("x", "x")]
)
def test_base_forms(word: str, base: str) -> None:
    assert base_form(word) == base_form(base_form(word)) == base


def test_abbreviations_of_the_names_in_a_text() -> None:
    short = initials(["the World Health Organization met", "Bank of England"])
    assert {"WHO", "WH", "HO", "BE"} <= short
    assert not {"W", "BOE", "WHOM", "WHOBE"} & short
    assert initials(["cats and dogs", ""]) == frozenset()


def test_abbreviations_have_eight_letters_at_most() -> None:
    run = "A B C D E F G H I J"
    assert max(map(len, initials([run]))) == 8
    assert len(initials([run])) == sum(10 - size + 1 for size in range(2, 9))


@pytest.mark.parametrize(
    ("country", "people", "shared"),
    [("canada", "canadian", "canad"), ("china", "chinese", "chin"), ("vienna", "viennese", "vienn")],
)
def test_a_country_and_its_people_share_a_root(country: str, people: str, shared: str) -> None:
    assert root(country) == root(people) == shared


def test_a_short_rest_is_not_a_root() -> None:
    assert root("iran") == root("asian") == root("cuba") == ""
    assert root("sweden") != root("swedish")


def test_german_is_detected_by_function_words() -> None:
    assert is_german("Der Rat der Stadt ist nicht im Haus.")
    assert not is_german("The council of the town is not in the house.")
    assert not is_german("Der Rat")
    assert german_words("Der Rat DER Stadt") == (4, 2)


def test_forms_are_those_of_single_words() -> None:
    assert forms("Cats, DOGS and 3.5 日本") == ["cats", "dogs", "and", "3", "5", "日", "本"]
