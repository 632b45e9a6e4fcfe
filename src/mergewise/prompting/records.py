"""Parsing of flat records in a model's answer, also from damaged JSON.

A record is an object with known field names. Its values are texts and lists of whole numbers. In damaged JSON the names show
where values begin and end. So unescaped quotes, missing or surplus commas, text around the JSON, and a cut in the middle of a
record cost at most that record. (We tried `json-repair`: it ends a text at its first unescaped quote, takes quadratic time, and
fails at deep nesting.) Any answer is parsed in one pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import zip_longest
from typing import Any, Literal, TypeAlias

from mergewise.prompting.replies import json_value, without_fences
from mergewise.types import frozen

Kind: TypeAlias = Literal["text", "numbers"]
Fields: TypeAlias = Mapping[str, tuple[Kind, tuple[str, ...]]]
"""The fields of a record: the kind of value, and the other names that models use for the field."""

# Maximum characters that are read of an answer.
LONGEST = 1_000_000
_NUMBER = re.compile(r"(?<![\d.])-?\d{1,9}(?![\d.])")
_ESCAPED = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ENDING = re.compile(r"[\s,;}\])`]*\Z")


@frozen
class Records:
    """The values of an answer in order, including other values than objects.

    `cut` is true if the answer ends within a record, which is left out.
    """

    items: tuple[Any, ...]
    cut: bool = False


def records_in(answer: str, fields: Fields) -> Records:
    """Return the records of an answer, under the names of `fields`. Never raises."""
    answer = answer[:LONGEST]
    names = {alias: name for name, (_, others) in fields.items() for alias in (name, *others)}
    value = json_value(without_fences(answer), strict=False)
    # The list itself, the longest list in an object, or the object itself if it is a record.
    items: Sequence[Any] | None = value if isinstance(value, list) else None
    if isinstance(value, dict):
        inner = (one for one in value.values() if isinstance(one, list))
        items = [value] if len(value.keys() & names.keys()) > 1 else max(inner, key=len, default=[])
    if items is not None:
        return Records(tuple({names.get(k, k): v for k, v in i.items()} if isinstance(i, dict) else i for i in items))
    found, cut = _salvage(answer, fields, names)
    return Records(tuple(found), cut)


# -- damaged JSON


@cache
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    listed = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.compile(rf"(?P<opens>\{{\s{{0,40}})?(?<!\\)[\"'“”](?P<name>{listed})[\"'“”]\s{{0,40}}:\s{{0,40}}")


def _salvage(answer: str, fields: Fields, names: Mapping[str, str]) -> tuple[list[dict[str, object]], bool]:
    """Find records by the names of their fields. The last one counts only if it is complete."""
    records: list[dict[str, object]] = []
    current: dict[str, object] = {}
    closed = True
    found = list(_pattern(tuple(names)).finditer(answer))
    for match, after in zip_longest(found, found[1:]):
        # The field, whether an object opens before it, and the text up to the next field.
        name, opens = names[match["name"]], match["opens"] is not None
        raw = answer[match.end() : len(answer) if after is None else after.start()]
        if current and (opens or name in current):
            records.append(current)
            current = {}
        kind = fields[name][0]
        if kind == "numbers":
            listed = raw.startswith("[")
            inner, _, rest = raw[1:].partition("]") if listed else raw.partition("}")
            current[name] = [int(number) for number in _NUMBER.findall(inner)]
            closed = "}" in (rest if listed else raw)
        else:
            body, quote = _unquote(raw)
            end = _closing(body, quote) if quote else 0
            closed = "}" in body[end:]
            if quote:
                text = _ESCAPED.sub(lambda match: str(json.loads(f'"{match[0]}"')), body[:end])
            else:
                text = _ENDING.sub("", body[:200].partition("}")[0].partition("\n")[0])
            current[name] = text.strip()
    if current and closed:
        records.append(current)
    return records, bool(current) and not closed


def _unquote(raw: str) -> tuple[str, str]:
    """Return the value after its opening quote, and the quote. A list around the value is skipped."""
    raw = raw.removeprefix("[").lstrip() if raw.startswith("[") else raw
    return (raw[1:], {"“": "”"}.get(raw[0], raw[0])) if raw[:1] in ('"', "'", "“") else (raw, "")


def _closing(body: str, quote: str) -> int:
    """Return the end of the text: its last quote, or the quote before the first end of an object."""
    at = re.search(rf"(?<!\\){re.escape(quote)}\s{{0,40}}\]?\s{{0,40}}\}}", body)
    if at is not None:
        return at.start()
    last = body.rfind(quote)
    return last if last >= 0 else len(body)
