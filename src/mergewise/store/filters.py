"""Filters as JSON, in the form of OpenAI's vector stores, made into conditions on documents.

    {"type": "eq", "key": "lang", "value": "en"}           also ne, gt, gte, lt, lte; in and nin with a list of values
    {"type": "and", "filters": [FILTER, ...]}              and, or

Keys are `id`, `title` and those of the metadata. A filter is written as a text of the small SQL that conditions are written in,
every name and value quoted, and read again like any other. So a filter can do nothing that a condition cannot.

A document that lacks a key meets no comparison with it, neither "ne" nor "nin": so the database compares, too. A key that no
document has is the same case, so that a filter means the same whatever else an index holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from mergewise.errors import UsageError
from mergewise.ranges import short_repr, text
from mergewise.store.condition_parser import parse_condition
from mergewise.store.conditions import ColumnReference, Condition, Constant, Kind, Operation, sql_of
from mergewise.types import Where

DEEPEST = 5
"""Filters within filters, comparisons included."""
MOST_LEAVES = 50
MOST_VALUES = 1000
"""Of a list in one comparison."""

_SIGNS = {"eq": "=", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_LISTS = {"in": "in", "nin": "not"}
_HINT = '{"type": "eq", "key": KEY, "value": VALUE}; types: eq ne gt gte lt lte in nin, and or with "filters"'
_HELD = {str: "texts", int: "whole numbers", float: "numbers", bool: "true or false"}
_KINDS: Mapping[type, Kind] = {str: "text", int: "whole", float: "fraction", bool: "truth"}


def condition_text(where: Where | None, metadata_kinds: Callable[[], Mapping[str, type]]) -> str | None:
    """The condition in SQL; None where there is none. `metadata_kinds` gives the keys of metadata and their types.

    Raises UsageError for a filter that cannot be, and for a condition of a list that is none by itself.
    """
    if where is None or isinstance(where, str):
        return where if where is None else text("the condition is", where)
    if not isinstance(where, Mapping | list | tuple):
        raise UsageError(f"the condition is {short_repr(where)}", "give a text, or a filter: " + _HINT)
    columns: dict[str, type] = {"id": str, "title": str, **metadata_kinds()}
    if isinstance(where, Mapping):
        return _one_text(where, columns)
    parts = [part for one in where if (part := _one_text(one, columns)) is not None]
    return " and ".join(f"({part})" for part in parts) or None


def _one_text(one: object, columns: Mapping[str, type]) -> str | None:
    if isinstance(one, Mapping):
        return sql_of(_Compiler(columns).compile(one))
    if one is None:
        return None
    condition = text("the condition is", one)
    # what is none by itself could close the brackets that are put around it
    parse_condition(condition, columns)
    return condition


class _Compiler:
    """Makes one filter a tree, and counts its comparisons."""

    def __init__(self, columns: Mapping[str, type]) -> None:
        self._columns = columns
        self._leaves = 0

    def compile(self, given: object, depth: int = 1) -> Condition:
        if not isinstance(given, Mapping) or not isinstance(given.get("type"), str):
            raise UsageError(f"the filter is {short_repr(given)}", _HINT)
        if depth > DEEPEST:
            raise UsageError(f"the filter has more than {DEEPEST} filters within each other", "ask for less")
        kind = given["type"]
        if kind in ("and", "or"):
            parts = _fields(given, "filters")[0]
            if not isinstance(parts, list | tuple) or not parts:
                raise UsageError(f"the filters of {kind!r} are {short_repr(parts)}", "give a list of filters")
            inner = tuple(self.compile(part, depth + 1) for part in parts)
            return inner[0] if len(inner) == 1 else Operation(kind, inner)
        if kind not in _SIGNS and kind not in _LISTS:
            raise UsageError(f"the type of a filter is {short_repr(kind)}", _HINT)
        self._leaves += 1
        if self._leaves > MOST_LEAVES:
            raise UsageError(f"the filter has more than {MOST_LEAVES} comparisons", "ask for less")
        key, value = _fields(given, "key", "value")
        return self._comparison(kind, key, value)

    def _comparison(self, kind: str, key: object, value: object) -> Condition:
        if not isinstance(key, str) or not key or key.startswith("_"):
            hint = f"the keys are: {', '.join(self._columns)}"
            raise UsageError(f"the key of a filter is {short_repr(key)}", hint)
        values = value if kind in _LISTS else [value]
        if not isinstance(values, list | tuple) or not 0 < len(values) <= MOST_VALUES:
            hint = f"{kind!r} takes a list of 1 to {MOST_VALUES:,} values"
            raise UsageError(f"the value for {short_repr(key)} is {short_repr(value)}", hint)
        constants = tuple(self._constant(key, one) for one in values)
        if key not in self._columns:
            return Constant(False, "truth")
        column = ColumnReference(key, _KINDS[self._columns[key]])
        if kind in _LISTS:
            among = Operation("in", (column, *constants))
            return among if kind == "in" else Operation("not", (among,))
        if column.kind == "truth" and kind not in ("eq", "ne"):
            raise UsageError(f"{key!r} is true or false, which has no order", "use eq or ne")
        return Operation(_SIGNS[kind], (column, *constants))

    def _constant(self, key: str, value: object) -> Constant:
        """A value to compare with what is held under the key."""
        held = self._columns.get(key)
        # numbers compare with each other, all else with its own type
        fits = type(value) in _KINDS and (held is None or type(value) is held or {type(value), held} == {int, float})
        if not fits:
            hint = "a text, a number, true or false" if held is None else f"it holds {_HELD[held]}"
            raise UsageError(f"the value for {key!r} is {short_repr(value)}", hint)
        if isinstance(value, str):
            return Constant(text(f"the value for {key!r} is", value), "text")
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"the value for {key!r} is {value}", "give a number")
        assert isinstance(value, int | float)
        if type(value) is int and not -(2**63) < value < 2**63:
            raise UsageError(f"the value for {key!r} is {short_repr(value)}", "whole numbers have up to 64 bits")
        return Constant(value, _KINDS[type(value)])


def _fields(given: Mapping[str, Any], *names: str) -> list[Any]:
    """The values of these fields. All of them, and no others, stand beside the type."""
    if given.keys() != {"type", *names}:
        shown = ", ".join(map(repr, names))
        raise UsageError(f"a filter of the type {given['type']!r} has {shown}: {short_repr(dict(given))}", _HINT)
    return [given[name] for name in names]
