"""Conditions on documents as trees: what there may be in them, and how the database reads them.

Nothing else reaches the database: columns are `id`, `title` and metadata, functions those of a list. What they do takes a time
that grows with the documents alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["text", "whole", "fraction", "truth", "date", "list"]

_SQL_TYPES: Mapping[Kind, str] = {
    "text": "string",
    "whole": "bigint",
    "fraction": "double",
    "truth": "boolean",
    "date": "date",
}


@dataclass(frozen=True, slots=True)
class Function:
    """What a function takes and gives; `many` of the last kind where so, and how SQL calls it if not by its name.

    `fixed` arguments are written out in the condition: no document has a say in them.
    """

    takes: tuple[Kind, ...]
    gives: Kind
    many: bool = False
    sql: str = ""
    fixed: int | None = None


FUNCTIONS: Mapping[str, Function] = {
    "abs": Function(("fraction",), "fraction"),
    "array_contains": Function(("list", "text"), "truth", sql="array_has"),
    "array_has": Function(("list", "text"), "truth"),
    "char_length": Function(("text",), "whole", sql="character_length"),
    "character_length": Function(("text",), "whole"),
    "coalesce": Function(("text",), "text", many=True),
    "concat": Function(("text",), "text", many=True),
    "contains": Function(("text", "text"), "truth"),
    "ends_with": Function(("text", "text"), "truth"),
    "left": Function(("text", "whole"), "text"),
    "length": Function(("text",), "whole", sql="character_length"),
    "lower": Function(("text",), "text"),
    "regexp_like": Function(("text", "text"), "truth", fixed=1),
    "regexp_match": Function(("text", "text"), "truth", sql="regexp_like", fixed=1),
    "right": Function(("text", "whole"), "text"),
    "round": Function(("fraction",), "fraction"),
    "split_part": Function(("text", "text", "whole"), "text", fixed=2),
    "starts_with": Function(("text", "text"), "truth"),
    "string_to_array": Function(("text", "text"), "list", fixed=1),
    "strpos": Function(("text", "text"), "whole"),
    "trim": Function(("text",), "text", sql="btrim"),
    "upper": Function(("text",), "text"),
}


@dataclass(frozen=True, slots=True)
class ColumnReference:
    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Constant:
    value: str | int | float | bool | date
    kind: Kind


@dataclass(frozen=True, slots=True)
class Operation:
    """A function of `FUNCTIONS` or an operator, in lower case: "and", "<=", "is null", "in", "between", "like", "cast" ..."""

    name: str
    operands: tuple[Condition, ...]
    kind: Kind = "truth"
    depth: int = 1


Condition: TypeAlias = ColumnReference | Constant | Operation


def sql_of(condition: Condition) -> str:
    """The condition as the database reads it, every name quoted and every operation in brackets."""
    if isinstance(condition, ColumnReference):
        return f"`{condition.name}`"
    if isinstance(condition, Constant):
        return _sql_constant(condition.value)
    name, parts = condition.name, [sql_of(operand) for operand in condition.operands]
    if name in ("and", "or"):
        return _balanced(f" {name} ", parts)
    if name in ("not", "negative"):
        return f"({'not' if name == 'not' else '-'} {parts[0]})"
    if name.startswith("is "):
        return f"({parts[0]} {name})"
    if name == "in":
        return f"({parts[0]} in ({', '.join(parts[1:])}))"
    if name == "between":
        return f"({parts[0]} between {parts[1]} and {parts[2]})"
    if name == "cast":
        return f"cast({parts[0]} as {_SQL_TYPES[condition.kind]})"
    if name in FUNCTIONS:
        return f"{FUNCTIONS[name].sql or name}({', '.join(parts)})"
    return f"({parts[0]} {name} {parts[1]})"


def _sql_constant(value: str | int | float | bool | date) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, date):
        return f"date '{value.isoformat()}'"
    return repr(value).lower()


def _balanced(between: str, parts: Sequence[str]) -> str:
    """A chain as a balanced tree: the database walks it by recursion."""
    if len(parts) < 3:
        return f"({between.join(parts)})"
    half = len(parts) // 2
    return f"({_balanced(between, parts[:half])}{between}{_balanced(between, parts[half:])})"
