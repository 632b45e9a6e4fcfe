"""Numbers and dates in comparable forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.text.support.figures import Date, dates, figures, holds_date, known_figures, roman


def held(statement: str, source: str) -> bool:
    return all(figure.held_by(known_figures(source)) for figure in figures(statement))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,234.50", "1 234.5"), ("5 million", "5,000,000"), ("5 million", "five million"), ("1.2 billion", "1,200,000,000"),
        ("23,400", "twenty-three thousand four hundred"), ("205", "two hundred and five"), ("98.000", "98 000"),
        ("1984", "nineteen eighty-four"), ("12", "twelve"), ("0.50", "0.5"), ("１２", "12"), ("٣٠", "30"), ("3rd", "third"),
        ("21st", "twenty-first"), ("12,34,567", "1234567"), ("3.11.2", "3.11.2"), ("1'000", "1000"), ("1\u00a0000", "1000"),
        ("3k", "3,000"), ("4 Mrd", "4,000,000,000"), ("100", "a hundred times one hundred"),
    ],
)  # fmt: skip
def test_the_same_number_in_two_forms(one: str, other: str) -> None:
    assert figures(one)
    assert held(one, other) and held(other, one)


@pytest.mark.parametrize(
    ("statement", "source"),
    [
        ("1.5", "15"), ("12,000", "1,200"), ("5 million", "5 billion"), ("5", "5 million"), ("10", "10,000"), ("2020", "2002"),
        ("twelve", "twenty"), ("3.5", "3 to 5"), ("3.11.2", "3.11.3"), ("six", "sixteen"), ("0.05", "0.5"),
        ("thirty-one", "thirteen"), ("12345678901234567890123456789012345678901", "12345678901234567890123456789012345678902"),
    ],
)  # fmt: skip
def test_another_number(statement: str, source: str) -> None:
    assert not held(statement, source)


@pytest.mark.parametrize(
    ("statement", "source"),
    [
        ("2", "It was done twice."), ("14", "Louis XIV"), ("17", "17 ans"), ("320000", "三十二万"),
        ("3000", "三千人"), ("18000", "1.8万平方米"), ("2020", "二〇二〇年"), ("12", "a dozen"), ("50", "half of them"),
    ],
)  # fmt: skip
def test_other_forms_in_a_source(statement: str, source: str) -> None:
    assert held(statement, source)


def test_two_numbers_are_a_year_only_if_each_has_two_digits() -> None:
    assert [figure.readings for figure in figures("nineteen eighty-four")] == [frozenset({"1984"})]
    assert [figure.readings for figure in figures("nineteen five")] == [frozenset()]


def test_words_that_are_seldom_numbers() -> None:
    assert figures("One of them came first, a second later. The hundred or so thousands left.") == ()


@given(st.integers(0, 10**15), st.sampled_from(["{:d}", "{:,d}", "{:_d}"]))
def test_a_number_is_held_by_itself_and_not_by_the_next(number: int, form: str) -> None:
    written = form.format(number).replace("_", " ")
    assert held(f"about {number} things", f"with {written} of them")
    assert held(f"with {written} of them", f"about {number} things")
    assert not held(f"about {number + 1} things", f"of {written}")


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("on 14 March 2020", Date(2020, 3, 14)), ("March 14, 2020", Date(2020, 3, 14)), ("2020-03-14", Date(2020, 3, 14)),
        ("14.03.2020", Date(2020, 3, 14)), ("2020年3月14日", Date(2020, 3, 14)), ("2020년 3월 14일", Date(2020, 3, 14)),
        ("14. März 2020", Date(2020, 3, 14)), ("le 14 mars 2020", Date(2020, 3, 14)), ("14 de marzo de 2020", Date(2020, 3, 14)),
        ("the 14th of March", Date(0, 3, 14)), ("in March 2020", Date(2020, 3, 0)), ("Sept. 3, 2019", Date(2019, 9, 3)),
        ("le 1er mai 1902", Date(1902, 5, 1)),
    ],
)  # fmt: skip
def test_dates(text: str, date: Date) -> None:
    (mention,) = dates(text)
    assert date in mention.readings


@pytest.mark.parametrize("text", ["2020-13-45", "You may 5 times", "1.2.3.2020", "version 10-20", "March on", "2020"])
def test_texts_that_are_not_dates(text: str) -> None:
    assert dates(text) == []


@pytest.mark.parametrize(
    ("stated", "source", "same"),
    [
        ("14 March 2020", "2020-03-14", True), ("March 2020", "14 March 2020", True), ("3 April 2020", "3/4/2020", True),
        ("4 March 2020", "3/4/2020", True), ("15 March 2020", "14–16 March 2020", False),
        ("16 March 2020", "14–16 March 2020", True),
        ("14 March 2020", "between 14 March and 16 May 2020", True), ("14 March 2019", "14 March 2020, in 2019", False),
        ("14 May 2020", "14 March and 16 May 2020", False), ("March 2019", "March 2020", False),
    ],
)  # fmt: skip
def test_dates_are_compared_by_their_parts(stated: str, source: str, same: bool) -> None:
    (mention,) = dates(stated)
    assert holds_date(mention, dates(source), known_figures(source)) is same


@given(st.text("0123456789.,' -ivxLMCDtwenty三十万年月日/", max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    assert all(text[figure.start : figure.end] for figure in figures(text))
    assert all(text[mention.start : mention.end] for mention in dates(text))
    assert all(isinstance(known, str) for known in known_figures(text))


def test_roman_numerals() -> None:
    assert [roman(numeral) for numeral in ("IV", "XIV", "MCMLXXXIV", "IIII", "")] == [4, 14, 1984, 0, 0]


@pytest.mark.parametrize("piece", ["1,", "1 ", "one ", "hundred ", "X", "三", "1.1 March ", "9" * 9, "12-", "2020年"])
def test_hostile_runs_are_read_in_bounded_steps(piece: str) -> None:
    text = piece * (60_000 // len(piece))
    figures(text), dates(text), known_figures(text)
