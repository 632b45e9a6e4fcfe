"""JSON Lines and JSON: each record is a unit that is never split.

A record's text is the first of its fields `text`, `content`, `body` and the like. Its other fields precede it as `key: value`. A
record without such a field consists of its fields. Its title, if any, is its heading. A text too long for one unit is split like
other texts. Nested values get dotted keys, `author.name: Ann`. Vectors and other long lists of numbers are left out. A JSON file
without a list of records becomes one record per key.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from mergewise.errors import ReadError
from mergewise.readers.builder import Builder, Parsed, one_line, tidy
from mergewise.readers.decoding import decode
from mergewise.readers.table import MAX_ROWS, MAX_UNIT, joined_fields, refuse_long
from mergewise.types import JsonDict

_TEXTS = "text content body page_content passage document markdown contents message".split()
_TITLES = ("title", "headline", "subject", "name", "question")
_LISTS = "data records items results documents rows entries articles features".split()
# Numbers of a list. A longer list is a vector.
_MAX_NUMBERS = 16
_MAX_FIELDS = 500
# Characters of a key, which is repeated with each value below it.
_MAX_KEY = 200
_MAX_DEPTH = 12
_MAX_NOTES = 10


def read_json_lines(data: bytes) -> Parsed:
    bad: list[ReadError] = []

    def records() -> Iterator[Any]:
        for number, line in enumerate(decode(data).split("\n")):
            try:
                if line.strip():
                    yield _json(line, number)
            except ReadError as error:
                bad.append(error)

    parsed = _parsed_records(records())
    if bad and not parsed.text:
        raise bad[0]
    return replace(parsed, notes=tuple(f"left out: {error.message}" for error in bad[:_MAX_NOTES]))


def read_json(data: bytes) -> Parsed:
    return _parsed_records(_records(_json(decode(data))))


def _json(text: str, lines_before: int = 0) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ReadError(f"invalid JSON in line {lines_before + error.lineno}: {error.msg}") from error


def _parsed_records(records: Iterable[Any]) -> Parsed:
    builder = Builder()
    for number, record in enumerate(records, start=1):
        if number > MAX_ROWS:
            raise ReadError(f"more than {MAX_ROWS} records: split it")
        refuse_long(builder.length)
        if not isinstance(record, dict):
            record = {"": record}
        title, text = _take(record, _TITLES), _take(record, _TEXTS)
        heading = one_line(str(record[title])) if title and text else ""
        apart = {text, title} if heading else {text}
        pairs = (pair for key, value in record.items() if key not in apart for pair in _flat(key[:_MAX_KEY], value, 0))
        builder.heading(1, heading)
        lines = list(joined_fields(f"{key}: {value}" if key else value for key, value in islice(pairs, _MAX_FIELDS)))
        body = tidy(str(record[text])) if text else ""
        if sum(map(len, (*lines, body))) <= MAX_UNIT:
            builder.unit("\n".join([*lines, body]), "prose" if body else "entry")
            continue
        for line in lines:
            builder.paragraph(line)
        builder.verbatim(str(record[text]) if text else "")
    return builder.build(headed=False)


def _records(value: Any) -> Iterator[Any]:
    """Yield the records of a list, or an object's other fields and then the records of its only list of records."""
    if isinstance(value, list):
        yield from value
        return
    if not isinstance(value, dict):
        yield value
        return
    lists = [key for key, held in value.items() if isinstance(held, list) and held and isinstance(held[0], dict)]
    key = lists[0] if len(lists) == 1 else next((key for key in _LISTS if key in lists), None)
    if key is None:
        yield from ({name: held} for name, held in value.items())
        return
    yield {name: held for name, held in value.items() if name != key}
    yield from value[key]


def _take(record: JsonDict, names: Sequence[str]) -> str | None:
    """Return the key of the first of these fields that holds text, ignoring case."""
    keys = {key.lower(): key for key, value in record.items() if isinstance(value, str) and value.strip()}
    return next((keys[name] for name in names if name in keys), None)


def _flat(key: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the nested values of `value` by dotted keys. A list of plain values is one value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if depth < _MAX_DEPTH:
                yield from _flat(f"{key}.{name[:_MAX_KEY]}" if key else name[:_MAX_KEY], inner, depth + 1)
    elif isinstance(value, list):
        plain = [one_line(_value_text(item)) for item in value if not isinstance(item, dict | list)]
        numbers = sum(isinstance(item, int | float) for item in value)
        if plain and numbers <= _MAX_NUMBERS:
            yield key, ", ".join(filter(None, plain))
        for item in value:
            if isinstance(item, dict | list) and depth < _MAX_DEPTH:
                yield from _flat(key, item, depth + 1)
    elif text := one_line(_value_text(value)):
        yield key, text


def _value_text(value: Any) -> str:
    if value is None:
        return ""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
