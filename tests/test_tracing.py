"""Spans of questions, model calls and indexing: their names and parents, no texts, carried over HTTP, sent to a collector."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import mergewise as mw
from mergewise import tracing
from mergewise.errors import ModelError
from mergewise.index.executors import WorkerPool
from mergewise.models.openai_chat import OpenAIChat
from mergewise.models.scripted import Turn
from mergewise.types import Message
from tests.chat_server import ChatServer
from tests.index.errands import square

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="the extra `otel` is not installed")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402

QUESTION = "Where was the Aurora built?"
ASK = f"""
import sys
import mergewise as mw

with mw.open(sys.argv[1], embedder="none") as index:
    index.add([mw.Document("ship.md", "The Aurora was built in Lyme in 1871.")])
    index.ask({QUESTION!r})
print(any(name.startswith("opentelemetry") for name in sys.modules))
"""


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Spans of this process, as if the program had a provider of its own."""
    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_tracer", lambda: provider.get_tracer("mergewise"))
    return exporter


@pytest.fixture
def index(tmp_path: Path) -> Iterator[mw.Index]:
    with mw.open(tmp_path / "index", embedder="none") as index:
        index.add([mw.Document("ship.md", "The Aurora was built in Lyme in 1871. It sailed to Iceland.")])
        yield index


def by_name(exporter: InMemorySpanExporter) -> dict[str, Any]:
    return {one.name: one for one in exporter.get_finished_spans()}


def test_a_question_has_a_span_for_each_stage_and_no_texts(exporter: InMemorySpanExporter, index: mw.Index) -> None:
    exporter.clear()
    index.context(QUESTION, budget=60)
    spans = by_name(exporter)
    whole = spans["mergewise.context"]
    for name in ("mergewise.search", "mergewise.hop", "mergewise.select", "mergewise.pack"):
        assert spans[name].parent.span_id == whole.context.span_id, name
    assert whole.attributes["mergewise.strategy"] == "weave" and whole.attributes["mergewise.budget"] == 60
    assert 0 < whole.attributes["mergewise.tokens"] <= 60 and whole.attributes["mergewise.passages"] == 1
    assert "Aurora" not in str([one.to_json() for one in spans.values()])


def test_adding_documents_is_a_span(exporter: InMemorySpanExporter, index: mw.Index) -> None:
    index.add([mw.Document("owl.md", "The owl hunts at night.")])
    assert "mergewise.index" in by_name(exporter)


def test_work_of_other_processes_belongs_to_its_caller(exporter: InMemorySpanExporter) -> None:
    pool = WorkerPool(2)
    try:
        with tracing.span("caller"):
            squares = list(pool.map(square, range(3)))
    finally:
        pool.close()
    *work, caller = exporter.get_finished_spans()
    assert [one.name for one in work] == 3 * ["mergewise.worker"]
    assert {one.parent.span_id for one in work} == {caller.context.span_id}  # type: ignore[union-attr]
    assert {one.attributes["mergewise.worker"] for one in work} == {f"worker {pid}" for _, pid in squares}  # type: ignore[index]


def chat_at(server: ChatServer) -> OpenAIChat:
    return OpenAIChat("any", base_url=server.base_url, api_key="any", retries=0)


@pytest.mark.anyio
async def test_calls_of_models_follow_the_conventions(
    exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChatServer(["In Lyme.", "In Hull.", "In Skye.", Turn(status=400)]) as server:
        chat, asked = chat_at(server), [Message("user", "a secret question")]
        with tracing.span("caller"):
            await chat.complete(asked, max_tokens=7)
        spans = by_name(exporter)
        call = spans["chat any"]
        assert call.kind.name == "CLIENT" and call.parent.span_id == spans["caller"].context.span_id
        told = dict(call.attributes)
        assert told.pop("gen_ai.usage.input_tokens") > 0 and told.pop("gen_ai.usage.output_tokens") > 0
        assert told == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "any",
            "gen_ai.request.max_tokens": 7,
        }
        exporter.clear()
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
        pieces = [piece async for piece in chat.stream(asked)]
        call = by_name(exporter)["chat any"]
        assert call.attributes["gen_ai.input"] == "user: a secret question" and len(pieces) > 1
        assert call.attributes["gen_ai.output"] == "In Hull."
        exporter.clear()
        stopped = chat.stream(asked)
        await anext(stopped)
        await stopped.aclose()  # type: ignore[attr-defined]
        assert by_name(exporter)["chat any"].status.status_code.name == "UNSET"
        exporter.clear()
        with pytest.raises(ModelError):
            await chat.complete(asked)
        failed = by_name(exporter)["chat any"]
        assert failed.status.status_code.name == "ERROR" and failed.attributes["error.type"] == "InputRefused"
        await chat.aclose()


