"""The JSON that a model is asked for, and that in its answer: even when asked for JSON alone it puts text around it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_FENCE = "```"
_DECODER = json.JSONDecoder()


def object_schema(properties: Mapping[str, object]) -> dict[str, object]:
    """The strict JSON schema of an object that has all of these properties and no others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def json_in(answer: str) -> Any:
    """The answer itself as JSON, else what stands between its first fences, else the first JSON object in its text.

    None where there is no such value; nothing is ever raised. In prose only objects are looked for, since brackets there are
    marks or asides. The caller checks whether the value has the shape that was asked for.
    """
    value = json_value(answer)
    before, fence, rest = answer.partition(_FENCE)
    # an object that begins before the fence may hold it in a string
    if value is None and fence and "{" not in before:
        value = json_value(_content(rest.partition(_FENCE)[0]))
    return _object_within(answer) if value is None else value


def without_fences(answer: str) -> str:
    """The answer without white space at its ends, and without the fences where they stand around all of it."""
    parts = answer.split(_FENCE)
    if len(parts) == 3 and not parts[0].strip() and not parts[2].strip():
        return _content(parts[1])
    return answer.strip()


def _content(fenced: str) -> str:
    """The text between two fences, without the name of its language."""
    return fenced.removeprefix("json").strip()


def json_value(text: str, *, strict: bool = True) -> Any:
    """The text as JSON, None where it is none; unless `strict`, its strings may hold line breaks."""
    try:
        return json.loads(text, strict=strict)
    except (ValueError, RecursionError):
        return None


def _object_within(text: str) -> Any:
    start = text.find("{")
    while start >= 0:
        try:
            return _DECODER.raw_decode(text, start)[0]
        except ValueError:
            start = text.find("{", start + 1)
        except RecursionError:
            # thousands of levels deep: no reply to any question
            return None
    return None
