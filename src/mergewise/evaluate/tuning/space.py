"""The space of tuning: the parameters of a strategy and of the search, as their dataclasses declare them.

Numbers with a `Range`, switches and choices are dimensions. Numbers with a wide range are drawn on a logarithmic scale, from the
default divided by `REACH` to the default times `REACH`. Other numbers are drawn from their whole range. All are rounded to two
digits to keep configurations readable.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, fields
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from mergewise import SearchSettings
from mergewise.extend import Range, range_of, resolve, split_spec, with_parameters
from mergewise.types import frozen

Value: TypeAlias = float | int | bool | str
Place: TypeAlias = Literal["strategy", "search", "weights"]

REACH = 4.0
WIDE = 10.0
"""A range is wide if its upper end is more than this many times the default, and more than this number."""


@frozen
class Dimension:
    """A parameter with its default, and either its declared range or its other choices."""

    place: Place
    name: str
    default: Value
    declared: Range | None = None
    others: tuple[Value, ...] = ()

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest number that can be drawn."""
        assert self.declared is not None
        low, high = self.declared.low, self.declared.high
        if self._is_wide and self.default:
            return max(low, float(self.default) / REACH), min(high, float(self.default) * REACH)
        return low, high

    @property
    def _is_wide(self) -> bool:
        return self.declared is not None and self.declared.high > WIDE * max(float(self.default), 1.0)

    def value(self, share: float) -> Value:
        """Return the value at a share of the range: 0 is the smallest, 0.5 the default, 1 the largest.

        For choices, [0, 1] is divided evenly among them.
        """
        if self.declared is None:
            return self.others[min(int(share * len(self.others)), len(self.others) - 1)]
        (low, high), middle = self.bounds, float(self.default)
        end, way = (high, 2 * share - 1) if share >= 0.5 else (low, 1 - 2 * share)
        if self._is_wide:
            # shifted by 1, so that the logarithmic scale reaches zero
            unit = 0.0 if min(middle, end) > 0 else 1.0
            drawn = (middle + unit) * ((end + unit) / (middle + unit)) ** way - unit
        else:
            drawn = middle + (end - middle) * way
        kind = type(self.default)
        rounded = kind(float(f"{drawn:.2g}")) if kind is float else round(float(f"{drawn:.2g}"))
        return rounded if rounded in self.declared else self.default


@frozen
class Point:
    """A strategy spec with changed parameters of the strategy, the search or the weights."""

    strategy: str
    changes: Mapping[Place, Mapping[str, Value]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of parameters that differ from the default."""
        return sum(map(len, self.changes.values()))

    @property
    def spec(self) -> str:
        """The value for `--strategy`."""
        name, given = split_spec(self.strategy)
        own = self.changes.get("strategy", {})
        kept = [part.strip() for part in given.split(",") if part.strip() and part.partition("=")[0].strip() not in own]
        return f"{name}({inner})" if (inner := ", ".join([*kept, *assignment_texts(own)])) else name

    @property
    def search(self) -> str:
        """The value of the setting `search`, empty without changes of the search."""
        return ", ".join(assignment_texts(self.changes.get("search", {})))

    @property
    def key(self) -> str:
        return " | ".join((self.spec, self.search, self.weights))

    def settings(self, default: SearchSettings) -> SearchSettings:
        chosen: SearchSettings = with_parameters(default, self.changes.get("search", {}), "the search")
        return chosen

    @property
    def weights(self) -> str:
        """The settings of fitted weights, empty for the present weights."""
        return ", ".join(assignment_texts(self.changes.get("weights", {})))

    def __str__(self) -> str:
        named = (("", self.spec), ("search ", self.search), ("weights ", self.weights))
        return ", ".join(f"{name}{value}" for name, value in named if value)


def assignment_texts(values: Mapping[str, Value]) -> list[str]:
    """Return each parameter as `name=value`, in the syntax of specs."""
    return [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in values.items()]


def dimensions_of(strategy: str, search: SearchSettings) -> list[Dimension]:
    """Return the dimensions of a strategy's parameters and of the search's settings. The spec's values are the defaults."""
    _, parameters = resolve(strategy)
    return [*_declared("strategy", parameters), *_declared("search", search)]


def _declared(place: Place, record: Any) -> Iterator[Dimension]:
    hints = get_type_hints(type(record), include_extras=True)
    for known in fields(record):
        default, hint = getattr(record, known.name), hints[known.name]
        kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        if kind is bool:
            yield Dimension(place, known.name, default, others=(not default,))
        elif get_origin(kind) is Literal:
            yield Dimension(place, known.name, default, others=tuple(c for c in get_args(kind) if c != default))
        elif (declared := range_of(hint)) is not None and not isinstance(default, str | tuple):
            yield Dimension(place, known.name, default, declared)


def drawn_points(strategy: str, dimensions: Sequence[Dimension], count: int, seed: int = 0) -> list[Point]:
    """Return the default and up to `count` points of a Latin hypercube (McKay et al. 1979).

    The range of a dimension is divided into `count` parts, and each part is drawn from once. The first point changes one
    dimension of the default, the second two, and so on up to all, then again one. So the effect of few changes is visible, and
    points share searches.
    """
    draw = random.Random(seed)
    columns = [
        [(part + draw.random()) / count for part in draw.sample(range(count), count)] for _ in range(len(dimensions))
    ]
    points = {(default := Point(strategy)).key: default}
    for number in range(count if dimensions else 0):
        changed = set(draw.sample(range(len(dimensions)), 1 + number % len(dimensions)))
        changes: dict[Place, dict[str, Value]] = {}
        for at in sorted(changed):
            one = dimensions[at]
            if (value := one.value(columns[at][number])) != one.default:
                changes.setdefault(one.place, {})[one.name] = value
        point = Point(strategy, changes)
        points.setdefault(point.key, point)
    return list(points.values())
