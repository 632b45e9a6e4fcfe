"""Filters as JSON, in the form of OpenAI's vector stores, written as conditions on documents.

    {"type": "eq", "key": "lang", "value": "en"}           also ne, gt, gte, lt, lte; in and nin with a list of values
    {"type": "and", "filters": [FILTER, ...]}              and, or

Keys are `id`, `title` and those of the metadata. A filter becomes the text of a condition, every name and value quoted, which is
parsed like any other. So a filter can do nothing that a condition cannot.

A document that lacks a key meets no comparison with it, neither "ne" nor "nin": so the database compares, too. A key that no
document has is the same case, so that a filter means the same whatever else an index holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mergewise.errors import UsageError
from mergewise.ranges import short_repr, text
from mergewise.store.conditions import Value, parse_condition, sql_value, value_fault
from mergewise.types import Where

DEEPEST = 5
"""Filters within filters, comparisons included."""
MOST_LEAVES = 50
MOST_VALUES = 1000
"""Of a list in one comparison."""

_SIGNS = {"eq": "=", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_LISTS = {"in": "in", "nin": "not in"}
_HINT = '{"type": "eq", "key": KEY, "value": VALUE}; types: eq ne gt gte lt lte in nin, and or with "filters"'


def condition_text(where: Where | None, metadata_kinds: Callable[[], Mapping[str, type]]) -> str | None:
    """Return the text of the condition, or None without one. `metadata_kinds` gives the keys of metadata and their types.

    Raises:
        UsageError: if a filter is invalid, or a condition of a list is invalid by itself.
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
        return _Compiler(columns).compile(one)
    if one is None:
        return None
    condition = text("the condition is", one)
    # an invalid one could close the brackets that are put around it
    parse_condition(condition, columns)
    return condition


class _Compiler:
    """Writes one filter as a condition, and counts its comparisons."""

    def __init__(self, columns: Mapping[str, type]) -> None:
        self._columns = columns
        self._leaves = 0

    def compile(self, given: object, depth: int = 1) -> str:
        if not isinstance(given, Mapping) or not isinstance(given.get("type"), str):
            raise UsageError(f"invalid filter {short_repr(given)}", _HINT)
        if depth > DEEPEST:
            raise UsageError(f"the filter has more than {DEEPEST} filters within each other", "ask for less")
        kind = given["type"]
        if kind in ("and", "or"):
            parts = _fields(given, "filters")[0]
            if not isinstance(parts, list | tuple) or not parts:
                raise UsageError(f"invalid filters of {kind!r}: {short_repr(parts)}", "give a list of filters")
            return "(" + f" {kind} ".join(self.compile(part, depth + 1) for part in parts) + ")"
        if kind not in _SIGNS and kind not in _LISTS:
            raise UsageError(f"unknown type of a filter: {short_repr(kind)}", _HINT)
        self._leaves += 1
        if self._leaves > MOST_LEAVES:
            raise UsageError(f"the filter has more than {MOST_LEAVES} comparisons", "ask for less")
        key, value = _fields(given, "key", "value")
        return self._comparison(kind, key, value)

    def _comparison(self, kind: str, key: object, value: object) -> str:
        if not isinstance(key, str) or not key or key.startswith("_"):
            raise UsageError(f"invalid key of a filter: {short_repr(key)}", f"keys: {', '.join(self._columns)}")
        values = value if kind in _LISTS else [value]
        if not isinstance(values, list | tuple) or not 0 < len(values) <= MOST_VALUES:
            hint = f"{kind!r} takes a list of 1 to {MOST_VALUES:,} values"
            raise UsageError(f"invalid value for {short_repr(key)}: {short_repr(value)}", hint)
        written = ", ".join(self._written(key, one) for one in values)
        if key not in self._columns:
            return "false"
        if kind in _LISTS:
            return f"`{key}` {_LISTS[kind]} ({written})"
        if self._columns[key] is bool and kind not in ("eq", "ne"):
            raise UsageError(f"{key!r} is true or false, which has no order", "use eq or ne")
        return f"`{key}` {_SIGNS[kind]} {written}"

    def _written(self, key: str, value: Value) -> str:
        """A value to compare with the values of the key."""
        if wanted := value_fault(value, self._columns.get(key)):
            raise UsageError(f"invalid value for {key!r}: {short_repr(value)}", f"expected {wanted}")
        return sql_value(text(f"the value for {key!r} is", value) if isinstance(value, str) else value)


def _fields(given: Mapping[str, Any], *names: str) -> list[Any]:
    """The values of these fields. All of them, and no others, stand beside the type."""
    if given.keys() != {"type", *names}:
        shown = ", ".join(map(repr, names))
        raise UsageError(f"a filter of the type {given['type']!r} has {shown}: {short_repr(dict(given))}", _HINT)
    return [given[name] for name in names]
