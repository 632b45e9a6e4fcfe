"""Checks of a caller's values: numbers within ranges, choices, switches and texts, of the types that they should be.

A parameter says its range beside its meaning, `Annotated[int, Range(1, 100), "what it means"]`. `value_of` turns a value from a
text or a call into one of that type. If it cannot, it raises a UsageError with the parameter, the value and the possible values.
Numbers may be numpy's; a switch is no number; whole numbers with a fraction, infinity and NaN are refused.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Collection
from dataclasses import dataclass, fields
from functools import cache, partial
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from mergewise.errors import UsageError

SWITCHES = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}
# Characters of a wrong value in a message, and those that are read as a number.
_LONGEST_SHOWN = 80
_LONGEST_NUMBER = 400


@dataclass(frozen=True, slots=True)
class Range:
    """From `low` to `high`, both of them included; without the lowest where `above` is set."""

    low: float
    high: float
    above: bool = False

    def __contains__(self, value: float) -> bool:
        return (self.low < value if self.above else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        first = f"above {_bound_text(self.low)}, at most" if self.above else f"{_bound_text(self.low)} to"
        return f"{first} {_bound_text(self.high)}"


MOST_ROWS = 10_000
"""Rows of one search: more than that nobody reads, and each costs memory."""

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


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The largest values that questions may give for parameters of strategies; what is larger is a UsageError that names them.

    `k` holds for rows of a search (`k`, `k1`, `k2`, `onward`), `candidates` for texts that are weighed (`among`, `beam`, `n`).
    """

    k: int = 500
    candidates: int = 2000

    def __post_init__(self) -> None:
        for name in ("k", "candidates"):
            whole(f"the ceiling of {name} is", getattr(self, name), Range(1, MOST_ROWS))

    def of(self, parameter: str) -> int | None:
        """That of a parameter of this name; None where it is free."""
        if parameter in ("k", "k1", "k2", "onward"):
            return self.k
        return self.candidates if parameter in ("among", "beam", "n") else None


def check_fields(record: Any) -> None:
    """To be called as a frozen dataclass's `__post_init__`: each field becomes a value of its type, in its range."""
    name, hints = type(record).__name__, hints_of(type(record))
    for field in fields(record):
        given = getattr(record, field.name)
        value = value_of(f"{name}: {field.name} cannot be", given, hints[field.name])
        if value is not given:
            object.__setattr__(record, field.name, value)


class CheckedFields:
    """A base for frozen dataclasses. It checks the fields of a record when the record is made, as `check_fields` does."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_fields(self)


def hints_of(kind: type) -> dict[str, Any]:
    """The types of a class's fields, with what stands beside them. Python compiles each of them, so that is done once."""
    return _hints(kind)


_hints = cache(partial(get_type_hints, include_extras=True))


def value_of(what: str, given: object, hint: Any) -> Any:
    """The value as the type `hint`, which may be `Annotated` with a `Range`, demands it. `what` is how an error begins."""
    wanted = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if get_origin(wanted) is Literal:
        return choice(what, given, get_args(wanted))
    if wanted is bool:
        return _switch(what, given)
    if wanted is str:
        return text(what, given)
    if get_origin(wanted) is tuple:
        return _texts(what, given)
    return number(what, given, int if wanted is int else float, range_of(hint))


def range_of(hint: Any) -> Range | None:
    """The range that stands beside a type."""
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((note for note in notes if isinstance(note, Range)), None)


def whole(what: str, given: object, limits: Range) -> int:
    """A whole number of a call. A text is none here."""
    if isinstance(given, str):
        raise UsageError(f"{what} {short_repr(given)}", f"a whole number, {limits}")
    return int(number(what, given, int, limits))


def number(what: str, given: object, kind: type[int] | type[float], limits: Range | None = None) -> float:
    """A number of this kind. A text is read as one, a fraction of nothing is a whole number."""
    named = {int: "a whole number", float: "a number"}[kind]
    hint = f"it is of type {kind.__name__}" if limits is None else f"{named}, {limits}"
    try:
        value = _parse_number(given, kind)
    except (TypeError, ValueError, ArithmeticError):
        # OverflowError is an ArithmeticError
        raise UsageError(f"{what} {short_repr(given)}", hint) from None
    if limits is None and value < 0:
        raise UsageError(f"{what} negative", "give 0 or more")
    if limits is not None and value not in limits:
        raise UsageError(f"{what} {short_repr(value if isinstance(given, str) else given)}", hint)
    return value


def _parse_number(given: object, kind: type[int] | type[float]) -> float:
    if isinstance(given, bool):
        raise TypeError
    value: float
    if isinstance(given, str):
        value = kind(given) if len(given) <= _LONGEST_NUMBER else kind("")
    elif isinstance(given, numbers.Integral):
        value = kind(operator.index(given))
    elif isinstance(given, numbers.Real):
        value = kind(float(given))
        if kind is int and value != given:
            raise ValueError
    else:
        raise TypeError
    if not math.isfinite(value):
        raise ValueError
    return value


def choice(what: str, given: object, choices: Collection[str]) -> str:
    if not isinstance(given, str) or given not in choices:
        raise UsageError(f"{what} {short_repr(given)}", f"one of: {', '.join(choices)}")
    return given


def text(what: str, given: object) -> str:
    """A text that can be written as UTF-8."""
    if not isinstance(given, str):
        raise UsageError(f"{what} {short_repr(given)}", "give a text")
    try:
        given.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"{what} not valid Unicode: it holds half a surrogate pair", "give a text") from None
    return given


def text_or_none(what: str, given: object) -> str | None:
    return None if given is None else text(what, given)


def as_list(what: str, given: object, hint: str) -> list[Any]:
    """The value as a list. A text is no list of its characters."""
    try:
        if isinstance(given, str | bytes | bytearray):
            raise TypeError
        return list(given)  # type: ignore[call-overload, no-any-return]
    except TypeError:
        raise UsageError(f"{what} {'one text' if isinstance(given, str) else short_repr(given)}", hint) from None


def short_repr(given: object) -> str:
    """The value for a message: short, and whatever its own `repr` does."""
    try:
        written = repr(given)
    except Exception:
        # such as a number of more digits than Python writes
        return f"a {type(given).__name__}"
    return written if len(written) <= _LONGEST_SHOWN else written[:_LONGEST_SHOWN] + "..."


def _switch(what: str, given: object) -> bool:
    # Python's switches and numpy's
    known = isinstance(given, str | bool) or type(given).__name__ in ("bool", "bool_")
    written = str(given).lower() if known or (isinstance(given, int) and given in (0, 1)) else ""
    if written not in SWITCHES:
        raise UsageError(f"{what} {short_repr(given)}", "true or false")
    return SWITCHES[written]


def _texts(what: str, given: object) -> tuple[str, ...]:
    parts = given.split("+") if isinstance(given, str) else given
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise UsageError(f"{what} {short_repr(given)}", "a list of texts")
    return tuple(parts)


def _bound_text(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"
