"""Conditions on documents: valid and invalid ones, and the database compared with a slow evaluation of the tree."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.slow_conditions import meets

import mergewise as mw
from mergewise.errors import UsageError
from mergewise.store import snapshot
from mergewise.store.conditions import parse_condition, sql_of
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
    """Evaluate a condition slowly."""
    condition = parse_condition(where, KINDS)
    return {
        number for number, d in enumerate(DOCUMENTS) if meets(condition, {"id": d.id, "title": d.title, **d.metadata})
    }


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("year >= 2020 and lang = 'en'", {0}),
        *((where, {0, 2}) for where in ("lang = 'EN''s' or `two words` like '%cat'", "year in (2020, 0.0)")),
        *((where, {0, 3}) for where in ("draft <> false", "weight > 0", "year > 2019.5")),
        *((where, {1}) for where in ("not draft = true", '"two words" is not null and YEAR < 0')),
        ("year is null", {4}),
        ("year not in (2020, 0) and year >= -5 and year <= 5", {1}),
        ("lang not in ('en') or lang not in ('de')", {0, 1, 2}),
        ("not (lang in ('en') and lang in ('de'))", {0, 1, 2}),
        ("year = 2020.0", {0}),
        ("title like '%tle 3'", {3}),
        ("title not like '%tle 3' and id != 'd0'", {1, 2, 4}),
        ("`two words` like 'a\\%b%'", {1}),
        *((where, {0, 1, 2, 3, 4}) for where in ("true", "not not not false")),
        ("not (year = 2020 or (draft = true)) and lang is not null", {1}),
        (" or ".join(f"id = 'd{i}'" for i in range(1, 700)), {1, 2, 3, 4}),
        (f"id in ({', '.join(repr(f'd{i}') for i in range(2, 5000))})", {2, 3, 4}),
    ],
)
def test_valid_conditions_are_parsed(where: str, numbers: set[int], reader: LanceReader) -> None:
    found: Set[int] = reader.numbers(where)
    assert found == expected(where) == numbers


@pytest.mark.parametrize(
    ("where", "said", "hint"),
    [
        ("contains(repeat('a', 2000000000), 'b')", "unknown key 'contains' at 'contains' (character 1)", "keys: id"),
        ("year = 2020; drop table documents", "unexpected character at ';' (character 12)", ""),
        ("year = 2020 -- and lang = 'en'", "'-' (character 13)", ""),
        ("_text like '%secret%'", "unknown key '_text'", "keys: id, title, year"),
        *(
            (f"{name} is not null", f"unknown key '{name}'", "year")
            for name in ("_digest", "_number", "_source", "_rowid")
        ),
        ("bogus = 1", "unknown key 'bogus' at 'bogus' (character 1)", "weight"),
        ('lang = "en"', "expected a value", "a text in single quotes"),
        ("lang = title", "expected a value", "a text in single quotes"),
        ("year = '2020'", "invalid value for 'year'", "a whole number"),
        ("lang = 5", "invalid value for 'lang'", "quotes"),
        ("draft = 1", "invalid value for 'draft'", "true or false"),
        ("draft > false", "no order", "draft = true"),
        ("lang", "expected a comparison at its end", "year is not null"),
        ("lower(lang) = 'x'", "unknown key 'lower'", ""),
        ("year + 1 = 2", "unexpected character at '+'", ""),
        ("year = null", "null cannot be compared", "is null"),
        ("year is 5", "expected null", ""),
        ("year not = 5", "expected a comparison", ""),
        ("year >", "expected a value at its end", ""),
        ("", "at its end", ""),
        ("year = 99999999999999999999", "invalid value", "64 bits"),
        ("weight = 1e999", "invalid value", "finite"),
        ("title like lang", "expected a value", ""),
        ("year like '2%'", "invalid value", "a whole number"),
        (f"title like '{'a' * 301}'", "invalid pattern", "300"),
        ("(" * 60 + "true" + ")" * 60, "too many brackets", "50"),
        ("exists (select 1)", "unknown key 'exists'", ""),
        ("id in (select id from documents)", "expected a value", ""),
        ("case when true then true end", "unknown key 'case'", ""),
        ("year in ()", "expected a value", ""),
        ("title = 'it", '"\'" (character 9)', "quotes"),
        ("true true", "nothing may follow", "and, or"),
        ("x" * 100_001, "100,001 characters", "100,000"),
    ],
)
def test_invalid_conditions_are_refused(where: str, said: str, hint: str, reader: LanceReader) -> None:
    with pytest.raises(UsageError) as caught:
        reader.numbers(where)
    assert said in caught.value.message and hint in caught.value.hint
    assert "_text" not in caught.value.hint and len(str(caught.value)) < 900


def test_context_and_ask_refuse_invalid_conditions(tmp_path: Path) -> None:
    with mw.open(tmp_path / "index", embedder="none") as index:
        index.add(*DOCUMENTS)
        for call in (index.context, index.ask):
            for where in ("_digest is not null", "year = 2020; true", "lower(lang) = 'en'"):
                with pytest.raises(UsageError, match="invalid condition"):
                    call("What do owls eat?", where=where)


def test_a_slow_condition_is_refused(reader: LanceReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "CONDITION_SECONDS", 0.0)
    with pytest.raises(UsageError, match="takes more than 0 seconds"):
        reader.numbers("title like '%in time%'")


@pytest.mark.parametrize("piece", ["1", ".", "'", "''", "a", " ", "(", "-", "not ", "1e", "`", "and "])
def test_a_condition_is_parsed_in_linear_time(piece: str) -> None:
    began = time.process_time()
    with pytest.raises(UsageError):
        parse_condition(piece * (99_000 // len(piece)) + "!", KINDS)
    # it takes a tenth of a second, while a quadratic algorithm would take minutes
    assert time.process_time() - began < 5


# -- random conditions

TEXTS = st.sampled_from(
    ["''", "'en'", "'a'", "'%'", "'e_'", "'%t%'", "'EN''s'", "', '", "' x '", "'2024-05-01'", "'7'", "'\\%'"]
)
NUMBERS = st.sampled_from(
    "0 1 2 3 2020 -1 -3 9223372036854775807 -9223372036854775807 0.5 2.5 -0.0 1e300 1e-7 .5 3. -2.5".split()
)


def joined(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[str]:
    return st.tuples(*(st.just(part) if isinstance(part, str) else part for part in parts)).map("".join)


def one_of(*of: str) -> st.SearchStrategy[str]:
    return st.sampled_from(of)


text_key = one_of("lang", "`two words`", "title", "id", "Day")
number_key = one_of("year", "weight", "YEAR")
comparison = one_of(" = ", " != ", " <> ", " < ", " <= ", " > ", " >= ", "==")
truth: st.SearchStrategy[str] = st.deferred(
    lambda: (
        one_of("true", "false", "draft = true", "draft != true", "draft=false")
        | joined(text_key, comparison, TEXTS)
        | joined(number_key, comparison, NUMBERS)
        | joined(number_key | text_key | st.just("draft"), one_of(" is null", " is not null"))
        | joined(text_key, one_of(" like ", " not like "), TEXTS)
        | joined(text_key, one_of(" in (", " not in ("), TEXTS, ", ", TEXTS, ")")
        | joined(number_key, one_of(" in (", " not in ("), NUMBERS, ", ", NUMBERS, ")")
        | joined("(", truth, one_of(" and ", " or "), truth, ")")
        | joined("not ", truth)
    )
)
WORDS = "and or not ( ) , = < ' '' ` year lang _text in is null like - 1 ;".split()


def agrees(where: str, reader: LanceReader) -> None:
    try:
        numbers = expected(where)
    except UsageError as error:
        assert "invalid condition" in error.message
        with pytest.raises(UsageError):
            reader.state.read_numbers(where)
    else:
        assert set(reader.state.read_numbers(where)) == numbers, sql_of(parse_condition(where, KINDS))


@given(where=truth)
@settings(max_examples=20_000 if LONG else 80)
def test_the_database_agrees_with_a_slow_evaluation(where: str, reader: LanceReader) -> None:
    agrees(where, reader)


@given(where=st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=60))
@settings(max_examples=20_000 if LONG else 80)
def test_any_text_is_answered_or_refused(where: str, reader: LanceReader) -> None:
    agrees(where, reader)
