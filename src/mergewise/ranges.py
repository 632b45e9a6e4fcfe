"""Checks of arguments: numbers within ranges, choices, switches and texts.

A parameter declares its range and its meaning in its type: `Annotated[int, Range(1, 100), "meaning"]`. `value_of` converts a
value to that type. If it cannot, it raises a UsageError such as "invalid budget: -5 (expected a whole number, 1 to 10,000,000)".
The `what` of all functions names the parameter. Numbers may be numpy's. Booleans, fractions for whole numbers, infinity and NaN
are invalid.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Collection
from dataclasses import fields
from functools import cache, partial
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from mergewise.errors import UsageError, one_of
from mergewise.types import frozen

SWITCHES = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}
# Maximum characters of an invalid value in a message, and of a number
_LONGEST_SHOWN = 80
_LONGEST_NUMBER = 400


@frozen
class Range:
    """A range from `low` to `high`, both included. With `above`, `low` is excluded."""

    low: float
    high: float
    above: bool = False

    def __contains__(self, value: float) -> bool:
        return (self.low < value if self.above else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        first = f"above {_bound_text(self.low)}, at most" if self.above else f"{_bound_text(self.low)} to"
        return f"{first} {_bound_text(self.high)}"


MOST_ROWS = 10_000
"""Maximum rows of a search. Each costs memory, and nobody reads more."""

ROWS = Range(0, MOST_ROWS)
SHARE = Range(0, 1)
BUDGET = Range(1, 10_000_000)
ROUNDS = Range(1, 100)
AT_ONCE = Range(1, 1024)
WORKERS = Range(1, 1024)
GPUS = Range(0, 64)
OUTPUT = Range(1, 10_000_000)
DOCUMENTS = Range(0, 1_000_000_000)
RETRYING = Range(0, 100)
SECONDS = Range(0, 86_400, above=True)
TOKENS = Range(1, 1_000_000_000)
PRICE = Range(0, 1_000_000)


@frozen
class Ceilings:
    """Maximum values of strategy parameters, for questions from strangers. Larger values raise UsageError.

    Attributes:
        k: Maximum rows of a search (`k`, `k1`, `k2`, `onward`).
        candidates: Maximum candidates (`among`, `beam`, `n`).
    """

    k: int = 500
    candidates: int = 2000

    def __post_init__(self) -> None:
        for name in ("k", "candidates"):
            whole(f"ceiling of {name}", getattr(self, name), Range(1, MOST_ROWS))

    def of(self, parameter: str) -> int | None:
        """Return the ceiling of a parameter, or None without one."""
        if parameter in ("k", "k1", "k2", "onward"):
            return self.k
        return self.candidates if parameter in ("among", "beam", "n") else None


def check_fields(record: Any) -> None:
    """Convert each field of a frozen dataclass to its type and check its range. Call it in `__post_init__`."""
    name, hints = type(record).__name__, hints_of(type(record))
    for field in fields(record):
        given = getattr(record, field.name)
        value = value_of(f"{field.name} of {name}", given, hints[field.name])
        if value is not given:
            object.__setattr__(record, field.name, value)


class CheckedFields:
    """Base of frozen dataclasses whose fields are checked by `check_fields` when a record is created."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_fields(self)


hints_of: Callable[[type], dict[str, Any]] = cache(partial(get_type_hints, include_extras=True))
"""Return the annotated types of a class's fields. Cached, because Python compiles each annotation."""


def value_of(what: str, given: object, hint: Any) -> Any:
    """Convert a value to the type `hint`, which may be `Annotated` with a `Range`. A type or None means the type."""
    wanted = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if isinstance(wanted, UnionType):
        wanted = get_args(wanted)[0]
    if get_origin(wanted) is Literal:
        return choice(what, given, get_args(wanted))
    if wanted is bool:
        # booleans of Python and numpy
        known = isinstance(given, str | bool) or type(given).__name__ in ("bool", "bool_")
        written = str(given).lower() if known or (isinstance(given, int) and given in (0, 1)) else ""
        if written not in SWITCHES:
            raise UsageError(f"invalid {what}: {short_repr(given)}", "expected true or false")
        return SWITCHES[written]
    if wanted is str:
        return text(what, given)
    if wanted is Path:
        return Path(text(what, given))
    if get_origin(wanted) is tuple:
        parts = given.split("+") if isinstance(given, str) else given
        if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
            raise UsageError(f"invalid {what}: {short_repr(given)}", "expected a list of texts")
        return tuple(parts)
    return number(what, given, int if wanted is int else float, range_of(hint))


def range_of(hint: Any) -> Range | None:
    """Return the range of an annotated type."""
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((note for note in notes if isinstance(note, Range)), None)


def whole(what: str, given: object, limits: Range) -> int:
    """Convert a value to a whole number. A text is invalid."""
    if isinstance(given, str):
        raise UsageError(f"invalid {what}: {short_repr(given)}", f"expected a whole number, {limits}")
    return int(number(what, given, int, limits))


def number(what: str, given: object, kind: type[int] | type[float], limits: Range | None = None) -> float:
    """Convert a value or a text to a number. Whole numbers may be given as floats without a fraction."""
    value: float = math.nan
    try:
        if isinstance(given, str):
            value = kind(given if len(given) <= _LONGEST_NUMBER else "")
        elif isinstance(given, numbers.Integral):
            value = kind(operator.index(given))
        elif isinstance(given, numbers.Real):
            value = kind(float(given))
        is_number = math.isfinite(value) and not isinstance(given, bool)
        is_number = is_number and (isinstance(given, str) or kind is float or value == given)
    except (TypeError, ValueError, ArithmeticError):
        # OverflowError is an ArithmeticError
        is_number = False
    if not is_number or (value < 0 if limits is None else value not in limits):
        shown = value if is_number and isinstance(given, str) else given
        named = "a whole number" if kind is int else "a number"
        hint = f"expected {named}, {'0 or more' if limits is None else limits}"
        raise UsageError(f"invalid {what}: {short_repr(shown)}", hint)
    return value


def choice(what: str, given: object, choices: Collection[str]) -> str:
    if not isinstance(given, str) or given not in choices:
        raise UsageError(f"invalid {what}: {short_repr(given)}", one_of(given, choices))
    return given


def text(what: str, given: object) -> str:
    """Check that a value is a text that can be encoded as UTF-8."""
    if not isinstance(given, str):
        raise UsageError(f"invalid {what}: {short_repr(given)}", "expected a text")
    try:
        given.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"invalid {what}: half a surrogate pair", "expected valid Unicode") from None
    return given


def text_or_none(what: str, given: object) -> str | None:
    return None if given is None else text(what, given)


def as_list(what: str, given: object, hint: str) -> list[Any]:
    """Convert an iterable to a list. A text is invalid."""
    try:
        if isinstance(given, str | bytes | bytearray):
            raise TypeError
        return list(given)  # type: ignore[call-overload, no-any-return]
    except TypeError:
        raise UsageError(f"invalid {what}: {'a text' if isinstance(given, str) else short_repr(given)}", hint) from None


def short_repr(given: object) -> str:
    """Return a short form of a value for a message, also if its own `repr` fails."""
    try:
        written = repr(given)
    except Exception:
        # for example a number with more digits than Python prints
        return f"a {type(given).__name__}"
    return written if len(written) <= _LONGEST_SHOWN else written[:_LONGEST_SHOWN] + "..."


def _bound_text(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"
