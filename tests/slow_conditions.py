"""A condition's tree, worked out row by row in Python: what the database is held to, and how the store in memory filters.

SQL's three truths: None is unknown. Fractions are ordered as IEEE 754's total order.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

from mergewise.store.conditions import ColumnReference, Condition, Constant


class Failing(Exception):
    """There is no such value: a division by zero, a text that is no number, the place of NaN in an order."""


def meets(condition: Condition, row: Mapping[str, Any]) -> bool:
    return value_of(condition, row) is True


def value_of(condition: Condition, row: Mapping[str, Any]) -> Any:
    if isinstance(condition, ColumnReference):
        return row.get(condition.name)
    if isinstance(condition, Constant):
        return condition.value
    name, values = condition.name, [value_of(operand, row) for operand in condition.operands]
    if name == "and":
        return False if False in values else None if None in values else True
    if name == "or":
        return True if True in values else None if None in values else False
    if name == "in":
        same = [value_of_operator("=", values[0], value) for value in values[1:]]
        return True if True in same else None if None in same else False
    if name == "between":
        both = [value_of_operator(">=", *values[:2]), value_of_operator("<=", values[0], values[2])]
        return False if False in both else None if None in both else True
    if name.startswith("is "):
        wanted = {"null": None, "true": True, "false": False}[name.split()[-1]]
        return (values[0] is wanted) != (" not " in name)
    if name == "coalesce":
        return next((value for value in values if value is not None), None)
    if name == "concat":
        return "".join(value for value in values if value is not None)
    if None in values:
        return None
    if name == "cast":
        return cast(values[0], condition.kind)
    if name == "negative":
        return within_bits(-values[0])
    if len(values) == 2 and name in OPERATORS:
        return value_of_operator(name, *values)
    return FUNCTIONS[name](*values)


def value_of_operator(name: str, left: Any, right: Any) -> Any:
    return None if left is None or right is None else OPERATORS[name](left, right)


def ordered(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        # its sign, and so its place, is up to the processor
        raise Failing
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return bits ^ (0x7FFFFFFFFFFFFFFF if bits < 0 else 0)


def within_bits(value: Any) -> Any:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise Failing
    return value


def quotient(left: Any, right: Any) -> Any:
    if isinstance(left, int):
        if right == 0 or (left == -(2**63) and right == -1):
            raise Failing
        return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    if right == 0:
        return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)
    return left / right


def remainder(left: Any, right: Any) -> Any:
    if isinstance(left, int):
        if right == 0 or (left == -(2**63) and right == -1):
            raise Failing
        return (1 if left > 0 else -1) * (abs(left) % abs(right))
    return math.nan if right == 0 or math.isinf(left) else math.fmod(left, right)


def like(text: str, pattern: str, flags: int = 0) -> bool:
    parts, at = "", 0
    while at < len(pattern):
        sign, after = pattern[at], pattern[at + 1 : at + 2]
        if sign == "\\" and after in ("%", "_", "\\") and after:
            parts, at = parts + re.escape(after), at + 1
        else:
            parts += {"%": ".*", "_": "."}.get(sign, re.escape(sign))
        at += 1
    return re.fullmatch(parts, text, re.DOTALL | flags) is not None


def cast(value: Any, kind: str) -> Any:
    try:
        if kind == "text":
            return str(value).lower() if isinstance(value, bool) else str(value)
        if kind == "date":
            return date.fromisoformat(value)
        if kind == "whole":
            whole = int(value)
            if not -(2**63) <= whole < 2**63:
                raise Failing
            return whole
        return float(value)
    except (ValueError, OverflowError):
        raise Failing from None


def split_part(text: str, by: str, number: int) -> str:
    parts = text.split(by) if by else [text]
    return parts[number - 1] if number <= len(parts) else ""


def rounded(value: float) -> float:
    if math.isnan(value) or math.isinf(value) or abs(value) >= 2**52:
        return value
    return math.copysign(math.floor(abs(value)) + (abs(value) % 1 >= 0.5), value)


OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: ordered(a) == ordered(b),
    "!=": lambda a, b: ordered(a) != ordered(b),
    "<": lambda a, b: ordered(a) < ordered(b),
    "<=": lambda a, b: ordered(a) <= ordered(b),
    ">": lambda a, b: ordered(a) > ordered(b),
    ">=": lambda a, b: ordered(a) >= ordered(b),
    "+": lambda a, b: within_bits(a + b),
    "-": lambda a, b: within_bits(a - b),
    "*": lambda a, b: within_bits(a * b),
    "/": quotient,
    "%": remainder,
    "||": lambda a, b: a + b,
    "like": like,
    "ilike": lambda text, pattern: like(text, pattern, re.IGNORECASE),
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "not": lambda truth: not truth,
    "abs": abs,
    "array_has": lambda values, value: value in values,
    "array_contains": lambda values, value: value in values,
    "char_length": len,
    "character_length": len,
    "length": len,
    "contains": lambda text, part: part in text,
    "ends_with": str.endswith,
    "starts_with": str.startswith,
    "left": lambda text, count: text[:count],
    "right": lambda text, count: text[-count:] if count else "",
    "lower": str.lower,
    "upper": str.upper,
    "regexp_like": lambda text, pattern: re.search(pattern, text) is not None,
    "regexp_match": lambda text, pattern: re.search(pattern, text) is not None,
    "round": rounded,
    "split_part": split_part,
    "string_to_array": lambda text, by: [] if not text else text.split(by) if by else [text],
    "strpos": lambda text, part: text.find(part) + 1,
    "trim": lambda text: text.strip(" "),
}
