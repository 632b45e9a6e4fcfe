"""Registries that are filled on first access."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.designs import DESIGNS, MODES, STRATEGIES, VIEWS
from mergewise.designs.design import Design, Later, Lazy

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from("abc"), st.integers()),
        st.tuples(st.just("delete"), st.sampled_from("abc"), st.none()),
        st.tuples(st.just("pop"), st.sampled_from("abc"), st.none()),
        st.tuples(st.just("get"), st.sampled_from("abc"), st.none()),
        st.tuples(st.just("default"), st.sampled_from("abc"), st.integers()),
    ),
    max_size=12,
)


def done(parts: Any, operation: str, name: str, value: int | None) -> object:
    """Return the result of an operation, or the type of its error."""
    try:
        match operation:
            case "set":
                parts[name] = value
                return None
            case "delete":
                del parts[name]
                return None
            case "pop":
                return parts.pop(name)
            case "default":
                return parts.setdefault(name, value)
            case _:
                return parts[name]
    except KeyError as error:
        return type(error)


@given(st.dictionaries(st.sampled_from("abc"), st.integers()), OPERATIONS)
def test_a_lazy_registry_behaves_like_a_dictionary(
    start: dict[str, int], operations: list[tuple[str, str, int | None]]
) -> None:
    lazy, plain = Lazy(lambda: start), dict(start)
    for operation in operations:
        assert done(lazy, *operation) == done(plain, *operation)
        assert list(lazy.items()) == list(plain.items())
        assert (len(lazy), "a" in lazy) == (len(plain), "a" in plain)


def test_the_parts_are_made_once_and_on_first_access() -> None:
    made: list[int] = []

    def make() -> Mapping[str, int]:
        made.append(1)
        return {"a": 1}

    lazy = Lazy(make)
    assert made == []
    assert lazy["a"] == 1
    assert list(lazy) == ["a"] and len(lazy) == 1
    assert made == [1]


def test_later_changes_do_not_reach_the_source() -> None:
    source = {"a": 1}
    lazy = Lazy(lambda: source)
    lazy["b"] = 2
    del lazy["a"]
    assert source == {"a": 1}


def test_a_failed_registry_is_tried_again() -> None:
    answers: list[Mapping[str, int]] = [{"a": 1}]
    fails = [True]

    def make() -> Mapping[str, int]:
        if fails.pop() if fails else False:
            raise ImportError("an extra is missing")
        return answers[0]

    lazy = Lazy(make)
    with pytest.raises(ImportError):
        len(lazy)
    assert lazy["a"] == 1


def test_a_design_is_empty_by_default_and_cannot_be_changed() -> None:
    design = Design()
    assert (design.views, design.strategies, design.modes) == ({}, {}, {})
    with pytest.raises(FrozenInstanceError):
        design.views = {}  # type: ignore[misc]


def test_every_part_has_its_own_name_and_needs_known_views() -> None:
    assert all(view.name == name for name, view in VIEWS.items())
    assert next(iter(VIEWS)) == "leaf"
    for strategy in STRATEGIES.values():
        assert set(strategy.views) <= VIEWS.keys()
        assert not strategy.mode or strategy.mode in MODES


def test_every_mode_that_falls_back_ends_at_one_that_needs_nothing_more() -> None:
    for name in MODES:
        seen = [name]
        while (after := MODES[seen[-1]].otherwise) and after not in seen:
            seen.append(after)
        assert not MODES[seen[-1]].otherwise, f"{name} falls back in a circle: {seen}"


def test_the_named_parts_are_those_of_the_modules() -> None:
    """A part is imported at its first use, so each design names its parts."""
    for wing in DESIGNS:
        design = import_module(f"mergewise.designs.{wing}").DESIGN
        for kind in ("views", "strategies", "modes", "prompts"):
            for name, part in getattr(getattr(design, kind), "data", {}).items():
                if isinstance(part, Later):
                    found = getattr(import_module(part.module), part.attribute)
                    assert name in found if isinstance(found, dict) else name == found.name
                    assert not isinstance(found, dict) or found.keys() <= getattr(design, kind).keys(), (wing, kind)


def test_a_question_imports_its_own_design_alone() -> None:
    code = "import mergewise as mw, sys; mw.STRATEGIES['weave'], 'aed' in mw.STRATEGIES, mw.VIEWS['leaf']; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "mergewise.designs.weave.strategy" in loaded and "mergewise.designs.aed.strategy" not in loaded
    assert "mergewise.designs.aed.triplets.rules" not in loaded and "mergewise.designs.raptor.tree" not in loaded
