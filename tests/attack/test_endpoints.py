"""Endpoints that hang, drip, flood, decompress to gigabytes, answer nonsense or ask for a pause of a year."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import repeat
from threading import Event, Thread
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from mergewise.concurrency import run
from mergewise.errors import ModelError, UsageError
from mergewise.models.openai import OpenAIEmbedder
from mergewise.models.openai_chat import OpenAIChat
from mergewise.models.openai_scorer import OpenAIScorer
from mergewise.models.rerank_http import HTTPReranker
from mergewise.models.scripted import usage_of
from mergewise.redaction import masked, remember_key
from mergewise.types import Message
from tests.attack.support import LONG, linux_only, memory_mb
from tests.models.http_endpoint import HTTPEndpoint, Reply
from tests.support import patience

pytest.importorskip("openai")

PATIENCE = 2.0 if LONG else 0.5  # seconds, only for endpoints that never answer: so no load makes a test fail
KEY = "sk-proj/Ab+12 34=z"
QUESTION = [Message("user", "What do cats eat?")]
Sends = Callable[[socket.socket, Event], None]


def test_further_choices_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records of the SDK took 7 seconds for 100,000 choices."""
    import openai

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a record of the SDK")

    monkeypatch.setattr(openai.BaseModel, "construct", refuse)
    said = {"role": "assistant", "content": "fish"}
    whole = {"choices": [{"message": said, "finish_reason": "stop"}] + [{"message": said}] * 100_000}
    pieces = {"choices": [{"delta": said, "finish_reason": "stop"}] + [{"delta": said}] * 100_000}
    stream = b"data: " + json.dumps(pieces).encode() + b"\n\ndata: [DONE]\n\n"

    def reply(request: dict[str, Any]) -> Reply:
        return (200, stream, {"Content-Type": "text/event-stream"}) if request.get("stream") else (200, whole, {})

    async def read(chat: OpenAIChat) -> list[Any]:
        return [piece async for piece in chat.stream(QUESTION)]

    with HTTPEndpoint(reply) as endpoint:
        chat = OpenAIChat("m", base_url=endpoint.url, retries=0)
        assert run(chat.complete(QUESTION)).text == "fish"
        *given, last = run(read(chat))
        # a letter that may begin a key of another test comes in a piece of its own
        assert "".join(given) == last.text == "fish"


class Endpoint:
    """A server that reads a request on each connection and passes the connection to a function."""

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
        # a thread that waits in `accept` would outlive the descriptor, and could answer for the next endpoint
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Sends], Endpoint]]:
    """Endpoints whose client waits for two minutes, unless a test shortens that."""
    endpoints: list[Endpoint] = []
    monkeypatch.setattr("mergewise.models.clients.LONGEST", 120.0)
    monkeypatch.setenv("MERGEWISE_TIMEOUT", "120")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("RERANK_API_KEY", KEY)

    def start(sends: Sends) -> Endpoint:
        endpoints.append(Endpoint(sends))
        monkeypatch.setenv("OPENAI_BASE_URL", endpoints[-1].url)
        return endpoints[-1]

    yield start
    for endpoint in endpoints:
        endpoint.close()


def complete(url: str, retries: int | None = 0) -> Any:
    return run(OpenAIChat("m", base_url=url, retries=retries).complete(QUESTION))


def stream(url: str, retries: int | None = 0) -> list[Any]:
    async def collect() -> list[Any]:
        return [piece async for piece in OpenAIChat("m", base_url=url, retries=retries).stream(QUESTION)]

    return run(collect())


def embed(url: str, retries: int | None = 0) -> object:
    return OpenAIEmbedder("m", retries=retries).embed_documents(["a text"])


def score(url: str, retries: int | None = 0) -> object:
    return OpenAIScorer("m", retries=retries).nll(["a text"], ["another"])


def rerank(url: str, retries: int | None = 0) -> object:
    return HTTPReranker(f"{url}/rerank", retries=retries).score("question", ["a text"])


CALLS = {call.__name__: call for call in (complete, stream, embed, score, rerank)}
every_call = pytest.mark.parametrize("name", CALLS)

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def head_of(name: str) -> bytes:
    return EVENTS if name == "stream" else HEAD


