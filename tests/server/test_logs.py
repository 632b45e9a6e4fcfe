"""The server's log: its fields, and the texts that it must not contain."""

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
    fields: dict[str, object] = json.loads(written)
    return fields


def test_a_line_is_json_with_its_fields() -> None:
    fields = line("two\nlines of %s", "it", fields={"request": "r1", "status": 200})
    assert (fields["level"], fields["logger"]) == ("warning", "mergewise.server")
    assert (fields["request"], fields["status"]) == ("r1", 200)
    assert str(fields["message"]).startswith("two") and str(fields["time"]).endswith("+00:00")


def test_keys_and_exception_messages_are_not_logged() -> None:
    remember_key("sk-of-the-log")
    try:
        raise ValueError("the question was: who is Ann?")
    except ValueError:
        fields = line("asked with sk-of-the-log", exc_info=sys.exc_info())
    assert fields["error"] == "ValueError" and "test_keys" in str(fields["at"])
    assert "Ann" not in json.dumps(fields) and fields["message"] == "asked with ***"
