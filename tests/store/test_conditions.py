"""Conditions on documents: what is understood, what is refused and how, and the database held to a slow reading of the tree."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.slow_conditions import FUNCTIONS as SLOW_FUNCTIONS
from tests.slow_conditions import Failing, meets

import mergewise as mw
from mergewise.errors import UsageError
from mergewise.store import lance_state
from mergewise.store.condition_parser import parse_condition
from mergewise.store.conditions import FUNCTIONS, sql_of
from mergewise.store.lance_reader import LanceReader

LONG = "MERGEWISE_ATTACK" in os.environ
KINDS = {
    "id": str,
    "title": str,
    "year": int,
    "weight": float,
    "draft": bool,
    "lang": str,
    "two words": str,
    "Day": str,
}
ROWS: list[dict[str, Any]] = [
    {"year": 2020, "weight": 0.5, "draft": True, "lang": "en", "two words": "owl, cat", "Day": "2024-05-01"},
    {"year": -3, "weight": -2.5, "draft": False, "lang": "", "two words": "a%b_c\\d", "Day": "1999-12-31"},
    {"year": 0, "weight": 0.0, "lang": "EN's"},
    {"year": 2**63 - 1, "weight": 1e300, "draft": True, "two words": " x ", "Day": "2024-05-02"},
    {},
]
DOCUMENTS = [mw.Document(f"d{i}", "Owls eat mice.", title=f"Title {i}", metadata=row) for i, row in enumerate(ROWS)]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanceReader]:
    with mw.open(tmp_path_factory.mktemp("conditions") / "index", embedder="none") as index:
        assert index.add(*DOCUMENTS).added == len(ROWS)
        reader = index.store.reader()
        assert isinstance(reader, LanceReader)
        yield reader


def expected(where: str) -> set[int]:
    """By the slow reading. Raises UsageError, or Failing where a value cannot be worked out."""
    condition = parse_condition(where, KINDS)
    return {
        number for number, d in enumerate(DOCUMENTS) if meets(condition, {"id": d.id, "title": d.title, **d.metadata})
    }


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("year >= 2020 and lang = 'en'", {0}),
        ("lang = 'EN''s' or `two words` like '%cat'", {0, 2}),
        ("not draft", {1}),
        ("draft is not true", {1, 2, 4}),
        ("year is null", {4}),
        ("year not in (2020, 0) and year between -5 and 5", {1}),
        ("weight > 0", {0, 3}),
        ("year > 2019.5", {0, 3}),
        ("year = 2020.0", {0}),
        ('"two words" is not null and YEAR < 0', {1}),
        ("lower(lang) like 'en%'", {0, 2}),
        ("title ilike '%TLE 3'", {3}),
        ("cast(year as text) = '2020' or year::string = '0'", {0, 2}),
        ("cast(Day as date) > date '2024-05-01'", {3}),
        ("array_has(string_to_array(`two words`, ', '), 'cat')", {0}),
        ("array_contains(string_to_array(`two words`, ', '), 'cat')", {0}),
        ("regexp_match(lang, '^E')", {2}),
        ("regexp_like(lang, '^(e|E)N?n?$')", {0}),
        ("coalesce(lang, 'none') = 'none'", {3, 4}),
        ("coalesce(year, 7) = 7", {4}),
        ("concat(lang, '-', id) = 'en-d0'", {0}),
        ("lang || '!' = 'en!'", {0}),
        ("year % 2 = 0 and year / 2 = 1010", {0}),
        ("- year = 3 and 2 * (weight + 1) < 0", {1}),
        ("abs(weight) = 2.5 and round(weight) = -3", {1}),
        ("strpos(title, '4') = 7 and left(title, 1) = 'T' and right(title, 1) = '4'", {4}),
        ("trim(`two words`) = 'x' and length(`two words`) = 3", {3}),
        ("split_part(`two words`, ', ', 2) = 'cat'", {0}),
        ("starts_with(id, 'd') and ends_with(id, '1') and contains(title, ' 1')", {1}),
        ("`two words` like 'a\\%b%'", {1}),
        ("true", {0, 1, 2, 3, 4}),
        ("not not not false", {0, 1, 2, 3, 4}),
        (" or ".join(f"id = 'd{i}'" for i in range(1, 700)), {1, 2, 3, 4}),
        (f"id in ({', '.join(repr(f'd{i}') for i in range(2, 5000))})", {2, 3, 4}),
    ],
)
def test_what_is_understood(where: str, numbers: set[int], reader: LanceReader) -> None:
    assert reader.numbers(where) == expected(where) == numbers


@pytest.mark.parametrize(
    ("where", "said", "hint"),
    [
        ("contains(repeat('a', 2000000000), 'b')", "'repeat' (character 10): there is no function", "lower"),
        ("year = 2020; drop table documents", "';' (character 12)", ""),
        ("year = 2020 -- and lang = 'en'", "'and' (character 16)", "columns"),
        ("_text like '%secret%'", "there is no column '_text'", "columns: id, title, year"),
        *(
            (f"{name} is not null", f"no column '{name}'", "year")
            for name in ("_digest", "_number", "_source", "_rowid")
        ),
        ("bogus = 1", "'bogus' (character 1): there is no column", "weight"),
        ('lang = "en"', "there is no column 'en'", "columns"),
        ("year = '2020'", "a whole number is compared with a text", "quotes"),
        ("draft > 0", "true or false is compared with a whole number", ""),
        ("lang", "this is a text, not true or false", ""),
        ("lower(year) = 'x'", "this is a whole number, not a text", ""),
        ("year = null", "null is compared with nothing", "is null"),
        ("year >", "at its end: a column, a number or a text", ""),
        ("", "at its end", ""),
        ("year = 99999999999999999999", "64 bits", ""),
        ("weight = 1e999", "too large", ""),
        ("Day > date '2024-13-01'", "no day", ""),
        ("regexp_like(title, lang)", "must be written out", ""),
        (f"regexp_like(title, '{'a' * 301}')", "a pattern is missing", "300"),
        ("regexp_match(title, 'a') is null", "true or false", "leave out"),
        ("title like lang", "a pattern is missing", ""),
        ("(" * 60 + "true" + ")" * 60, "too deep", "50"),
        ("-" * 60 + "year = 1", "too deep", "50"),
        ("year " + "+ 1 " * 60 + "= 1", "too deep", "50"),
        ("exists (select 1)", "no function exists", ""),
        ("id in (select id from documents)", "no column 'select'", ""),
        ("case when true then true end", "no column 'case'", ""),
        ("year in ()", "is missing", ""),
        ("left(title) = 'T'", "left takes 2 arguments", "a text and a whole number"),
        ("cast(draft as int) = 1", "true or false is no int", ""),
        ("title = 'it", '"\'" (character 9)', "quotes"),
        ("x" * 100_001, "100,001 characters", "100,000"),
        ("year / 0 = 1", "fails for a document", ""),
        ("cast(title as int) = 1", "fails for a document", ""),
        ("regexp_like(title, '(((a{1000}){1000}){1000})')", "fails for a document", ""),
    ],
)
def test_what_is_refused(where: str, said: str, hint: str, reader: LanceReader) -> None:
    with pytest.raises(UsageError) as caught:
        reader.numbers(where)
    assert said in caught.value.message and hint in caught.value.hint
    assert "_text" not in caught.value.hint and len(str(caught.value)) < 900


def test_all_that_finds_documents_refuses_alike(tmp_path: Path) -> None:
    with mw.open(tmp_path / "index", embedder="none") as index:
        index.add(*DOCUMENTS)
        for call in (index.context, index.ask):
            for where in ("_digest is not null", "year = 2020; true", "contains(repeat('a', 2000000000), 'b')"):
                with pytest.raises(UsageError, match="not understood"):
                    call("What do owls eat?", where=where)


def test_a_condition_has_a_time(reader: LanceReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lance_state, "CONDITION_SECONDS", 0.0)
    with pytest.raises(UsageError, match="takes more than 0 seconds"):
        reader.numbers("title like '%in time%'")


@pytest.mark.parametrize("piece", ["1", ".", "'", "''", "a", " ", "(", "-", "not ", "1e", "`", "and "])
def test_a_condition_is_read_in_a_time_that_grows_with_it(piece: str) -> None:
    began = time.process_time()
    with pytest.raises(UsageError):
        parse_condition(piece * (99_000 // len(piece)) + "!", KINDS)
    # it takes a tenth of a second; with every character looked at for every other one, minutes
    assert time.process_time() - began < 5


def test_the_slow_reading_knows_every_function() -> None:
    assert FUNCTIONS.keys() <= SLOW_FUNCTIONS.keys() | {"coalesce", "concat"}


# -- random conditions

TEXTS = st.sampled_from(
    ["''", "'en'", "'a'", "'%'", "'e_'", "'%t%'", "'EN''s'", "', '", "' x '", "'2024-05-01'", "'7'", "'\\%'"]
)
PATTERNS = st.sampled_from(["'^e'", "'a|b'", "'.'", "'x*'"])
WHOLES = st.sampled_from(["0", "1", "2", "3", "2020", "-1", "9223372036854775807"])
FRACTIONS = st.sampled_from(["0.5", "2.5", "-0.0", "1e300", "1e-7", ".5", "3."])


def joined(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[str]:
    return st.tuples(*(st.just(part) if isinstance(part, str) else part for part in parts)).map("".join)


def one_of(*of: str) -> st.SearchStrategy[str]:
    return st.sampled_from(of)


text = st.deferred(
    lambda: (
        TEXTS
        | one_of("lang", "`two words`", "title", "id", "Day")
        | joined(one_of("lower(", "upper(", "trim("), text, ")")
        | joined(text, " || ", text)
        | joined(one_of("left(", "right("), text, ", ", one_of("0", "1", "-1", "year"), ")")
        | joined(one_of("concat(", "coalesce("), text, ", ", text, ")")
        | joined("split_part(", text, ", ", text, ", ", one_of("1", "2"), ")")
        | joined("cast(", whole | truth, " as text)")
    )
)
whole = st.deferred(
    lambda: (
        WHOLES
        | st.just("year")
        | joined("(", whole, one_of(" + ", " - ", " * ", " / ", " % "), whole, ")")
        | joined(one_of("length(", "char_length("), text, ")")
        | joined("strpos(", text, ", ", text, ")")
        | joined("-", st.just("year"))
        | joined("cast(", fraction | text, " as int)")
        | joined("coalesce(", whole, ", ", whole, ")")
    )
)
fraction = st.deferred(
    lambda: (
        FRACTIONS
        | st.just("weight")
        | joined("(", fraction, one_of(" + ", " - ", " * ", " / ", " % "), fraction | whole, ")")
        | joined(one_of("abs(", "round("), fraction | whole, ")")
        | joined("cast(", whole | text, " as double)")
    )
)
comparison = one_of(" = ", " != ", " <> ", " < ", " <= ", " > ", " >= ", "==")
truth: st.SearchStrategy[str] = st.deferred(
    lambda: (
        one_of("draft", "true", "false")
        | joined(text, comparison, text)
        | joined(whole, comparison, whole | fraction)
        | joined(fraction, comparison, fraction)
        | joined(one_of("year", "weight", "lang", "draft", "Day"), one_of(" is null", " is not null"))
        | joined(truth, one_of(" is true", " is not true", " is false", " is not false"))
        | joined(text, one_of(" like ", " not like ", " ilike "), TEXTS)
        | joined(text, one_of(" in (", " not in ("), text, ", ", text, ")")
        | joined(whole, one_of(" between ", " not between "), whole, " and ", whole | fraction)
        | joined(one_of("starts_with(", "ends_with(", "contains("), text, ", ", text, ")")
        | joined("regexp_like(", text, ", ", PATTERNS, ")")
        | joined("array_has(string_to_array(", text, ", ', '), ", text, ")")
        | joined("cast(", one_of("Day", "lang"), " as date)", comparison, "date '2024-05-01'")
        | joined("(", truth, one_of(" and ", " or "), truth, ")")
        | joined("not ", truth)
    )
)
WORDS = [
    "and",
    "or",
    "not",
    "(",
    ")",
    ",",
    "=",
    "<",
    "'",
    "''",
    "`",
    "year",
    "lang",
    "_text",
    "in",
    "is",
    "null",
    "like",
    "-",
    "1",
    ";",
]


def agrees(where: str, reader: LanceReader) -> bool:
    """Whether it was understood. Where a value cannot be worked out, the database may answer or refuse."""
    try:
        numbers = expected(where)
    except UsageError as error:
        assert "understood" in error.message
        with pytest.raises(UsageError):
            reader._read_numbers(where)
        return False
    except Failing:
        try:
            reader._read_numbers(where)
        except UsageError as error:
            assert "fails for a document" in error.message
        return True
    assert reader._read_numbers(where) == numbers, sql_of(parse_condition(where, KINDS))
    return True


@given(where=truth)
@settings(max_examples=20_000 if LONG else 80)
def test_the_database_agrees_with_a_slow_reading(where: str, reader: LanceReader) -> None:
    agrees(where, reader)


@given(where=st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=60))
@settings(max_examples=20_000 if LONG else 80)
def test_any_text_is_answered_or_refused(where: str, reader: LanceReader) -> None:
    agrees(where, reader)


def test_what_sql_is_written_is_read_the_same_again() -> None:
    for where in (
        "year between 1 and 2.5 or not (lang like 'a''%')",
        "cast(Day as date) > date '2024-05-01' and draft",
    ):
        condition = parse_condition(where, KINDS)
        assert parse_condition(sql_of(condition), KINDS) == condition
