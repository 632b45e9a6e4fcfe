from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from mergewise.designs.strategies import assignments, split_spec, split_specs, with_parameters
from mergewise.errors import UsageError


@dataclass(frozen=True, slots=True)
class Tea:
    kind: Literal["green", "black"] = "black"
    cups: int = 2
    sugar: float = 0.5
    milk: bool = True


def test_lists_of_specs() -> None:
    assert split_specs("topk, auto-merge(mode=never, k=3),dos") == ["topk", "auto-merge(mode=never, k=3)", "dos"]
    assert split_specs(" , ") == []


def test_a_spec_is_a_name_and_text_in_parentheses() -> None:
    assert split_spec(" tea ") == ("tea", "")
    assert split_spec("tea (cups=3)") == ("tea", "cups=3")
    assert split_spec("tea(cups=3") == ("tea(cups=3", "")


def test_assignments_are_read_as_they_are_written() -> None:
    assert assignments(" cups = 3,, kind=green=ish ", "tea") == {"cups": "3", "kind": "green=ish"}
    with pytest.raises(UsageError, match="invalid assignment in 'tea\\(cups\\)': 'cups'"):
        assignments("cups", "tea(cups)")


def test_values_are_converted_to_the_types_of_the_parameters() -> None:
    given: dict[str, object] = {"kind": "green", "cups": "3", "sugar": "1.5", "milk": "off"}
    assert with_parameters(Tea(), given, "tea") == Tea("green", 3, 1.5, False)
    assert with_parameters(Tea(cups=5), {}, "tea") == Tea(cups=5)


@pytest.mark.parametrize(
    ("given", "wanted"), [("true", True), ("Yes", True), ("1", True), ("no", False), ("0", False), (False, False)]
)
def test_switches_are_read_as_a_person_writes_them(given: object, wanted: bool) -> None:
    assert with_parameters(Tea(), {"milk": given}, "tea").milk is wanted


@pytest.mark.parametrize(
    ("key", "value", "says", "hint"),
    [
        ("kind", "red", "invalid kind of tea: 'red'", "one of: green, black"),
        ("cups", "many", "invalid cups of tea: 'many'", "expected a whole number, 0 or more"),
        ("cups", "-1", "invalid cups of tea: -1", "expected a whole number, 0 or more"),
        ("milk", "2", "invalid milk of tea: '2'", "expected true or false"),
        ("lemon", "1", "tea has no parameter 'lemon'", "it has: kind, cups, sugar, milk"),
    ],
)
def test_errors_for_wrong_values_have_a_hint(key: str, value: str, says: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        with_parameters(Tea(), {key: value}, "tea")
    assert (error.value.message, error.value.hint) == (says, hint)


PRESETS = {"paper": {"kind": "black", "cups": 1}}


def test_a_preset_sets_several_parameters_and_others_override_it() -> None:
    assert with_parameters(Tea(), {"preset": "paper"}, "tea", PRESETS) == Tea("black", 1)
    assert with_parameters(Tea(), {"cups": "4", "preset": "paper"}, "tea", PRESETS) == Tea("black", 4)


@pytest.mark.parametrize("preset", ["papers", "", None, [], 1])
def test_the_error_for_an_unknown_preset_lists_the_known_ones(preset: object) -> None:
    with pytest.raises(UsageError, match="no preset") as error:
        with_parameters(Tea(), {"preset": preset}, "tea", PRESETS)
    assert "it has: paper" in str(error.value.hint)


def test_a_strategy_without_presets_has_no_such_parameter() -> None:
    with pytest.raises(UsageError, match="no parameter 'preset'"):
        with_parameters(Tea(), {"preset": "paper"}, "tea")
