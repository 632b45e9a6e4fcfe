"""The server's log: a line of JSON for each record, without questions, texts and keys.

The fields of a record (`extra={"fields": {...}}`) become keys of the line. An exception is logged with its type and stack, but
without its message, which may quote a question or a document.
"""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from traceback import extract_tb

from mergewise.extend import masked, on_one_line
from mergewise.types import JsonDict

log = logging.getLogger("mergewise.server")
_FIELDS: ContextVar[JsonDict | None] = ContextVar("mergewise-request", default=None)


def request_fields(new: JsonDict | None = None) -> JsonDict:
    """Return the further fields of the log line of the current request, or set them to `new`."""
    if new is not None:
        _FIELDS.set(new)
    fields = _FIELDS.get()
    return {} if fields is None else fields


class JSONLines(logging.Formatter):
    """A formatter that writes one line of JSON: time, level, logger, message, process, and the record's fields."""

    def format(self, record: logging.LogRecord) -> str:
        row = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": on_one_line(masked(record.getMessage())),
            "process": record.process,
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            frames = extract_tb(record.exc_info[2])[-12:]
            row["error"] = record.exc_info[0].__name__
            row["at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return json.dumps(row, ensure_ascii=False, default=str)


def log_as_json() -> None:
    """Log JSON lines to standard error in this process. On a terminal, log only warnings and errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    own = logging.getLogger("mergewise")
    own.handlers = []
    own.setLevel(logging.WARNING if sys.stderr.isatty() else logging.INFO)
