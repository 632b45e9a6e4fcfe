"""JSON filters equal a slow evaluation of them, and can do nothing that a condition cannot."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import examples

import mergewise as mw
from mergewise.store.conditions import parse_condition
from mergewise.store.filters import DEEPEST, MOST_LEAVES, MOST_VALUES, condition_text

ROWS: dict[str, dict[str, Any]] = {
    "a": {"year": 2020, "score": 0.5, "lang": "en", "open": True},
    "b's": {"year": -3, "score": 2.0, "lang": "it's", "open": False, "a key": "x"},
    "c": {"year": 2020, "lang": "en' or '1'='1"},
    "d/é": {"score": -0.0, "lang": ""},
    "e": {"year": 2**62, "score": 1e300, "lang": '\\%_\n"`'},
    "f": {},
}
TEXTS = sorted({value for row in ROWS.values() for value in row.values() if isinstance(value, str)} | ROWS.keys())
KINDS = {"year": int, "score": float, "lang": str, "open": bool, "a key": str}
SIGNS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def eq(key: str, value: object) -> dict[str, Any]:
    return {"type": "eq", "key": key, "value": value}


def meets(given: dict[str, Any], row: dict[str, Any]) -> bool:
    """Evaluate a filter slowly. A missing value fails every comparison."""
    kind = given["type"]
    if kind in ("and", "or"):
        return (all if kind == "and" else any)([meets(inner, row) for inner in given["filters"]])
    if given["key"] not in row:
        return False
    held, value = row[given["key"]], given["value"]
    return bool((held in value) == (kind == "in") if kind in ("in", "nin") else SIGNS[kind](held, value))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "year": st.sampled_from([2020, -3, 0, 2**62, 2020.0, 2019.5]),
    "score": st.sampled_from([0.5, 2, 0.0, 1e300, -1]),
    "lang": st.sampled_from(TEXTS) | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=3),
    "id": st.sampled_from(TEXTS),
    "title": st.sampled_from(["T", "t", "S"]),
    "a key": st.sampled_from(["x", "y"]),
    "nowhere": st.sampled_from([1, "x", True]),
    "or": st.sampled_from(["x"]),
}


@st.composite
def comparisons(draw: st.DrawFn) -> dict[str, Any]:
    key = draw(st.sampled_from([*VALUES, "open"]))
    if key == "open":
        return {"type": draw(st.sampled_from(["eq", "ne"])), "key": key, "value": draw(st.booleans())}
    kind = draw(st.sampled_from([*SIGNS, "in", "nin"]))
    value = draw(st.lists(VALUES[key], min_size=1, max_size=4) if kind in ("in", "nin") else VALUES[key])
    return {"type": kind, "key": key, "value": value}


FILTERS = st.recursive(
    comparisons(),
    lambda inner: st.builds(
        lambda kind, parts: {"type": kind, "filters": parts},
        st.sampled_from(["and", "or"]),
        st.lists(inner, min_size=1, max_size=4),
    ),
    max_leaves=8,
)


def depth(given: dict[str, Any]) -> int:
    return 1 + max((depth(inner) for inner in given.get("filters", ())), default=0)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> mw.Index:
    index = mw.open(tmp_path_factory.mktemp("i") / "index", embedder="none")
    index.add(mw.Document(doc_id, f"Cats eat fish {doc_id}.", "T", row) for doc_id, row in ROWS.items())
    return index


@settings(max_examples=examples(40), deadline=None)
@given(FILTERS, st.none() | FILTERS)
def test_a_filter_selects_the_right_documents(
    index: mw.Index, given: dict[str, Any], forced: dict[str, Any] | None
) -> None:
    where: Any = [forced, given] if forced else given
    if max(depth(given), depth(forced) if forced else 0) > DEEPEST:
        with pytest.raises(mw.UsageError, match="filter too deep"):
            index.find("*", where=where)
        return
    rows = {doc_id: {"id": doc_id, "title": "T", **row} for doc_id, row in ROWS.items()}
    wanted = [doc_id for doc_id, row in rows.items() if meets(given, row) and (not forced or meets(forced, row))]
    assert index.find("*", where=where)["*"] == wanted


@settings(max_examples=examples(50), deadline=None)
@given(FILTERS)
def test_every_filter_becomes_a_valid_condition(given: dict[str, Any]) -> None:
    """Values and keys stay inside their quotes: the parser finds exactly the columns of the filter."""
    if depth(given) > DEEPEST:
        return
    condition = condition_text(given, lambda: KINDS)
    assert condition is not None
    parse_condition(condition, {"id": str, "title": str, **KINDS})
    keys = {name for name in ("year", "score", "lang", "open", "a key", "id", "title") if f"`{name}`" in condition}
    assert keys <= keys_of(given)


def keys_of(given: dict[str, Any]) -> set[str]:
    return {given["key"]} if "key" in given else {key for inner in given["filters"] for key in keys_of(inner)}


def test_the_largest_filters_are_accepted_and_larger_ones_refused() -> None:
    leaf = eq("year", 1)

    def nested(levels: int) -> dict[str, Any]:
        return leaf if levels == 1 else {"type": "or", "filters": [leaf, nested(levels - 1)]}

    def wide(leaves: int) -> dict[str, Any]:
        return {"type": "and", "filters": [eq("lang", "x" * 50)] * leaves}

    for right in (nested(DEEPEST), wide(MOST_LEAVES), {"type": "in", "key": "year", "value": [1] * MOST_VALUES}):
        condition = condition_text(right, lambda: KINDS)
        assert condition is not None and parse_condition(condition, KINDS)
    for wrong in (nested(DEEPEST + 1), wide(MOST_LEAVES + 1), {"type": "in", "key": "year", "value": [1] * 1001}):
        with pytest.raises(mw.UsageError):
            condition_text(wrong, lambda: KINDS)
    # each part of a list has its own limit: a forced filter does not reduce that of the next one
    assert condition_text([nested(DEEPEST), nested(DEEPEST), None, wide(MOST_LEAVES)], lambda: KINDS)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"type": "eq"},
        {"type": "not", "filters": []},
        *({"type": "and", "filters": wrong} for wrong in ([], eq("year", 1), [None])),
        {**eq("year", 1), "filters": []},
        {**eq("year", 1), "type": ["eq"]},
        *({"type": "in", "key": key, "value": value} for key, value in (("year", 1), ("year", []), ("lang", "abc"))),
        {"type": "gt", "key": "open", "value": True},
        *(eq("year", value) for value in ("2020", True, None, [1], 2**63)),
        *(eq(key, value) for key, value in (("score", float("nan")), ("lang", 5), ("lang", "\ud800"), ("open", 1))),
        *(eq(key, value) for key, value in (("_source", "/etc/passwd"), ("_text", "x"), ("", "x"))),
        {**eq("year", "x"), "key": 5},
        *(["year = 1) or (1 = 1"], ["year ="], [5], 5, b"year"),
        eq("nowhere", {"a": 1}),
    ],
    ids=repr,
)
def test_invalid_filters_are_refused(index: mw.Index, wrong: Any) -> None:
    with pytest.raises(mw.UsageError):
        index.context("What do cats eat?", where=wrong)
    with pytest.raises(mw.UsageError):
        index.remove(where=wrong)
    assert len(index) == len(ROWS)


def test_every_query_and_change_accepts_filters_and_lists(tmp_path: Path, index: mw.Index) -> None:
    def held(where: Any) -> set[str]:
        context = index.context("What do cats eat?", where=where, strategy="topk", budget=400)
        return {span.doc_id for passage in context.passages for span in passage.spans}

    assert held(eq("year", 2020)) == {"a", "c"} == held(["year = 2020"]) == held([None, eq("year", 2020), None])
    assert held([eq("year", 2020), "lang = 'en'"]) == {"a"} == held(("lang = 'en'", "year = 2020 or year = 1"))
    assert held([]) == held(None) == held([None]) == set(ROWS)
    assert held(eq("nowhere", 1)) == set() == held({"type": "ne", "key": "nowhere", "value": 1})
    answer = index.ask("What do cats eat?", where=eq("id", "b's"))
    assert {citation.span.doc_id for citation in answer.citations} == {"b's"}
    own = mw.open(tmp_path / "own", embedder="none")
    own.add(mw.Document(str(year), "Cats eat fish.", metadata={"year": year}) for year in (1, 2, 3))
    nothings: list[Any] = [[], [None], {}, ""]
    for nothing in nothings:
        with pytest.raises(mw.UsageError):
            own.remove(where=nothing)
    assert own.remove(where=[{"type": "gte", "key": "year", "value": 2}, eq("id", "3")]) == 1
    assert [info.id for info in own.documents()] == ["1", "2"] and own.remove(["1"], where=[None]) == 1