def fails(name: str, endpoint: Endpoint, retries: int = 0) -> ModelError:
    """Check that the call raises a mergewise error with a hint, in one line. Return the error."""
    with pytest.raises(ModelError) as caught:
        CALLS[name](endpoint.url, retries)
    assert caught.value.hint
    assert len(str(caught.value)) < 2000 and "\n" not in caught.value.message
    assert KEY not in str(caught.value)
    return caught.value


@every_call
def test_an_endpoint_that_hangs(name: str, serve: Callable[[Sends], Endpoint], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERGEWISE_TIMEOUT", str(PATIENCE))
    error = fails(name, serve(lambda connection, over: ignore(over.wait())))
    assert "not complete after" not in error.message, "the ceiling of answers ended it, not the timeout"


def ignore(_: object) -> None:
    """Ignore the argument."""


def drips(first: bytes, piece: bytes) -> Sends:
    """Send a piece every tenth of a second, without end."""

    def send(connection: socket.socket, over: Event) -> None:
        connection.sendall(first)
        while not over.wait(0.1):
            connection.sendall(piece)

    return send


@every_call
@pytest.mark.parametrize("part", ["head", "answer", "never an answer"])
def test_an_endpoint_that_drips(
    name: str, part: str, serve: Callable[[Sends], Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mergewise.models.clients.LONGEST", 2 * PATIENCE)
    sends = {
        "head": drips(b"HTTP/1.1 200 OK\r\nX-Long: ", b"a"),
        "answer": drips(head_of(name) + b"Content-Length: 100000\r\n\r\n", b" "),
        "never an answer": drips(b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    }
    assert "not complete after" in fails(name, serve(sends[part])).message


def floods(first: bytes, piece: bytes) -> Sends:
    """Send pieces as fast as the client reads them."""

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
    """The size limit of answers in megabytes, lowered in the short form."""
    if LONG:
        return 256
    for module, limit in (("openai_chat", "ANSWER_MB"), ("rerank_http", "ANSWER_MB"), ("endpoint", "EMBEDDINGS_MB")):
        monkeypatch.setattr(f"mergewise.models.{module}.{limit}", 2)
    return 2


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
EVENT = b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": "cat " * 200}}]}).encode() + b"\n\n"


@linux_only
@every_call
@pytest.mark.parametrize(
    ("more", "piece"),
    [
        (CHUNKED, chunk(b" " * 65536)),
        (b"Content-Length: 1000000000\r\n\r\n", b'"' + b"a" * 65535),
        (b"Content-Encoding: gzip\r\n" + CHUNKED, chunk(gzip.compress(b" " * (500_000_000 if LONG else 9_000_000)))),
    ],
    ids=["endless", "gigabyte", "bomb"],
)
def test_an_endpoint_that_sends_too_much(
    name: str, more: bytes, piece: bytes, serve: Callable[[Sends], Endpoint], small_answers: int
) -> None:
    before = memory_mb()
    error = fails(name, serve(floods(head_of(name) + more, piece)), retries=2)
    assert "too large" in error.message and "MB" in error.message
    assert memory_mb() - before < 100 + 5 * small_answers


@linux_only
def test_endless_stream(serve: Callable[[Sends], Endpoint], small_answers: int) -> None:
    before = memory_mb()
    error = fails("stream", serve(floods(EVENTS + CHUNKED, chunk(EVENT * 20))))
    assert "too large" in error.message
    assert memory_mb() - before < 100 + 5 * small_answers


def answers(status: str, body: bytes, *headers: str) -> Sends:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return lambda connection, over: connection.sendall("\r\n".join(lines).encode() + body)


JSON_TYPE = "Content-Type: application/json"
DEEP = b"[" * 200_000 + b"]" * 200_000
DIGITS = 10**400 - 1
NONSENSE: dict[str, tuple[Any, ...]] = {
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
        b' "choices": [{"index": 0, "message": {"content": [1]}, "text": NaN}]}',
        JSON_TYPE,
    ),
    "many digits": (
        b'{"data": [{"index": 0, "embedding": [%d]}], "results": [{"index": 0, "score": %d}],'
        b' "choices": [{"index": %d, "message": null}], "usage": {"prompt_tokens": "many"}}' % (DIGITS, DIGITS, DIGITS),
        JSON_TYPE,
    ),
    "billed in words": (
        b'{"choices": [{"message": {"content": "yes"}}], "usage": {"prompt_tokens": "many"}}',
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
        assert complete(endpoint.url).usage.estimated
    else:
        fails(name, endpoint)


@every_call
def test_huge_error_is_shortened(name: str, serve: Callable[[Sends], Endpoint]) -> None:
    body = json.dumps({"error": {"message": "no\n" * 300_000}}).encode()
    fails(name, serve(answers("400 Bad Request", body, JSON_TYPE)))


YEAR = 365 * 24 * 3600
PAUSES = [str(YEAR), "1e308", "inf", "nan", "-5", "Wed, 21 Oct 2099 07:28:00 GMT", "soon"]
BUSY = ["429 Too Many Requests", "503 Service Unavailable"]


@every_call
@pytest.mark.parametrize("asked", PAUSES if LONG else [PAUSES[0], PAUSES[3]])
@pytest.mark.parametrize("status", BUSY if LONG else BUSY[:1])
def test_an_endpoint_that_asks_for_a_long_pause(
    name: str, asked: str, status: str, serve: Callable[[Sends], Endpoint]
) -> None:
    began = time.monotonic()
    error = fails(name, serve(answers(status, b"{}", JSON_TYPE, f"Retry-After: {asked}")), retries=1)
    assert time.monotonic() - began < patience(50)
    if asked == str(YEAR):
        assert f"retry after {YEAR} seconds" in error.hint


@every_call
def test_endless_header(name: str, serve: Callable[[Sends], Endpoint]) -> None:
    fails(name, serve(floods(b"HTTP/1.1 200 OK\r\nX-Long: ", b"a" * 65536)))


def test_compressed_answer_is_read(serve: Callable[[Sends], Endpoint]) -> None:
    body = gzip.compress(json.dumps({"data": [{"index": 0, "embedding": [3.0, 4.0]}]}).encode())
    endpoint = serve(answers("200 OK", body, JSON_TYPE, "Content-Encoding: gzip"))
    assert OpenAIEmbedder("m", retries=0).embed_documents(["a text"]).tolist() == [pytest.approx([0.6, 0.8])]
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
def test_thoughts_are_removed_from_pieces(text: str, shown: str, size: int, serve: Callable[[Sends], Endpoint]) -> None:
    *given, reply = stream(serve(answers("200 OK", events_of(text, size), "Content-Type: text/event-stream")).url)
    assert "".join(given) == reply.text == shown


# -- token usage


def chat_answer(text: object = "Cats eat fish.", reason: object = "stop", **rest: object) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **rest}, "finish_reason": reason}
    return json.dumps({"choices": [choice], **rest}).encode()


def answer_with_usage(usage: str) -> bytes:
    """Build a chat completion with this usage as raw JSON, so that numbers can have any length."""
    return chat_answer()[:-1] + b', "usage": ' + usage.encode() + b"}"


READ, WRITTEN = usage_of(QUESTION, "Cats eat fish.").input_tokens, usage_of(QUESTION, "Cats eat fish.").output_tokens
BILLS = [
    ('{"prompt_tokens": 7, "completion_tokens": 3}', (7, 3, False)),
    ('{"prompt_tokens": 7.0, "completion_tokens": 0}', (7, 0, False)),
    ("null", (READ, WRITTEN, True)),
    ("{}", (READ, WRITTEN, True)),
    ('{"prompt_tokens": 7}', (7, WRITTEN, True)),
    (f'{{"prompt_tokens": 1{"0" * 400}, "completion_tokens": 3}}', (READ, 3, True)),
    ('{"prompt_tokens": -5, "completion_tokens": -1e9}', (READ, WRITTEN, True)),
    ('{"prompt_tokens": 1.5, "completion_tokens": 1e300}', (READ, WRITTEN, True)),
    ('{"prompt_tokens": NaN, "completion_tokens": Infinity}', (READ, WRITTEN, True)),
    ('{"prompt_tokens": true, "completion_tokens": "many"}', (READ, WRITTEN, True)),
    ('{"prompt_tokens": [7], "completion_tokens": {}}', (READ, WRITTEN, True)),
]


@pytest.mark.parametrize(("bill", "counts"), BILLS)
@pytest.mark.parametrize("streamed", [False, True])
def test_usage_is_whole_numbers_or_an_estimate(
    bill: str, counts: tuple[int, int, bool], streamed: bool, serve: Callable[[Sends], Endpoint]
) -> None:
    if streamed:
        event = json.loads(chat_answer())
        event["choices"][0]["delta"] = event["choices"][0].pop("message")
        body = b"data: " + json.dumps(event).encode()[:-1] + b', "usage": ' + bill.encode() + b"}\n\ndata: [DONE]\n\n"
        reply = stream(serve(answers("200 OK", body, "Content-Type: text/event-stream")).url)[-1]
    else:
        reply = complete(serve(answers("200 OK", answer_with_usage(bill), JSON_TYPE)).url)
    usage = reply.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens, usage.estimated) == (1, *counts)
    assert 0 <= usage.cost(3.0, 15.0) < float("inf")


def test_impossible_usage_is_reported_once(
    serve: Callable[[Sends], Endpoint], caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = serve(answers("200 OK", answer_with_usage('{"prompt_tokens": -1, "completion_tokens": 2}'), JSON_TYPE))
    chat = OpenAIChat("m", base_url=endpoint.url, retries=0)
    for _ in range(3):
        run(chat.complete(QUESTION))
    assert [record.getMessage() for record in caplog.records if record.name == "mergewise"] == [
        "invalid token counts from openai:m, using estimates"
    ]


# -- keys echoed by an endpoint

KEY_64 = b64encode(KEY.encode()).decode().rstrip("=")
ECHOES = [KEY, quote(KEY, safe=""), quote_plus(KEY), KEY_64, json.dumps(KEY)[1:-1]]


def echoes(status: str) -> Sends:
    """Echo the key in every form: in the body, in a truncated error, in a redirect address, and in headers."""
    echo = " | ".join(ECHOES)
    body = json.dumps({"error": {"message": f"bad key {echo}" + "x" * 120 + KEY, "code": echo, "type": KEY}}).encode()
    return answers(status, body, JSON_TYPE, f"Location: http://h/{echo}?key={KEY}", f"WWW-Authenticate: {echo}")


STATUSES = ["400 Bad Request", "307 Temporary Redirect", "401 Unauthorized", "418 Tea", "500 Oops"]


@every_call
@pytest.mark.parametrize("status", STATUSES if LONG else STATUSES[:2])
def test_an_echoed_key_is_masked(name: str, status: str, serve: Callable[[Sends], Endpoint]) -> None:
    error = fails(name, serve(echoes(status)))
    for part in (KEY[:12], *ECHOES):
        assert part not in error.message + error.hint + repr(error) + str(error.args)
    assert "***" in str(error) or (name, status[:3]) == ("score", "400"), (
        "the scorer tries two forms and quotes neither error"
    )


@every_call
def test_key_in_a_content_encoding_is_masked(name: str, serve: Callable[[Sends], Endpoint]) -> None:
    error = fails(name, serve(answers("200 OK", b"{}", JSON_TYPE, f"Content-Encoding: {'x' * 30}{KEY}")))
    assert "content encoding" in error.message and KEY[:6] not in str(error)


def test_a_password_in_an_address_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    for call, url in (
        (complete, "http://me:hunter2hunter2@127.0.0.1:9/v1"),
        (rerank, "http://127.0.0.1:9/x?api_key=hunter3hunter3&q=a"),
    ):
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        with pytest.raises(ModelError) as caught:
            call(url)
        assert "127.0.0.1:9" in str(caught.value) and "hunter" not in str(caught.value)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("form", range(len(ECHOES)))
def test_key_in_an_answer_is_masked_in_pieces_too(form: int, size: int, serve: Callable[[Sends], Endpoint]) -> None:
    text = f"Your key is {ECHOES[form]}, and it begins with {KEY[:7]}."
    *given, reply = stream(serve(answers("200 OK", events_of(text, size), "Content-Type: text/event-stream")).url)
    assert "".join(given) == reply.text == f"Your key is ***, and it begins with {KEY[:7]}."
    assert complete(serve(answers("200 OK", chat_answer(text), JSON_TYPE)).url).text == reply.text


def test_short_keys_are_not_masked(serve: Callable[[Sends], Endpoint]) -> None:
    for word in ("none", "EMPTY", "ollama"):
        remember_key(word)
        assert masked(f"{word} is a word") == f"{word} is a word"


# -- forms of streams


def event_of(delta: object, reason: str | None = None, **rest: object) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
    return b"data: %s\n\n" % json.dumps({"choices": choices, **rest}).encode()


def events_of(text: str, size: int) -> bytes:
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    return b"".join(event_of({"content": piece}) for piece in pieces) + event_of({}, "stop") + b"data: [DONE]\n\n"


def in_pieces(body: bytes, size: int) -> Sends:
    """Send the body in HTTP chunks of `size` bytes, one at a time."""

    def send(connection: socket.socket, over: Event) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(EVENTS + b"Connection: close\r\n" + CHUNKED)
        for at in range(0, len(body), size):
            connection.sendall(chunk(body[at : at + size]))
        connection.sendall(b"0\r\n\r\n")

    return send


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_characters_may_arrive_in_pieces(size: int, serve: Callable[[Sends], Endpoint]) -> None:
    """UTF-8 may be cut anywhere: within letters, emoji, and line ends."""
    text = "Füchse fressen 🐟 und 漢字 \u2028 e\u0301."
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]
    event = json.dumps({"choices": choices}, ensure_ascii=False).replace("\u2028", "\\u2028")
    *given, reply = stream(serve(in_pieces(f"data: {event}\r\n\r\n".encode(), size)).url)
    assert "".join(given) == reply.text == text


USAGE = {"prompt_tokens": 7, "completion_tokens": 3}
BILL = event_of({}, usage=USAGE)
WORDS = [event_of({"content": "Cats "}), event_of({"content": "eat fish."}, "stop")]
# Each stream says "Cats eat fish."
STREAMS = {
    "usage twice": [WORDS[0], event_of({}, usage={**USAGE, "completion_tokens": 1}), WORDS[1], BILL],
    "usage in the middle": [WORDS[0], BILL, *WORDS[1:]],
    "a bill without choices": [*WORDS, b'data: {"choices": null, "usage": %s}\n\n' % json.dumps(USAGE).encode()],
    "a wrong bill after a right one": [*WORDS, BILL, event_of({}, usage={"prompt_tokens": -1})],
    "no end": WORDS,
    "keep-alive": [b": ping\n\n", WORDS[0], b":\n\n: " + b"x" * 9999 + b"\n\n", WORDS[1], b": bye\n\n"],
    "nulls": [event_of(None), event_of(dict.fromkeys(("content", "role", "tool_calls"))), *WORDS, event_of(None)],
    "no choices before": [b'data: {"choices": [], "prompt_filter_results": []}\n\n', *WORDS],
    "thoughts apart": [event_of({"reasoning_content": "They want fish."}), *WORDS],
    "thoughts as an object": [event_of({"reasoning": {"a": 1}}), *WORDS],
    "two ends": [*WORDS, event_of({}, "length")],
    "two ends the other way": [WORDS[0], event_of({}, "length"), WORDS[1]],
    "filtered": [WORDS[0], event_of({"content": "eat fish."}, "content_filter")],
    "a refusal": [event_of({"refusal": "Cats "}), event_of({"refusal": "eat fish."}, "stop")],
    "with a tool call": [event_of({"tool_calls": [{"index": 0, "function": {"name": "f"}}]}), *WORDS],
    "other choices": [
        b'data: {"choices": [{"index": 0, "delta": {"content": "Cats "}}, {"index": 1, "delta": {"content": "No"}}]}\n\n',
        WORDS[1],
    ],
}
CUT = ("two ends", "two ends the other way", "filtered")


@pytest.mark.parametrize("name", STREAMS)
def test_forms_of_streams(name: str, serve: Callable[[Sends], Endpoint]) -> None:
    events = STREAMS[name]
    *given, reply = stream(serve(in_pieces(b"".join(events), 1000)).url)
    assert "".join(given) == reply.text == "Cats eat fish."
    assert reply.complete is (name not in CUT)
    if any(b"usage" in event for event in events):
        assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.estimated) == (7, 3, False)
    else:
        assert reply.usage.estimated and reply.usage.output_tokens >= WRITTEN
    if name == "thoughts apart":
        assert reply.usage.output_tokens > WRITTEN, "thoughts count as output tokens"


@pytest.mark.parametrize(
    ("message", "text", "whole"),
    [
        (chat_answer(None, refusal="I will not."), "I will not.", True),
        (chat_answer("Fish", "content_filter"), "Fish", False),
        (chat_answer("Fish", None, tool_calls=[{"id": "1", "function": {"name": "f"}}]), "Fish", True),
        (chat_answer("<think>a</think>Fish", "stop", reasoning_content="They want it."), "Fish", True),
        (chat_answer(None, "length", reasoning_content="They want it."), "", False),
    ],
)
def test_forms_of_answers(message: bytes, text: str, whole: bool, serve: Callable[[Sends], Endpoint]) -> None:
    reply = complete(serve(answers("200 OK", message, JSON_TYPE)).url)
    assert (reply.text, reply.complete) == (text, whole)


def test_answer_with_only_a_tool_call_is_an_error(serve: Callable[[Sends], Endpoint]) -> None:
    calls = [{"index": 0, "id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    whole = serve(answers("200 OK", chat_answer(None, tool_calls=calls), JSON_TYPE))
    assert "a tool" in fails("complete", whole).message
    body = event_of({"tool_calls": calls}) + event_of({}, "tool_calls")
    assert "a tool" in fails("stream", serve(in_pieces(body, 1000))).message


def test_error_in_a_200_response_is_quoted(serve: Callable[[Sends], Endpoint]) -> None:
    body = json.dumps({"error": {"message": f"no credits for {KEY}"}}).encode()
    error = fails("complete", serve(answers("200 OK", body, JSON_TYPE)))
    assert "no credits for ***" in error.message


# -- timeouts


@every_call
def test_timeout_and_retries_come_from_the_environment(
    name: str, serve: Callable[[Sends], Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERGEWISE_RETRIES", "1")
    endpoint = serve(answers("503 Busy", b"{}", JSON_TYPE))
    with pytest.raises(ModelError):
        CALLS[name](endpoint.url, None)
    assert endpoint.requests == 2
    monkeypatch.setenv("MERGEWISE_RETRIES", "0")
    monkeypatch.setenv("MERGEWISE_TIMEOUT", "0.4")
    endpoint = serve(lambda connection, over: ignore(over.wait()))
    with pytest.raises(ModelError) as caught:
        CALLS[name](endpoint.url, None)
    assert "not complete after" not in caught.value.message, "the ceiling of answers ended it, not the timeout"
    for variable, wrong in (("MERGEWISE_TIMEOUT", "soon"), ("MERGEWISE_TIMEOUT", "0"), ("MERGEWISE_RETRIES", "-1")):
        monkeypatch.setenv("MERGEWISE_TIMEOUT", "1")
        monkeypatch.setenv(variable, wrong)
        with pytest.raises(UsageError, match=variable):
            CALLS[name](endpoint.url, None)


@every_call
def test_silent_endpoint_is_reported(
    name: str, serve: Callable[[Sends], Endpoint], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One notice for all waiting calls, and another after twice the time."""
    monkeypatch.setattr("mergewise.models.clients.SILENT", 0.1)
    monkeypatch.setattr("mergewise.models.clients._last_notice", -1.0)
    monkeypatch.setattr("mergewise.models.clients.LONGEST", 0.35)
    with caplog.at_level(logging.INFO, "mergewise.waiting"):
        fails(name, serve(lambda connection, over: ignore(over.wait())))
    told = [record.getMessage() for record in caplog.records if record.name == "mergewise.waiting"]
    assert 1 <= len(told) <= 2 and all(" silent for " in line for line in told)
