"""Any value of a caller is accepted, or refused by a UsageError with the parameter, the value and the expected range."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import numpy as np
import pytest

import mergewise
from mergewise.designs import STRATEGIES, VIEWS
from mergewise.designs.strategies import merge_context, resolve, view_settings
from mergewise.errors import UsageError
from mergewise.ranges import MOST_ROWS, Range, check_fields, range_of, text, value_of
from mergewise.retrieve.hybrid import SearchSettings
from mergewise.types import Document


class Nameless:
    def __repr__(self) -> str:
        raise RuntimeError("no name")


HOSTILE: list[Any] = [
    *(0, 1, -1, 2, 10**9, 10**19, -(10**19), 10**5000, 0.5, 1.5, 1e308, -0.0),
    *(float("inf"), float("-inf"), float("nan"), True, False, None, 1j, Decimal("NaN"), Decimal(3), Fraction(1, 3)),
    *("", " ", "1", "-1", "nan", "inf", "1e400", "9" * 5000, "ten", "\ud800", "a+b", "\0", "٣"),
    *(b"", b"1", bytearray(b"x"), [], [1], (), (1, 2), {}, {"k": 1}, set(), object(), Nameless(), int, lambda: 1),
    *(np.int64(3), np.int8(-1), np.float32(0.5), np.float64("nan"), np.bool_(True), np.array([1, 2]), np.array(3)),
]
WHOLE = [(name, strategy.parameters) for name, strategy in STRATEGIES.items()]
SETTINGS = [*WHOLE, *((name, view.settings()) for name, view in VIEWS.items()), ("search", SearchSettings())]


def parameters() -> Iterator[Any]:
    for name, defaults in SETTINGS:
        for field in fields(defaults):
            yield pytest.param(name, defaults, field.name, id=f"{name}.{field.name}")


def is_accepted(call: Callable[[], object]) -> bool:
    """Call it and return whether the value was accepted. Any error except UsageError fails the test."""
    try:
        call()
    except UsageError as error:
        assert "\n" not in error.message and error.hint
        return False
    return True


@pytest.mark.parametrize(("name", "defaults", "field"), list(parameters()))
def test_every_number_has_a_range_that_holds_its_default(name: str, defaults: Any, field: str) -> None:
    hint = get_type_hints(type(defaults), include_extras=True)[field]
    value = getattr(defaults, field)
    if isinstance(value, int | float) and not isinstance(value, bool):
        limits = range_of(hint)
        assert limits is not None, f"{name}: {field} has no Range"
        assert value in limits
        for outside in (limits.low - 1, limits.high * 2 + 1):
            with pytest.raises(UsageError) as refused:
                type(defaults)(**{field: outside})
            assert field in refused.value.message and str(outside) in refused.value.message
            assert str(limits) in refused.value.hint


@pytest.mark.parametrize(("name", "defaults", "field"), list(parameters()))
def test_hostile_parameter_values_are_converted_or_refused(name: str, defaults: Any, field: str) -> None:
    kind = type(getattr(defaults, field))
    for value in HOSTILE:
        try:
            made = type(defaults)(**{field: value})
        except UsageError as error:
            assert error.hint and "\n" not in error.message and len(str(error)) < 500
        else:
            assert type(getattr(made, field)) is kind, value
            assert hash(made) is not None


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> mergewise.Index:
    opened = mergewise.open(tmp_path_factory.mktemp("ranges") / "index", embedder="none", views=("leaf", "slice"))
    texts = ("Ella Stone built the lighthouse of Norr. It was paid for by the town.", "Norr is a town by the sea.")
    opened.add([Document(id=f"d{i}", title=f"T{i}", text=f"# One\n\n{text}\n") for i, text in enumerate(texts)])
    return opened


@pytest.mark.parametrize("name", STRATEGIES)
def test_hostile_parameters_give_a_context_or_a_usage_error(name: str, index: mergewise.Index) -> None:
    """Every strategy runs with any valid parameters. Invalid ones are refused before any search."""
    taken = 0
    for field in fields(STRATEGIES[name].parameters):
        for value in HOSTILE:
            given = {field.name: value}
            if is_accepted(lambda given=given: resolve(name, given)):  # type: ignore[misc]
                taken += 1
                is_accepted(lambda given=given: index.context("Who built Norr?", strategy=name, parameters=given))  # type: ignore[misc]
    assert taken


CALLS: dict[str, Callable[[mergewise.Index, Any], object]] = {
    "question": lambda index, value: index.context(value),
    "strategy": lambda index, value: index.context("Norr?", strategy=value),
    "budget": lambda index, value: index.context("Norr?", budget=value),
    "where": lambda index, value: index.context("Norr?", where=value),
    "rounds": lambda index, value: index.context("Norr?", rounds=value),
    "merge_with": lambda index, value: index.context("Norr?", merge_with=value),
    "parameters": lambda index, value: index.context("Norr?", parameters=value),
    "history": lambda index, value: index.context("Norr?", history=value),
    "turn": lambda index, value: index.context("Norr?", history=[value]),
    "asked": lambda index, value: index.ask(value),
    "mode": lambda index, value: index.ask("Norr?", mode=value),
    "max_tokens": lambda index, value: index.ask("Norr?", max_tokens=value),
    "concurrency": lambda index, value: index.ask_many(["Norr?"], concurrency=value),
    "questions": lambda index, value: index.ask_many(value),
    "document": lambda index, value: index.document(value),
    "remove": lambda index, value: index.remove(value),
    "removed": lambda index, value: index.remove([value]),
    "find": lambda index, value: index.find(value),
    "open": lambda index, value: mergewise.open(index.store.directory, settings={"slice": value}),
}


@pytest.mark.parametrize("name", CALLS)
def test_hostile_arguments_of_calls_end_well_or_in_a_usage_error(name: str, index: mergewise.Index) -> None:
    refused = [value for value in HOSTILE if not is_accepted(lambda value=value: CALLS[name](index, value))]  # type: ignore[misc]
    assert refused
    assert len(index) == 2


def test_numbers_are_read_from_texts_and_from_numpy() -> None:
    hint = Annotated[int, Range(1, 100), "how many"]
    assert [value_of("k", given, hint) for given in (3, "3", 3.0, np.int64(3), np.float32(3))] == [3] * 5
    share = Annotated[float, Range(0, 1, above=True)]
    assert value_of("share", np.float32(0.5), share) == value_of("share", "0.5", share) == 0.5
    with pytest.raises(UsageError, match=r"invalid k: 1000 \(expected a whole number, 1 to 100\)"):
        value_of("k", 1000, hint)
    with pytest.raises(UsageError, match=r"invalid share: 0 \(expected a number, above 0, at most 1\)"):
        value_of("share", 0, share)
    assert str(Range(0, MOST_ROWS)) == "0 to 10,000"


def test_unpaired_surrogate_is_refused() -> None:
    with pytest.raises(UsageError, match="invalid id: half a surrogate pair"):
        text("id", "a\ud800")
    assert text("id", "𝄞") == "𝄞"


def test_list_of_texts_refuses_other_items() -> None:
    hint = tuple[str, ...]
    taken = [value_of("names", given, hint) for given in ("a+b", ["a", "b"], ())]
    assert taken == [("a", "b"), ("a", "b"), ()]
    with pytest.raises(UsageError, match=r"invalid names: \['a', 1\]"):
        value_of("names", ["a", 1], hint)


def test_dataclass_checks_its_ranges() -> None:
    @dataclass(frozen=True, slots=True)
    class Tea:
        cups: Annotated[int, Range(1, 9)] = 2

        def __post_init__(self) -> None:
            check_fields(self)

    globals()["Tea"] = Tea
    with pytest.raises(UsageError, match="invalid cups of Tea: 10"):
        Tea(cups=10)
    assert type(Tea(cups=np.int64(3)).cups) is int  # type: ignore[arg-type]


def test_errors_of_specs_show_the_range() -> None:
    with pytest.raises(UsageError, match=r"invalid k of weave: 10001 \(expected a whole number, 0 to 10,000\)"):
        resolve("weave(k=10001)")
    with pytest.raises(UsageError, match="invalid chunk of the view slice: 0"):
        view_settings(["slice"], ["slice.chunk=0"], "extractive")
    with pytest.raises(UsageError, match="invalid widen of mergerag-sym: 1000"):
        merge_context("mergerag-sym(widen=1000)", None, 100, None)  # type: ignore[arg-type]


def test_invalid_source_is_refused(index: mergewise.Index, tmp_path: Path) -> None:
    for value in (5, None, b"docs", 1.5):
        with pytest.raises(UsageError, match="invalid source"):
            index.add(value)
