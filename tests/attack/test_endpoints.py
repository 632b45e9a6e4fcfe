"""Endpoints that hang, drip, send without end, unpack to gigabytes, answer with nonsense or ask for a pause of a year."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from itertools import repeat
from threading import Event, Thread
from typing import Any

import pytest

from mergewise.concurrency import run
from mergewise.errors import ModelError
from mergewise.models.openai import OpenAIEmbedder
from mergewise.models.openai_chat import OpenAIChat
from mergewise.models.openai_scorer import OpenAIScorer
from mergewise.models.rerank_http import HTTPReranker
from mergewise.types import Message
from tests.attack.support import LONG, linux_only, memory_mb

pytest.importorskip("openai")

PATIENCE = 2.0 if LONG else 0.5  # seconds
QUESTION = [Message("user", "What do cats eat?")]
Sends = Callable[[socket.socket, Event], None]


class Endpoint:
    """Hands every connection, once a request has come, to a function that sends what it likes."""

    def __init__(self, sends: Sends) -> None:
        self.requests = 0
        self.url = ""
        self._sends = sends
        self._over = Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"
        Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                Thread(target=self._serve, args=(self._listening.accept()[0],), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            asked = b""
            while b"\r\n\r\n" not in asked or not asked.rstrip().endswith(b"}"):
                if not (more := connection.recv(65536)):
                    return
                asked += more
            self.requests += 1
            self._sends(connection, self._over)

    def close(self) -> None:
        self._over.set()
        self._listening.close()


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Sends], Endpoint]]:
    """Endpoints whose clients have little patience: so long for a byte, twice that for an answer, unless it is said."""
    endpoints: list[Endpoint] = []
    monkeypatch.setattr("mergewise.models.endpoint.TIMEOUT", PATIENCE)
    monkeypatch.setattr("mergewise.models.clients.LONGEST", 2 * PATIENCE)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")

    def start(sends: Sends) -> Endpoint:
        endpoints.append(Endpoint(sends))
        monkeypatch.setenv("OPENAI_BASE_URL", endpoints[-1].url)
        return endpoints[-1]

    yield start
    for endpoint in endpoints:
        endpoint.close()


def complete(url: str, retries: int = 0) -> object:
    return run(OpenAIChat("m", base_url=url, retries=retries, timeout=PATIENCE).complete(QUESTION))


def stream(url: str, retries: int = 0) -> object:
    async def collect() -> int:
        pieces: AsyncIterator[Any] = OpenAIChat("m", base_url=url, retries=retries, timeout=PATIENCE).stream(QUESTION)
        return sum([1 async for _ in pieces])

    return run(collect())


def embed(url: str, retries: int = 0) -> object:
    return OpenAIEmbedder("m", retries=retries).embed_documents(["a text"])


def score(url: str, retries: int = 0) -> object:
    return OpenAIScorer("m", retries=retries).nll(["a text"], ["another"])


def rerank(url: str, retries: int = 0) -> object:
    return HTTPReranker(f"{url}/rerank", retries=retries, timeout=PATIENCE, pause=0.01).score("question", ["a text"])


CALLS = {call.__name__: call for call in (complete, stream, embed, score, rerank)}
every_call = pytest.mark.parametrize("name", CALLS)

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def head_of(name: str) -> bytes:
    return EVENTS if name == "stream" else HEAD


def fails(name: str, endpoint: Endpoint, retries: int = 0) -> ModelError:
    """What the call raises: always an error of ours, with a hint, in one line."""
    with pytest.raises(ModelError) as caught:
        CALLS[name](endpoint.url, retries)
    assert caught.value.hint
    assert len(str(caught.value)) < 2000 and "\n" not in caught.value.message
    assert "secret" not in str(caught.value)
    return caught.value


@every_call
def test_an_endpoint_that_hangs(name: str, serve: Callable[[Sends], Endpoint]) -> None:
    fails(name, serve(lambda connection, over: void(over.wait())))


def void(_: object) -> None:
    """Nothing, whatever it is given."""


def drips(first: bytes, piece: bytes) -> Sends:
    """A piece every tenth of a second, without end."""

    def send(connection: socket.socket, over: Event) -> None:
        connection.sendall(first)
        while not over.wait(0.1):
            connection.sendall(piece)

    return send


@every_call
def test_an_endpoint_that_drips_its_head(name: str, serve: Callable[[Sends], Endpoint]) -> None:
    error = fails(name, serve(drips(b"HTTP/1.1 200 OK\r\nX-Long: ", b"a")))
    assert "still answering" in error.message


@every_call
def test_an_endpoint_that_drips_its_answer(name: str, serve: Callable[[Sends], Endpoint]) -> None:
    error = fails(name, serve(drips(head_of(name) + b"Content-Length: 100000\r\n\r\n", b" ")))
    assert "still answering" in error.message


@every_call
def test_an_endpoint_that_never_gets_to_its_answer(name: str, serve: Callable[[Sends], Endpoint]) -> None:
    error = fails(name, serve(drips(b"", b"HTTP/1.1 102 Processing\r\n\r\n")))
    assert "still answering" in error.message


def floods(first: bytes, piece: bytes) -> Sends:
    """As fast as the client takes it."""

    def send(connection: socket.socket, over: Event) -> None:
        connection.sendall(first)
        for block in repeat(piece):
            if over.is_set():
                return
            connection.sendall(block)

    return send


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


@pytest.fixture
def small_answers(monkeypatch: pytest.MonkeyPatch) -> int:
    """The size of answers in megabytes: what it is in the long form, little in the short one."""
    monkeypatch.setattr("mergewise.models.clients.LONGEST", 120.0)
    monkeypatch.setattr("mergewise.models.endpoint.TIMEOUT", 30.0)
    if LONG:
        return 256
    for module, limit in (("openai_chat", "ANSWER_MB"), ("rerank_http", "ANSWER_MB"), ("endpoint", "EMBEDDINGS_MB")):
        monkeypatch.setattr(f"mergewise.models.{module}.{limit}", 2)
    return 2


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
EVENT = b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": "cat " * 200}}]}).encode() + b"\n\n"
BOMB = gzip.compress(b" " * 10_000_000)


@linux_only
@every_call
@pytest.mark.parametrize(
    ("more", "piece"),
    [
        (CHUNKED, chunk(b" " * 65536)),
        (b"Content-Length: 1000000000\r\n\r\n", b'"' + b"a" * 65535),
        (
            b"Content-Encoding: gzip\r\n" + CHUNKED,
            chunk(gzip.compress(b" " * 500_000_000 if LONG else b" " * 9_000_000)),
        ),
    ],
    ids=["endless", "gigabyte", "bomb"],
)
def test_an_endpoint_that_sends_too_much(
    name: str, more: bytes, piece: bytes, serve: Callable[[Sends], Endpoint], small_answers: int
) -> None:
    before = memory_mb()
    error = fails(name, serve(floods(head_of(name) + more, piece)), retries=2)
    assert "more than" in error.message and "MB" in error.message
    assert memory_mb() - before < 100 + 5 * small_answers


@linux_only
def test_a_stream_without_end(serve: Callable[[Sends], Endpoint], small_answers: int) -> None:
    before = memory_mb()
    error = fails("stream", serve(floods(EVENTS + CHUNKED, chunk(EVENT * 20))))
    assert "more than" in error.message
    assert memory_mb() - before < 100 + 5 * small_answers


def answers(status: str, body: bytes, *headers: str) -> Sends:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return lambda connection, over: connection.sendall("\r\n".join(lines).encode() + body)


JSON_TYPE = "Content-Type: application/json"
DEEP = b"[" * 200_000 + b"]" * 200_000
NONSENSE = {
    "html": (b"<html>no</html>", "Content-Type: text/html"),
    "picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "Content-Type: image/png"),
    "deep": (DEEP, JSON_TYPE),
    "deep in it": (b'{"choices": ' + DEEP + b', "data": ' + DEEP + b', "results": ' + DEEP + b"}", JSON_TYPE),
    "number": (b"1e999", JSON_TYPE),
    "long number": (b"9" * 100_000, JSON_TYPE),
    "infinite": (
        b'{"results": [{"index": Infinity, "score": 1}], "data": [{"index": Infinity, "embedding": [1]}],'
        b' "choices": [{"index": Infinity, "message": {"content": Infinity}}], "usage": {"prompt_tokens": Infinity}}',
        JSON_TYPE,
    ),
    "not a number": (
        b'{"results": [{"index": 0, "score": NaN}], "data": [{"index": 0, "embedding": [NaN, 1e400]}],'
        b' "choices": [{"index": 0, "message": {"content": ["a"]}, "text": NaN}]}',
        JSON_TYPE,
    ),
    "many digits": (
        b'{"data": [{"index": 0, "embedding": ['
        + b"9" * 400
        + b']}], "results": [{"index": 0, "score": '
        + b"9" * 400
        + b'}], "choices": [{"index": '
        + b"9" * 400
        + b', "message": null}], "usage": {"prompt_tokens": "many"}}',
        JSON_TYPE,
    ),
    "billed in words": (
        b'{"choices": [{"index": 0, "message": {"content": "yes"}}], "usage": {"prompt_tokens": "many"}}',
        JSON_TYPE,
    ),
    "latin": ('{"choices": "é"}'.encode("latin-1"), "Content-Type: application/json; charset=utf-8"),
    "unknown charset": (b"{}", "Content-Type: application/json; charset=no-such"),
    "packed wrongly": (b"no gzip", JSON_TYPE, "Content-Encoding: gzip"),
    "packed otherwise": (b"no brotli", JSON_TYPE, "Content-Encoding: br"),
    "packed twice": (gzip.compress(gzip.compress(b"{}")), JSON_TYPE, "Content-Encoding: gzip, gzip"),
    "empty": (b"", JSON_TYPE),
    "null": (b"null", JSON_TYPE),
    "escapes": (b'{"error": "\x1b[2J"}', JSON_TYPE),
    "events for all": (b"data: {\n\ndata: [1]\n\ndata: null\n\n", "Content-Type: text/event-stream"),
    "deep events": (b"data: " + DEEP + b"\n\n", "Content-Type: text/event-stream"),
    "events without choices": (b'data: {"choices": null}\n\n', "Content-Type: text/event-stream"),
}


@every_call
@pytest.mark.parametrize("nonsense", NONSENSE)
def test_an_endpoint_that_answers_with_nonsense(name: str, nonsense: str, serve: Callable[[Sends], Endpoint]) -> None:
    body, *headers = NONSENSE[nonsense]
    endpoint = serve(answers("200 OK", body, *headers))
    if (name, nonsense) == ("complete", "billed in words"):
        pytest.skip("whether a bill in words is an error is the SDK's affair")
    fails(name, endpoint)


@every_call
def test_an_error_of_a_megabyte_is_told_in_short(name: str, serve: Callable[[Sends], Endpoint]) -> None:
    body = json.dumps({"error": {"message": "no\n" * 300_000}}).encode()
    fails(name, serve(answers("400 Bad Request", body, JSON_TYPE)))


YEAR = 365 * 24 * 3600
PAUSES = [str(YEAR), "1e308", "inf", "nan", "-5", "Wed, 21 Oct 2099 07:28:00 GMT", "soon"]
BUSY = ["429 Too Many Requests", "503 Service Unavailable"]


@every_call
@pytest.mark.parametrize("asked", PAUSES if LONG else [PAUSES[0], PAUSES[3]])
@pytest.mark.parametrize("status", BUSY if LONG else BUSY[:1])
def test_an_endpoint_that_asks_for_a_long_pause(
    name: str, asked: str, status: str, serve: Callable[[Sends], Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mergewise.models.clients.LONGEST", 60.0)
    began = time.monotonic()
    error = fails(name, serve(answers(status, b"{}", JSON_TYPE, f"Retry-After: {asked}")), retries=1)
    assert time.monotonic() - began < 50
    if asked == str(YEAR):
        assert f"pause of {YEAR}" in error.hint


@every_call
def test_a_head_without_end(name: str, serve: Callable[[Sends], Endpoint]) -> None:
    fails(name, serve(floods(b"HTTP/1.1 200 OK\r\nX-Long: ", b"a" * 65536)))


def test_a_packed_answer_is_read(serve: Callable[[Sends], Endpoint]) -> None:
    body = gzip.compress(json.dumps({"data": [{"index": 0, "embedding": [3.0, 4.0]}]}).encode())
    endpoint = serve(answers("200 OK", body, JSON_TYPE, "Content-Encoding: gzip"))
    assert OpenAIEmbedder("m", retries=0).embed_documents(["a text"]).tolist() == [
        [pytest.approx(0.6), pytest.approx(0.8)]
    ]
    assert endpoint.requests == 1


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<think>a<b</think>\n\n Cats eat fish.", "Cats eat fish."),
        ("  <think></think>Fish", "Fish"),
        ("<thin> fish", "<thin> fish"),
        (" fish <think>no</think>", " fish <think>no</think>"),
        ("<think>never ends", ""),
        ("<thi", "<thi"),
    ],
)
def test_thoughts_are_taken_out_of_pieces(text: str, shown: str, size: int, serve: Callable[[Sends], Endpoint]) -> None:
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    events = [{"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    body = b"".join(b"data: " + json.dumps({**event, "usage": None}).encode() + b"\n\n" for event in events)
    endpoint = serve(answers("200 OK", body + b"data: [DONE]\n\n", "Content-Type: text/event-stream"))

    async def collect() -> list[Any]:
        return [piece async for piece in OpenAIChat("m", base_url=endpoint.url, retries=0).stream(QUESTION)]

    *given, reply = run(collect())
    assert "".join(given) == reply.text == shown
