"""JSON schemas for requests to models, and parsing of JSON in their answers, which often hold other text too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_FENCE = "```"
_DECODER = json.JSONDecoder()


def object_schema(properties: Mapping[str, object]) -> dict[str, object]:
    """Return the strict JSON schema of an object with exactly these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def json_in(answer: str) -> Any:
    """Return the answer as JSON, else the JSON between its first fences, else the first JSON object in its text.

    Returns None if there is no such value. Never raises. In prose only objects count, since brackets there are marks or asides.
    The caller checks the form of the value.
    """
    value = json_value(answer)
    before, fence, rest = answer.partition(_FENCE)
    # An object that begins before the fence may hold the fence in a string.
    if value is None and fence and "{" not in before:
        value = json_value(_content(rest.partition(_FENCE)[0]))
    start = answer.find("{") if value is None else -1
    while start >= 0:
        try:
            return _DECODER.raw_decode(answer, start)[0]
        except ValueError:
            start = answer.find("{", start + 1)
        except RecursionError:
            # Nesting of thousands of levels is not a valid reply.
            return None
    return value


def without_fences(answer: str) -> str:
    """Strip white space from the ends of the answer, and fences that enclose all of it."""
    parts = answer.split(_FENCE)
    if len(parts) == 3 and not parts[0].strip() and not parts[2].strip():
        return _content(parts[1])
    return answer.strip()


def _content(fenced: str) -> str:
    """Return the text between two fences, without the name of its language."""
    return fenced.removeprefix("json").strip()


def json_value(text: str, *, strict: bool = True) -> Any:
    """Parse a text as JSON. Returns None if it is invalid. Unless `strict`, strings may hold line breaks."""
    try:
        return json.loads(text, strict=strict)
    except (ValueError, RecursionError):
        return None
