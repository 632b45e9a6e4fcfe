"""Reference implementation of conditions, row by row in Python: the database is compared with it, the store in memory uses it.

Truth values are SQL's: None is unknown. Fractions are ordered by the total order of IEEE 754.
"""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Mapping
from typing import Any

from mergewise.store.conditions import Comparison, Condition, Junction


def meets(condition: Condition, row: Mapping[str, Any]) -> bool:
    return truth_of(condition, row) is True


def truth_of(condition: Condition, row: Mapping[str, Any]) -> bool | None:
    if isinstance(condition, bool):
        return condition
    if isinstance(condition, Comparison):
        return compare(condition, row.get(condition.key))
    assert isinstance(condition, Junction)
    truths = [truth_of(part, row) for part in condition.parts]
    if condition.name == "not":
        return None if truths[0] is None else not truths[0]
    decides = condition.name == "or"
    return decides if decides in truths else None if None in truths else not decides


def compare(test: Comparison, held: Any) -> bool | None:
    if test.sign == "is null":
        return held is None
    if held is None:
        return None
    if test.sign == "like":
        return like(held, str(test.values[0]))
    values = [held, *test.values]
    if any(isinstance(value, float) for value in values):
        values = [ordered(float(value)) for value in values]
    if test.sign == "in":
        return values[0] in values[1:]
    return bool(SIGNS[test.sign](*values))


def ordered(value: float) -> int:
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits ^ (0x7FFFFFFFFFFFFFFF if bits < 0 else 0))


def like(text: str, pattern: str) -> bool:
    parts, at = "", 0
    while at < len(pattern):
        sign, after = pattern[at], pattern[at + 1 : at + 2]
        if sign == "\\" and after in ("%", "_", "\\") and after:
            parts, at = parts + re.escape(after), at + 1
        else:
            parts += {"%": ".*", "_": "."}.get(sign, re.escape(sign))
        at += 1
    return re.fullmatch(parts, text, re.DOTALL) is not None


SIGNS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
