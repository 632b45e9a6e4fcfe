"""Odd requests on the wire: idle connections, two lengths of a body, and deeply nested JSON."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from mergewise.server import app
from tests.server.conftest import LiveServer
from tests.support import patience

NESTED = {
    "list": b"[" * 500_000,
    "object": b'{"a":' * 200_000,
    "closed": b"[" * 100_000 + b"]" * 100_000,
    "field": b'{"question":"x","where":' + b"[" * 990 + b"]" * 990 + b"}",
}


def read_answer(connection: socket.socket) -> bytes:
    """Read one answer with a Content-Length. Empty if the connection closes first."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        if not (piece := connection.recv(65536)):
            return b""
        answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split()[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head


def is_closed_after(connection: socket.socket, seconds: float) -> bool:
    connection.settimeout(seconds)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False


PING = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_an_idle_connection_outlives_the_time_for_a_head(
    start_server: Callable[..., LiveServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert app.uvicorn_options(start_server().config)["timeout_keep_alive"] == 75
    monkeypatch.setattr(app, "KEEP_ALIVE_SECONDS", patience(1.5))
    server = start_server(limits={"head_seconds": 0.3})
    with socket.create_connection(server.address, timeout=20) as connection:
        for _ in range(2):
            connection.sendall(PING)
            assert read_answer(connection).startswith(b"HTTP/1.1 200")
            assert not is_closed_after(connection, 0.8)
        connection.settimeout(20)
        assert is_closed_after(connection, patience(5)), "it is closed after the longer time"


@pytest.mark.parametrize("begun", [b"", PING, PING + b"GET /li"], ids=["first", "second", "pipelined"])
def test_a_head_that_has_begun_has_the_shorter_time(start_server: Callable[..., LiveServer], begun: bytes) -> None:
    server = start_server(limits={"head_seconds": 0.5})
    with socket.create_connection(server.address, timeout=20) as connection:
        connection.sendall(begun)
        if begun:
            assert read_answer(connection).startswith(b"HTTP/1.1 200")
        if begun == PING:
            connection.sendall(b"GET")
        began = time.monotonic()
        assert is_closed_after(connection, patience(10)) and time.monotonic() - began < patience(5)


@pytest.mark.parametrize(
    "path", ["/api/v1/collections/ships/context", "/api/v1/session", "/v1/chat/completions", "/mcp"]
)
@pytest.mark.parametrize("first", ["Content-Length: 5", "Transfer-Encoding: chunked"])
def test_a_body_with_two_lengths_is_refused(server: LiveServer, path: str, first: str) -> None:
    """A proxy may read another body than this server, and so smuggle a second request."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.tokens['read']}\r\n"
    lengths = sorted(["Content-Length: 5", "Transfer-Encoding: chunked"], key=lambda one: one != first)
    sent = "\r\n".join(lengths) + "\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    with socket.create_connection(server.address, timeout=20) as connection:
        connection.sendall((head + sent).encode() + PING)
        answer = read_answer(connection)
        assert answer.startswith(b"HTTP/1.1 400") and b"connection: close" in answer.lower()
        assert is_closed_after(connection, 20), "the bytes after it are no second request"


def operations(server: LiveServer) -> list[tuple[str, str]]:
    described: dict[str, dict[str, Any]] = server.client("admin").get("/api/v1/openapi.json").json()["paths"]
    names = {"{c}": "ships", "{key}": "bmV3", "{id}": "x"}
    found = []
    for path, methods in described.items():
        for name, value in names.items():
            path = path.replace(name, value)
        found += [(method, path) for method in methods if method in ("post", "put", "patch")]
    return [*found, ("post", "/mcp")]


@pytest.mark.parametrize("form", NESTED)
def test_deeply_nested_json_is_refused(start_server: Callable[..., LiveServer], form: str) -> None:
    server, statuses = start_server(), {}
    client = server.client("admin", Accept="application/json, text/event-stream")
    for method, path in operations(server):
        body = NESTED[form][:250_000] if path == "/mcp" else NESTED[form]
        answer = client.request(method, path, content=body, headers={"Content-Type": "application/json"})
        statuses[method, path] = answer.status_code
    # a raw upload is no JSON for the server
    uploaded = statuses.pop(("put", "/api/v1/collections/ships/documents/bmV3"))
    assert len(statuses) > 20 and all(400 <= status < 500 for status in statuses.values()), statuses
    assert uploaded in (202, 415, 422)
    options = {"options": '{"metadata":' + "[" * 60_000}
    files = {"files": ("a.md", b"A text.")}
    assert client.post("/api/v1/collections/ships/documents", data=options, files=files).status_code in (400, 422)
