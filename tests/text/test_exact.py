"""Exact names: one key for each way to write a name, and none for plain quantities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.text.exact import PREFIX, asked_exactly, exact_keys, index_terms, neighbours, question_terms

VERSIONS = st.lists(st.integers(0, 40), min_size=2, max_size=4).map(lambda parts: ".".join(map(str, parts)))


@pytest.mark.parametrize(
    "spellings",
    [
        ("3.12.4rc1", "v3.12.4-rc.1", "3.12.4-rc1"),
        ("CVE-2021-44228", "cve‑2021‑44228", "(CVE–2021–44228)"),
        ("A.8.24", "a.8.24", "A8.24"),
        ("A.8", "A8", "a-8"),
        ("§ 312g", "§312G", "§§ 312g"),
        ("2021-03-03", "3 March 2021", "March 3, 2021", "3. März 2021"),
        ("ORA-00942", "ORA 00942", "ora00942"),
        ("10.0.0.7", "http://10.0.0.7/path"),
        ("40P01", "40p01"),
    ],
)
def test_spellings_of_a_name_match(spellings: tuple[str, ...]) -> None:
    (name,) = asked_exactly(f"What is {spellings[0]}?")
    for spelling in spellings:
        assert name.match(exact_keys(f"It is {spelling}, see below.")) == 1


@pytest.mark.parametrize(
    ("asked", "other", "match"),
    [
        ("3.12.4", "3.12.5", 0), ("3.12.4", "3.12.4rc1", 0), ("3.12.4", "13.12.4", 0), ("3.12", "3.12.4", PREFIX),
        ("A.8", "A.8.24", PREFIX), ("A.8.24", "A.8.2", 0), ("§ 31", "31 Tage", 0), ("CVE-2021-44228", "2021-44228", 1),
        ("10.0.0.7", "10.0.0.70", 0), ("3.10", "3.1", 0),
    ],
)  # fmt: skip
def test_a_beginning_matches_less_and_another_number_never(asked: str, other: str, match: float) -> None:
    (name,) = asked_exactly(f"What about {asked}?")
    assert name.match(exact_keys(other)) == match


@pytest.mark.parametrize(
    ("question", "keys"),
    [
        ("How many of the 2 users in 2021 have 300 files?", []),
        ("Does it take 30 days or 10ms in the 1st year?", []),
        ("Is O2 lost within 1-2 years?", []),
        ("What does error 1033 mean?", ["1033"]),
        ("What is ticket #34139 about?", ["34139"]),
        ("What did Tesla do in March 1896?", []),
        ("What does clause 17 say?", []),
        ("What is in clause 17?", ["17"]),
        ("What was released on 3 March 2021?", ["2021-03-03"]),
        ("Was regelt § 312g BGB?", ["§312g"]),
    ],
)
def test_plain_quantities_are_not_asked_exactly(question: str, keys: list[str]) -> None:
    assert [name.key for name in asked_exactly(question)] == keys


def test_a_name_opens_a_line() -> None:
    assert "3.12.4" in exact_keys("3.12.4 Logs\nLogs shall be kept.", opening=True) and "a8.24" in exact_keys(
        "- A.8.24 Use", opening=True
    )
    assert not exact_keys("Logs shall be kept by 3.12.4.", opening=True) and not exact_keys(
        "1. First step", opening=True
    )


@given(VERSIONS)
def test_an_index_has_a_term_of_each_name_asked_for(version: str) -> None:
    (name,) = asked_exactly(f"What is new in {version}?")
    terms = set(index_terms(f"Version {version} is new."))
    assert {term for term, match in question_terms(name.key).items() if match == 1} & terms
    assert not terms & set(question_terms(version + "9"))


@given(
    VERSIONS | st.from_regex(r"[A-Z]{2,4}-\d{3,5}", fullmatch=True) | st.from_regex(r"§ \d{1,3}[a-z]", fullmatch=True)
)
def test_neighbours_are_other_names_of_the_same_form(name: str) -> None:
    below, above = neighbours(name)
    own = exact_keys(name)
    assert (below or above) and not any(own & exact_keys(other) for other in (*below[:3], *above))


def test_neighbours_go_on_in_the_next_version() -> None:
    below, above = neighbours("3.12.9")
    assert below[0] == "3.12.8" and "3.11.4" in below and above[0] == "3.12.10" and "3.13.0" in above
    assert neighbours("§ 60a")[0] == ["§ 60"] and neighbours("ORA-00943")[0][0] == "ORA-00942"
    assert neighbours("abc") == ([], [])


@pytest.mark.parametrize(
    "written", ["3 March 2021", "March 3rd, 2021", "3. März 2021", "3/3/2021", "3.3.2021", "2021年3月3日"]
)
def test_an_index_has_one_term_of_a_date_in_words_and_in_digits(written: str) -> None:
    assert "=2021-03-03" in set(index_terms(f"It was sold on {written} in Delft."))


def test_a_number_of_thousands_of_digits_has_no_neighbours() -> None:
    assert neighbours("9" * 5000) == ([], [])
