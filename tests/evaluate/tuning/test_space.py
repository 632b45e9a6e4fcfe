"""The space of tuning."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.designs import STRATEGIES
from mergewise.designs.strategies import resolve
from mergewise.evaluate.tuning.space import REACH, Dimension, Point, dimensions_of, drawn_points
from mergewise.ranges import range_of
from mergewise.retrieve.hybrid import SearchSettings


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_the_space_holds_the_declared_parameters(name: str) -> None:
    dimensions: dict[tuple[str, str], Dimension] = {
        (one.place, one.name): one for one in dimensions_of(name, SearchSettings())
    }
    for place, record in (("strategy", resolve(name)[1]), ("search", SearchSettings())):
        hints = get_type_hints(type(record), include_extras=True)
        for field in fields(record):
            declared, default = range_of(hints[field.name]), getattr(record, field.name)
            found = dimensions.get((place, field.name))
            if declared is not None and not isinstance(default, bool):
                assert found is not None and found.declared == declared and found.default == default
            elif isinstance(default, bool):
                assert found is not None and found.others == (not default,)
    assert {"weight", "depth"} <= {name for place, name in dimensions if place == "search"}


@given(
    st.sampled_from(sorted(STRATEGIES)).flatmap(lambda n: st.sampled_from(dimensions_of(n, SearchSettings()))),
    st.floats(0, 1),
)
def test_a_value_lies_in_its_range_and_near_its_default(dimension: Dimension, share: float) -> None:
    value = dimension.value(share)
    if dimension.declared is None:
        assert value in dimension.others
        return
    assert float(value) in dimension.declared and type(value) is type(dimension.default)
    assert dimension.value(0.5) == pytest.approx(dimension.default, rel=0.06)
    if dimension.declared.high > 1000 and dimension.default:
        # rounded to two digits, and integers to whole numbers
        least, most = float(dimension.default) / REACH, float(dimension.default) * REACH
        assert least / 1.1 - 0.5 <= float(value) <= most * 1.1 + 0.5


def test_a_hypercube_draws_once_from_each_part() -> None:
    (weight,) = [one for one in dimensions_of("topk", SearchSettings()) if one.name == "weight"]
    drawn = drawn_points("topk", [weight], 20)
    values = sorted(float(point.changes["search"]["weight"]) for point in drawn[1:])
    # half of the parts lie below the default of 0.4, half above
    assert sum(value < 0.4 for value in values) in range(8, 11) and values[0] < 0.04 and values[-1] > 0.93
    assert drawn[0] == Point("topk")


def test_points_change_one_or_more_parameters_and_have_valid_specs() -> None:
    dimensions = dimensions_of("weave(hops=1)", SearchSettings())
    points = drawn_points("weave(hops=1)", dimensions, 47)
    assert points[0].size == 0 and points[0].spec == "weave(hops=1)"
    assert len({point.key for point in points}) == len(points) > 40
    assert {1, 2, 5} <= {point.size for point in points}
    for point in points:
        _, parameters = resolve(point.spec)
        for name, value in point.changes.get("strategy", {}).items():
            assert getattr(parameters, name) == value
        settings = point.settings(SearchSettings())
        for name, value in point.changes.get("search", {}).items():
            assert getattr(settings, name) == value


def test_a_spec_has_each_parameter_once() -> None:
    assert Point("weave(hops=1, k=30)", {"strategy": {"hops": 3, "redundancy": False}}).spec == (
        "weave(k=30, hops=3, redundancy=false)"
    )
