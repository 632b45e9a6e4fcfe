"""The OpenAI adapter over real HTTP, against a small server on loopback that follows a script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.models.http_endpoint import HTTPEndpoint, Reply, Script

from mergewise.errors import ModelError
from mergewise.models import release


def vector(text: str) -> list[float]:
    return [float(len(text) + 1), 2.0, 0.5]


def good(request: dict[str, Any]) -> Reply:
    """Answer in reverse order, so that only the index shows the text of a row."""
    rows = [{"object": "embedding", "index": i, "embedding": vector(t)} for i, t in enumerate(request["input"])]
    return 200, {"object": "list", "model": "m", "data": rows[::-1]}, {}


def status(code: int) -> Script:
    return lambda request: (code, {"error": {"message": "scripted"}}, {"Retry-After-Ms": "1"})


def body(content: object) -> Script:
    return lambda request: (200, content, {})


def data(*rows: dict[str, Any]) -> Script:
    return body({"object": "list", "data": rows})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPEndpoint]:
    pytest.importorskip("openai")
    with HTTPEndpoint(good) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        yield server


@pytest.fixture
def embedder(server: HTTPEndpoint) -> Iterator[Any]:
    from mergewise.models.openai import OpenAIEmbedder

    embedder = OpenAIEmbedder("m", batch_texts=2, retries=2)
    yield embedder
    release(embedder)


def test_rows_are_unit_and_in_the_order_of_the_texts(server: HTTPEndpoint, embedder: Any) -> None:
    texts = ["one", "", "three", "fifteen", "a"]
    vectors = embedder.embed_documents(texts)
    expected = np.array([vector(text or " ") for text in texts])
    np.testing.assert_allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-6)
    assert vectors.dtype == np.float32
    assert [len(request["input"]) for request in server.requests] == [2, 2, 1]
    assert {*server.paths} == {"/v1/embeddings"} and {*server.keys} == {"Bearer secret"}
    assert {request["model"] for request in server.requests} == {"m"}
    assert embedder.spec == "openai:m"


def test_the_dimension_is_requested_once(server: HTTPEndpoint, embedder: Any) -> None:
    assert embedder.dimension == embedder.dimension == 3
    assert len(server.requests) == 1
    assert embedder.embed_queries([]).shape == (0, 3)


def test_a_request_is_retried_after_the_pause_that_the_server_asks_for(server: HTTPEndpoint, embedder: Any) -> None:
    server.script = [status(429), good]
    assert embedder.embed_queries(["text"]).shape == (1, 3)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("code", "requests", "hint"),
    [
        (500, 3, "OPENAI_BASE_URL"),
        (429, 3, "quota"),
        (401, 1, "OPENAI_API_KEY"),
        (404, 1, "serves"),
        (400, 1, "shorten"),
    ],
)
def test_failures_are_translated(server: HTTPEndpoint, embedder: Any, code: int, requests: int, hint: str) -> None:
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
def test_an_invalid_answer_is_an_error_and_never_a_vector(server: HTTPEndpoint, embedder: Any, reply: Script) -> None:
    server.script = [reply]
    with pytest.raises(ModelError, match="openai:m"):
        embedder.embed_documents(["one", "two"])


def test_a_dimension_that_changes_is_an_error(server: HTTPEndpoint) -> None:
    from mergewise.models.openai import OpenAIEmbedder

    embedder = OpenAIEmbedder("m", dimension=4)
    with pytest.raises(ModelError, match=r"3 dimensions \(expected 4\)"):
        embedder.embed_documents(["text"])
    release(embedder)
