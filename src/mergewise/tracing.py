"""Spans of OpenTelemetry, and the milliseconds of a question's stages.

The standard variables switch spans on: OTEL_EXPORTER_OTLP_ENDPOINT (or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) names a collector that
takes OTLP over HTTP, and OTEL_TRACES_EXPORTER=console prints them. A program with a tracer provider of its own gets the spans
there. Otherwise nothing is traced, and nothing is imported.

Spans hold texts of questions, prompts and answers only if OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT is true.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from time import perf_counter
from typing import Any, TypeAlias

from mergewise.errors import install_command

Attributes: TypeAlias = Mapping[str, str | int | float | bool]

_STAGES: ContextVar[dict[str, float] | None] = ContextVar("mergewise-stages", default=None)


@contextmanager
def stages() -> Iterator[dict[str, float]]:
    """Collect the milliseconds of the spans within, by name."""
    collected: dict[str, float] = {}
    before = _STAGES.set(collected)
    try:
        yield collected
    finally:
        _STAGES.reset(before)


@contextmanager
def span(
    name: str, attributes: Attributes | None = None, *, is_client: bool = False, is_current: bool = True
) -> Iterator[Callable[[Attributes], object]]:
    """Trace the work within. Yields a function that adds attributes, which does nothing if nothing is traced.

    `is_current=False` is for generators: spans of the caller between two steps are then no children of this one.
    """
    began, collected, tracer = perf_counter(), _STAGES.get(), _tracer()
    try:
        if tracer is None:
            yield _ignore
            return
        from opentelemetry.trace import SpanKind, StatusCode, use_span

        kind = SpanKind.CLIENT if is_client else SpanKind.INTERNAL
        own = tracer.start_span(name, kind=kind, attributes=dict(attributes or {}))
        try:
            if not is_current:
                yield own.set_attributes
                return
            with use_span(own, record_exception=False, set_status_on_exception=False):
                yield own.set_attributes
        except Exception as error:
            # a message may quote texts
            own.set_status(StatusCode.ERROR)
            own.set_attribute("error.type", type(error).__name__)
            raise
        finally:
            own.end()
    finally:
        if collected is not None:
            collected[name] = collected.get(name, 0.0) + 1000 * (perf_counter() - began)


def traced_texts(**texts: str) -> Attributes:
    """Return attributes with texts if the user asked for them, otherwise none. `gen_ai_x` is the name `gen_ai.x`."""
    wanted = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").lower() == "true"
    return {name.replace("gen_ai_", "gen_ai."): text for name, text in texts.items()} if wanted else {}


def carrier() -> dict[str, str]:
    """Return the headers that carry the current span to another process, or none if nothing is traced."""
    headers: dict[str, str] = {}
    if _tracer() is not None:
        from opentelemetry.propagate import inject

        inject(headers)
    return headers


@contextmanager
def remote_parent(headers: Mapping[str, str]) -> Iterator[None]:
    """Make the span that these headers carry the parent of the spans within."""
    if not headers or _tracer() is None:
        yield
        return
    from opentelemetry import context
    from opentelemetry.propagate import extract

    token = context.attach(extract(headers))
    try:
        yield
    finally:
        context.detach(token)


def send_spans() -> None:
    """Send the spans that wait, before a process ends without the handlers of Python's exit."""
    api = sys.modules.get("opentelemetry.trace")
    if (flush := getattr(api and api.get_tracer_provider(), "force_flush", None)) is not None:
        flush()


def _ignore(attributes: Attributes) -> None:
    pass


def _tracer() -> Any:
    """Return the tracer of this process, or None if nothing is traced."""
    _configure()
    api = sys.modules.get("opentelemetry.trace")
    return None if api is None else _tracer_of(api.get_tracer_provider())


@lru_cache(2)
def _tracer_of(provider: Any) -> Any:
    # a provider without it is a proxy for one that the program has not set yet
    return provider.get_tracer("mergewise") if hasattr(provider, "force_flush") else None


@cache
def _configure() -> None:
    """Set up the exporter that the standard variables name, once a process."""
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "")
    endpoint = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == "none"
    if is_off or not (exporter or endpoint):
        return
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
    except ImportError as error:
        warnings.warn(f"no traces: {error.name} is missing ({install_command('otel')})", RuntimeWarning, 2)
        return
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "mergewise"}
    provider = TracerProvider(resource=Resource.create(named))
    sender: SpanExporter = ConsoleSpanExporter(out=sys.stderr) if exporter == "console" else OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(sender))
    trace.set_tracer_provider(provider)
