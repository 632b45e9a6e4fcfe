"""What a server's log says, and what it does not."""

from __future__ import annotations

import json
import logging
import sys

from mergewise.redaction import remember_key
from mergewise.server.logs import JSONLines


def line(message: str, *values: object, **more: object) -> dict[str, object]:
    name = "mergewise.server"
    record = logging.getLogger(name).makeRecord(name, logging.WARNING, "", 1, message, values, None)
    record.__dict__.update(more)
    written = JSONLines().format(record)
    assert "\n" not in written
    told: dict[str, object] = json.loads(written)
    return told


def test_a_line_is_json_with_its_fields() -> None:
    told = line("two\nlines of %s", "it", fields={"request": "r1", "status": 200})
    assert (told["level"], told["logger"]) == ("warning", "mergewise.server")
    assert (told["request"], told["status"]) == ("r1", 200)
    assert str(told["message"]).startswith("two") and str(told["time"]).endswith("+00:00")


def test_no_key_and_no_text_of_an_exception() -> None:
    remember_key("sk-of-the-log")
    try:
        raise ValueError("the question was: who is Ann?")
    except ValueError:
        told = line("asked with sk-of-the-log", exc_info=sys.exc_info())
    assert told["error"] == "ValueError" and "test_no_key" in str(told["at"])
    assert "Ann" not in json.dumps(told) and told["message"] == "asked with ***"
