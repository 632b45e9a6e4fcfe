"""The server's log: its fields, and the texts that it must not contain."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

from mergewise import tracing
from mergewise.redaction import remember_key
from mergewise.server.logs import JSONLines
from tests.server.conftest import LiveServer
from tests.support import until


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


def access_lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [one for one in caplog.records if one.name == "mergewise.server.access"]


@pytest.mark.parametrize("slow", [False, True])
def test_the_line_of_a_question_has_its_stages_and_no_texts(
    start_server: Callable[..., LiveServer], caplog: pytest.LogCaptureFixture, slow: bool
) -> None:
    caplog.set_level(logging.INFO, "mergewise.server.access")
    live = start_server(limits={"slow_seconds": 1e-3 if slow else 100.0})
    asked = {"question": "Where was the Aurora built?", "budget": 80, "stream": False}
    assert live.client().post("/api/v1/collections/ships/ask", json=asked).status_code == 200
    assert live.client().get("/api/v1/collections").status_code == 200
    # the line is written once the answer is sent
    assert until(lambda: len(access_lines(caplog)) == 2)
    [question, other] = access_lines(caplog)
    fields = question.__dict__["fields"]
    assert (question.levelname, question.message) == (("WARNING", "slow question") if slow else ("INFO", "request"))
    assert fields["strategy"] == "weave" and fields["budget"] == 80 and 0 < fields["tokens"] <= 80
    for stage in ("search", "hop", "select", "pack", "context", "assemble", "first_token", "total"):
        assert fields[f"{stage}_ms"] >= 0, stage
    assert "Aurora" not in json.dumps(fields)
    assert other.message == "request" and "strategy" not in other.__dict__["fields"]


def test_a_request_continues_the_trace_of_its_client(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="the extra `otel` is not installed")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_tracer", lambda: provider.get_tracer("mergewise"))
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    client = server.client(traceparent=f"00-{trace}-{parent}-01")
    asked = {"question": "When did the Borealis sink, and near which island?", "stream": False}
    assert client.post("/api/v1/collections/ships/ask", json=asked).status_code == 200
    assert until(lambda: any(one.name == "POST request" for one in exporter.get_finished_spans()))
    spans: dict[str, Any] = {one.name: one for one in exporter.get_finished_spans()}
    assert {f"{one.context.trace_id:032x}" for one in spans.values()} == {trace}
    request = spans["POST request"]
    assert f"{request.parent.span_id:016x}" == parent and request.attributes["http.response.status_code"] == 200
    assert request.attributes["http.route"].endswith("/ask")
    assert {"mergewise.context", "mergewise.answer", "chat scripted"} <= spans.keys()