@contextmanager
def recording(answer: bytes = b"") -> Iterator[tuple[str, list[tuple[Any, bytes]]]]:
    """Run a server on loopback. Yield its address, and the headers and bodies that it gets."""
    received: list[tuple[Any, bytes]] = []

    class Recorder(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.headers, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        server.server_close()


def spans_in(received: list[tuple[Any, bytes]]) -> list[Any]:
    """Return the spans that a collector got."""
    sent = [one for _, body in received for one in ExportTraceServiceRequest.FromString(body).resource_spans]
    return [span for one in sent for scope in one.scope_spans for span in scope.spans]


@pytest.mark.anyio
async def test_an_endpoint_can_continue_the_trace(exporter: InMemorySpanExporter) -> None:
    answer = b'{"choices": [{"message": {"content": "In Lyme."}, "finish_reason": "stop"}]}'
    with recording(answer) as (address, received):
        chat = OpenAIChat("any", base_url=f"{address}/v1", api_key="any")
        await chat.complete([Message("user", "where?")])
        await chat.aclose()
    call = by_name(exporter)["chat any"].context
    assert received[0][0]["traceparent"].startswith(f"00-{call.trace_id:032x}-{call.span_id:016x}-")


def ask_in_a_process(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    command = [sys.executable, "-c", ASK, str(folder)]
    return subprocess.run(command, env={**environment, **variables}, capture_output=True, text=True, check=True)


@pytest.mark.parametrize("texts", ["", "true"])
def test_the_standard_variables_send_spans_to_a_collector(tmp_path: Path, texts: str) -> None:
    with recording() as (address, received):
        done = ask_in_a_process(
            tmp_path,
            OTEL_EXPORTER_OTLP_ENDPOINT=address,
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment=test",
            OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=texts,
        )
    assert done.stdout == "True\n" and not done.stderr
    first = ExportTraceServiceRequest.FromString(received[0][1]).resource_spans[0]
    resource = {one.key: one.value.string_value for one in first.resource.attributes}
    assert resource["service.name"] == "mergewise" and resource["deployment.environment"] == "test"
    spans = spans_in(received)
    assert {"mergewise.index", "mergewise.context", "mergewise.search", "mergewise.answer"} <= {
        one.name for one in spans
    }
    assert (QUESTION in str(spans)) == bool(texts)


def test_a_command_sends_its_spans_before_it_ends(tmp_path: Path) -> None:
    (tmp_path / "ship.md").write_text("The Aurora was built in Lyme in 1871.")
    place = ["--index", str(tmp_path / "index")]
    with recording() as (address, received):
        environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": address}
        for words in (["index", str(tmp_path / "ship.md"), "--embedder", "none"], ["ask", QUESTION]):
            command = [sys.executable, "-m", "mergewise", *words, *place]
            subprocess.run(command, env=environment, capture_output=True, check=True)
    assert {"mergewise.index", "mergewise.ask", "mergewise.context"} <= {one.name for one in spans_in(received)}


def test_without_variables_nothing_is_traced_or_imported(tmp_path: Path) -> None:
    assert ask_in_a_process(tmp_path / "one").stdout == "False\n"
    with recording() as (address, received):
        off = ask_in_a_process(tmp_path / "two", OTEL_EXPORTER_OTLP_ENDPOINT=address, OTEL_SDK_DISABLED="true")
    assert off.stdout == "False\n" and not received


def test_a_missing_extra_is_named_once_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "without/opentelemetry").mkdir(parents=True)
    (tmp_path / "without/opentelemetry/__init__.py").touch()
    done = ask_in_a_process(
        tmp_path / "index",
        OTEL_TRACES_EXPORTER="otlp",
        PYTHONPATH=f"{tmp_path / 'without'}:{os.environ.get('PYTHONPATH', '')}",
    )
    assert done.stderr.count("[otel]") == 1


def test_an_unreachable_collector_stops_nothing(tmp_path: Path) -> None:
    done = ask_in_a_process(
        tmp_path,
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
        OTEL_BSP_EXPORT_TIMEOUT="1",
    )
    assert done.stdout == "True\n"


def test_stages_add_up_by_name() -> None:
    with tracing.stages() as spent:
        for _ in range(3):
            with tracing.span("one"):
                pass
        with tracing.span("two"):
            pass
    assert list(spent) == ["one", "two"] and all(took >= 0 for took in spent.values())
    with tracing.span("three"):
        pass
    assert "three" not in spent
