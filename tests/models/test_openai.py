"""The OpenAI adapter over real HTTP, against a small server on loopback that follows a script."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import numpy as np
import pytest

from mergewise.errors import MissingExtra, ModelError, UsageError
from mergewise.models import release

Reply = Callable[[dict[str, Any]], tuple[int, bytes]]


def vector(text: str) -> list[float]:
    return [float(len(text) + 1), 2.0, 0.5]


def good(request: dict[str, Any]) -> tuple[int, bytes]:
    """In reverse, so that only the index tells which text a row belongs to."""
    rows = [{"object": "embedding", "index": i, "embedding": vector(t)} for i, t in enumerate(request["input"])]
    return 200, json.dumps({"object": "list", "model": "m", "data": rows[::-1]}).encode()


def status(code: int) -> Reply:
    return lambda request: (code, b'{"error": {"message": "scripted"}}')


def body(content: bytes) -> Reply:
    return lambda request: (200, content)


def data(*rows: dict[str, Any]) -> Reply:
    return body(json.dumps({"object": "list", "data": rows}).encode())


class Server(ThreadingHTTPServer):
    """Answers with the replies of `script` in turn; the last one repeats."""

    script: list[Reply]
    requests: list[dict[str, Any]]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append({**request, "path": self.path, "key": self.headers["Authorization"]})
        reply = self.server.script.pop(0) if len(self.server.script) > 1 else self.server.script[0]
        code, content = reply(request)
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Retry-After-Ms", "1")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    pytest.importorskip("openai")
    with Server(("127.0.0.1", 0), Handler) as server:
        server.script, server.requests = [good], []
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def embedder(server: Server) -> Iterator[Any]:
    from mergewise.models.openai import OpenAIEmbedder

    embedder = OpenAIEmbedder("m", batch_texts=2, retries=2)
    yield embedder
    release(embedder)


def test_rows_are_unit_and_in_the_order_of_the_texts(server: Server, embedder: Any) -> None:
    texts = ["one", "", "three", "fifteen", "a"]
    vectors = embedder.embed_documents(texts)
    expected = np.array([vector(text or " ") for text in texts])
    np.testing.assert_allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-6)
    assert vectors.dtype == np.float32
    assert [len(request["input"]) for request in server.requests] == [2, 2, 1]
    assert {(r["path"], r["key"], r["model"]) for r in server.requests} == {("/v1/embeddings", "Bearer secret", "m")}
    assert embedder.spec == "openai:m"


def test_the_dimension_is_asked_once(server: Server, embedder: Any) -> None:
    assert embedder.dimension == embedder.dimension == 3
    assert len(server.requests) == 1
    assert embedder.embed_queries([]).shape == (0, 3)


def test_a_pause_that_the_server_asks_for_is_kept_and_the_request_repeated(server: Server, embedder: Any) -> None:
    server.script = [status(429), good]
    assert embedder.embed_queries(["text"]).shape == (1, 3)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("code", "requests", "hint"),
    [(500, 3, "OPENAI_BASE_URL"), (429, 3, "quota"), (401, 1, "OPENAI_API_KEY"), (404, 1, "name"), (400, 1, "longer")],
)
def test_failures_are_translated(server: Server, embedder: Any, code: int, requests: int, hint: str) -> None:
    server.script = [status(code)]
    with pytest.raises(ModelError) as caught:
        embedder.embed_documents(["text"])
    assert hint in caught.value.hint
    assert len(server.requests) == requests


ROW = {"index": 0, "embedding": [1.0, 2.0, 3.0]}


@pytest.mark.parametrize(
    "reply",
    [
        body(b"<html>"),
        body(b'{"data": '),
        body(b"[]"),
        body(b'{"data": 7}'),
        data(),
        data(ROW),
        data(ROW, ROW),
        data(ROW, {**ROW, "index": 2}),
        data(ROW, {"index": 1}),
        data(ROW, {"index": 1, "embedding": None}),
        data(ROW, {"index": 1, "embedding": ["a", "b", "c"]}),
        data(ROW, {"index": 1, "embedding": [1.0]}),
        data(ROW, {"index": 1, "embedding": [0.0, 0.0, 0.0]}),
    ],
)
def test_nonsense_is_an_error_and_never_a_vector(server: Server, embedder: Any, reply: Reply) -> None:
    server.script = [reply]
    with pytest.raises(ModelError, match="openai:m"):
        embedder.embed_documents(["one", "two"])


def test_a_dimension_that_changes_is_an_error(server: Server) -> None:
    from mergewise.models.openai import OpenAIEmbedder

    embedder = OpenAIEmbedder("m", dimension=4)
    with pytest.raises(ModelError, match="3 dimensions instead of 4"):
        embedder.embed_documents(["text"])
    release(embedder)


def test_nobody_listens(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from mergewise.models.openai import OpenAIEmbedder

    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    embedder = OpenAIEmbedder("m", retries=0)
    with pytest.raises(ModelError, match="OPENAI_BASE_URL"):
        embedder.embed_documents(["text"])
    release(embedder)


def test_a_key_is_needed_only_for_openai_itself(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from mergewise.models import load_embedder

    monkeypatch.delenv("OPENAI_API_KEY")
    embedder = load_embedder("openai:m")
    assert embedder is not None and embedder.embed_queries(["text"]).shape == (1, 3)
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        load_embedder("openai:m")


def test_without_the_extra_the_command_to_install_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from mergewise.models import load_embedder

    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtra, match=r"mergewise\[openai\]"):
        load_embedder("openai:m")
