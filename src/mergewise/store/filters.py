"""Filters as JSON, in the form of OpenAI's vector stores, translated to conditions on documents.

    {"type": "eq", "key": "lang", "value": "en"}           also ne, gt, gte, lt, lte; in and nin with a list of values
    {"type": "and", "filters": [FILTER, ...]}              and, or

Keys are `id`, `title` and the metadata keys. A filter becomes the text of a condition, with every name and value quoted. The
text is parsed like any other condition, so a filter can do nothing that a condition cannot.

A document without the key fails every comparison, also "ne" and "nin". The database compares in the same way. A key that no
document has is treated alike, so a filter means the same in every index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mergewise.errors import UsageError
from mergewise.ranges import short_repr, text
from mergewise.store.conditions import parse_condition, sql_value, value_fault
from mergewise.types import Json, Where

DEEPEST = 5
"""Maximum depth of nested filters, comparisons included."""
MOST_LEAVES = 50
"""Maximum number of comparisons in a filter."""
MOST_VALUES = 1000
"""Maximum length of the list in one comparison."""

_SIGNS = {"eq": "=", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_LISTS = {"in": "in", "nin": "not in"}
_HINT = '{"type": "eq", "key": KEY, "value": VALUE}; types: eq ne gt gte lt lte in nin, and or with "filters"'


def condition_text(where: Where | None, metadata_kinds: Callable[[], Mapping[str, type]]) -> str | None:
    """Return the text of a condition, or None without one. `metadata_kinds` returns the metadata keys and their types.

    Raises:
        UsageError: if a filter, or a condition in a list, is invalid.
    """
    if where is None or isinstance(where, str):
        return where if where is None else text("condition", where)
    if not isinstance(where, Mapping | list | tuple):
        raise UsageError(f"invalid condition: {short_repr(where)}", "give a text, or a filter: " + _HINT)
    columns: dict[str, type] = {"id": str, "title": str, **metadata_kinds()}
    if isinstance(where, Mapping):
        return _one_text(where, columns)
    parts = [part for one in where if (part := _one_text(one, columns)) is not None]
    return " and ".join(f"({part})" for part in parts) or None


def check_filter(given: object, metadata_kinds: Mapping[str, type] | None = None) -> None:
    """Check a filter that no index has seen yet. With `metadata_kinds`, every key must be one of them, the id or the title.

    Raises:
        UsageError: if the filter is invalid.
    """
    compiler = _Compiler({"id": str, "title": str, **(metadata_kinds or {})})
    compiler.compile(given)
    if metadata_kinds is not None and compiler.unknown:
        raise UsageError(f"unknown filter key: {short_repr(compiler.unknown[0])}", compiler.hint)


def _one_text(one: object, columns: Mapping[str, type]) -> str | None:
    if isinstance(one, Mapping):
        return _Compiler(columns).compile(one)
    if one is None:
        return None
    condition = text("condition", one)
    # an invalid condition could close the brackets put around it
    parse_condition(condition, columns)
    return condition


class _Compiler:
    """The translation of one filter to a condition. It counts the comparisons."""

    def __init__(self, columns: Mapping[str, type]) -> None:
        self._columns = columns
        self._leaves = 0
        self.unknown: list[str] = []
        self.hint = f"keys: {', '.join(columns)}"

    def compile(self, given: object, depth: int = 1) -> str:
        if not isinstance(given, Mapping) or not isinstance(given.get("type"), str):
            raise UsageError(f"invalid filter: {short_repr(given)}", _HINT)
        if depth > DEEPEST:
            raise UsageError(f"filter too deep: more than {DEEPEST} levels", "nest fewer filters")
        kind = given["type"]
        if kind in ("and", "or"):
            parts = _fields(given, "filters")[0]
            if not isinstance(parts, list | tuple) or not parts:
                raise UsageError(f"invalid filters of {kind!r}: {short_repr(parts)}", "give a list of filters")
            return "(" + f" {kind} ".join(self.compile(part, depth + 1) for part in parts) + ")"
        if kind not in _SIGNS and kind not in _LISTS:
            raise UsageError(f"unknown filter type: {short_repr(kind)}", _HINT)
        self._leaves += 1
        if self._leaves > MOST_LEAVES:
            raise UsageError(f"filter too long: more than {MOST_LEAVES} comparisons", "use fewer comparisons")
        key, value = _fields(given, "key", "value")
        if not isinstance(key, str) or not key or key.startswith("_"):
            raise UsageError(f"invalid filter key: {short_repr(key)}", self.hint)
        values = value if kind in _LISTS else [value]
        if not isinstance(values, list | tuple) or not 0 < len(values) <= MOST_VALUES:
            hint = f"{kind!r} takes a list of 1 to {MOST_VALUES:,} values"
            raise UsageError(f"invalid value for {short_repr(key)}: {short_repr(value)}", hint)
        texts: list[str] = []
        for one in values:
            if wanted := value_fault(one, self._columns.get(key)):
                raise UsageError(f"invalid value for {key!r}: {short_repr(one)}", f"expected {wanted}")
            texts.append(sql_value(text(f"value for {key!r}", one) if isinstance(one, str) else one))
        written = ", ".join(texts)
        if key not in self._columns:
            self.unknown.append(key)
            return "false"
        if kind in _LISTS:
            return f"`{key}` {_LISTS[kind]} ({written})"
        if self._columns[key] is bool and kind not in ("eq", "ne"):
            raise UsageError(f"invalid comparison of {key!r}: true and false have no order", "use eq or ne")
        return f"`{key}` {_SIGNS[kind]} {written}"


def _fields(given: Json, *names: str) -> list[Any]:
    """Return the values of the fields. The filter must have exactly these and its type."""
    if given.keys() != {"type", *names}:
        expected = ", ".join(map(repr, names))
        raise UsageError(
            f"invalid filter: {short_repr(dict(given))} (expected {expected} with the type {given['type']!r})", _HINT
        )
    return [given[name] for name in names]
