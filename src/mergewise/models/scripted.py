"""A chat model that follows a script, for tests and trials: in the process, or as an endpoint on loopback.

    with ChatServer(["first answer", Turn(status=429), "second answer"]) as server:
        chat = OpenAIChat("any", base_url=server.base_url)

A script is a list of answers used in turn, the last one repeatedly, or a function from the messages to an answer. An answer is a
text, or a `Turn` that is slow, fails, breaks off or is invalid. All requests are recorded.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from threading import Lock, Thread
from typing import Any, Literal, Self, TypeAlias

from mergewise.errors import ModelError
from mergewise.models.tokens import count_tokens, token_offsets
from mergewise.types import Message, Reply, Usage

Fault = Literal["none", "disconnect", "truncate", "nonsense"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of a script.

    Attributes:
        text: the text of the answer.
        status: the HTTP status. Any status except 200 is an error.
        headers: headers of the answer, such as Retry-After.
        fault: "disconnect" closes the connection without an answer, "truncate" closes it after half of the answer, and "nonsense"
            sends status 200 and an invalid completion.
        pause: seconds before the answer.
        pause_per_token: seconds for each token of the answer.
        together: number of concurrent calls that the answer waits for, up to five seconds.
    """

    text: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: Fault = "none"
    pause: float = 0.0
    pause_per_token: float = 0.0
    together: int = 1


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A recorded request. `options` holds the rest of its body."""

    messages: tuple[Message, ...]
    max_tokens: int
    schema: Mapping[str, object] | None = None
    streamed: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All messages as one text."""
        return "\n\n".join(message.text for message in self.messages)


COMPANY_SECONDS = 5.0

Script: TypeAlias = Sequence[str | Turn] | Callable[[Sequence[Message]], str | Turn]


class Transcript:
    """The progress of a script: its next turns, and the recorded requests in order of arrival."""

    def __init__(self, script: Script) -> None:
        self.asked: list[ChatRequest] = []
        self.most_at_once = 0
        self._script = script
        self._under_way = 0
        self._lock = Lock()

    @contextmanager
    def turn(self, asked: ChatRequest) -> Iterator[Turn]:
        """Record a request and provide its turn. The request is in progress until the block ends."""
        with self._lock:
            script = self._script
            given = script(asked.messages) if callable(script) else script[min(len(self.asked), len(script) - 1)]
            turn = Turn(given) if isinstance(given, str) else given
            self.asked.append(asked)
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            yield turn
        finally:
            with self._lock:
                self._under_way -= 1

    def waits(self, turn: Turn, since: float) -> bool:
        """Check whether the answer to a request that arrived at `since` still waits for other calls."""
        return self.most_at_once < turn.together and time.monotonic() < since + COMPANY_SECONDS


class ScriptedChat:
    """A `ChatModel` in the process that follows a script. `asked` lists the recorded requests.

    Usage is counted by the vocabulary that ships with the package.

    Args:
        script: answers used in turn, the last one repeatedly, or a function from the messages to an answer.
        window: window of the model in tokens.
        spec: name of the model.
    """

    def __init__(self, script: Script, *, window: int = 8192, spec: str = "scripted") -> None:
        self.spec = self.identity = spec
        self.window = window
        self.transcript = Transcript(script)
        self.asked = self.transcript.asked

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Mapping[str, object] | None = None
    ) -> Reply:
        """Return the next answer of the script. Raises ModelError if its turn fails."""
        return await self._answer(messages, max_tokens, schema, streamed=False)

    async def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        """Yield the next answer of the script in pieces, then the whole reply. Raises ModelError if its turn fails."""
        reply = await self._answer(messages, max_tokens, None, streamed=True)
        for piece in pieces(reply.text):
            yield piece
        yield reply

    async def _answer(
        self, messages: Sequence[Message], max_tokens: int, schema: Mapping[str, object] | None, *, streamed: bool
    ) -> Reply:
        with self.transcript.turn(ChatRequest(tuple(messages), max_tokens, schema, streamed)) as turn:
            text, complete = shorten(turn.text, max_tokens)
            since = time.monotonic()
            while self.transcript.waits(turn, since):
                await asyncio.sleep(0.002)
            await asyncio.sleep(turn.pause + turn.pause_per_token * count_tokens([text])[0])
        if turn.status != 200 or turn.fault != "none":
            raise ModelError(f"{self.spec} failed as scripted", "check the script")
        return Reply(text, usage_of(messages, text), complete)


class LoopbackServer(ThreadingHTTPServer):
    """An HTTP server on a free port of loopback, in a separate thread. A context manager."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._thread = Thread(target=self.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class ChatServer(LoopbackServer):
    """An OpenAI-compatible chat endpoint on loopback that follows a script. A context manager.

    Attributes:
        base_url: address of the endpoint, ending in /v1.
        asked: requests that reached the script, including those with a failing turn, but not those with a refused option.
        requests: number of all requests, including refused ones.
        lost: number of clients that disconnected before their answer was written.

    Args:
        script: answers used in turn, the last one repeatedly, or a function from the messages to an answer.
        refuses: options that are refused with an error that names them.
        refusal: HTTP status of such a refusal.
    """

    block_on_close = False

    def __init__(self, script: Script, *, refuses: Sequence[str] = (), refusal: int = 400) -> None:
        super().__init__(_Handler)
        self.transcript = Transcript(script)
        self.asked = self.transcript.asked
        self.refuses = tuple(refuses)
        self.refusal = refusal
        self.requests = 0
        self.lost = 0
        self.base_url = f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def most_at_once(self) -> int:
        """The largest number of concurrent requests so far."""
        return self.transcript.most_at_once

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Count the clients that disconnect."""
        self.lost += 1


class _Handler(BaseHTTPRequestHandler):
    server: ChatServer
    protocol_version = "HTTP/1.1"
    # seconds that an idle connection stays open
    timeout = 10

    def do_POST(self) -> None:
        self.server.requests += 1
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/chat/completions":
            self._chat(body)
        else:
            self._send_error(404, f"unknown path: {self.path}", {})

    def _chat(self, body: dict[str, Any]) -> None:
        form = body.get("response_format") or {}
        for option in self.server.refuses:
            if option in body or option == form.get("type"):
                self._send_error(self.server.refusal, f"Unsupported parameter: '{option}' is not supported", {})
                return
        messages = tuple(Message(m["role"], m["content"]) for m in body.pop("messages"))
        streamed = bool(body.get("stream"))
        limit = int(body.get("max_tokens") or body.get("max_completion_tokens") or 1024)
        asked = ChatRequest(messages, limit, (form.get("json_schema") or {}).get("schema"), streamed, body)
        with self.server.transcript.turn(asked) as turn:
            text, complete = shorten(turn.text, asked.max_tokens)
            since = time.monotonic()
            while self.server.transcript.waits(turn, since):
                time.sleep(0.002)
            time.sleep(turn.pause)
            fails = turn.status != 200 or turn.fault in ("disconnect", "nonsense")
            if streamed and not fails:
                self._stream(turn, text)
            elif not fails:
                time.sleep(turn.pause_per_token * count_tokens([text])[0])
        # The rest must be quick, so that `most_at_once` does not count a client's next request together with this one.
        if turn.fault == "disconnect":
            self.close_connection = True
        elif turn.fault == "nonsense":
            self._send(200, b"<html>" + turn.text.encode() + b"</html>", {"Content-Type": "text/html"})
        elif fails:
            self._send_error(turn.status, "failed as scripted", turn.headers)
        elif streamed and turn.fault != "truncate":
            self._event(choices=[{"index": 0, "delta": {}, "finish_reason": _reason(complete)}])
            if (asked.options.get("stream_options") or {}).get("include_usage"):
                self._event(choices=[], usage=_bill(asked.messages, text))
            self._chunk(b"data: [DONE]\n\n")
            self._chunk(b"")
        elif not streamed:
            self._complete(turn, asked, text, complete)

    def _complete(self, turn: Turn, asked: ChatRequest, text: str, complete: bool) -> None:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": _reason(complete)}
        answer = {**_envelope("chat.completion"), "choices": [choice], "usage": _bill(asked.messages, text)}
        self._send(200, json.dumps(answer).encode(), turn.headers, truncate=turn.fault == "truncate")

    def _stream(self, turn: Turn, text: str) -> None:
        shown = list(pieces(text))
        if turn.fault == "truncate":
            shown = shown[: len(shown) // 2]
            self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in shown:
            self._event(choices=[{"index": 0, "delta": {"content": piece}, "finish_reason": None}])
            time.sleep(turn.pause_per_token)

    def _event(self, **rest: object) -> None:
        self._chunk(b"data: " + json.dumps({**_envelope("chat.completion.chunk"), **rest}).encode() + b"\n\n")

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.flush()

    def _send_error(self, status: int, message: str, headers: Mapping[str, str]) -> None:
        self._send(status, json.dumps({"error": {"message": message}}).encode(), headers)

    def _send(self, status: int, content: bytes, headers: Mapping[str, str], *, truncate: bool = False) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if truncate else content)
        self.close_connection = self.close_connection or truncate

    def log_message(self, *args: object) -> None:
        pass


def pieces(text: str) -> Iterator[str]:
    """Split a text into tokens, as a model streams it."""
    starts = [0, *(int(start) for start, _ in token_offsets(text)[1:]), len(text)]
    return (text[start:end] for start, end in pairwise(starts) if start < end)


def shorten(text: str, max_tokens: int) -> tuple[str, bool]:
    """Return the text up to the limit of tokens, and whether it is complete."""
    shown = list(pieces(text))
    return "".join(shown[:max_tokens]), len(shown) <= max_tokens


def usage_of(messages: Sequence[Message], text: str) -> Usage:
    *asked, answered = count_tokens([*(message.text for message in messages), text])
    return Usage(1, sum(asked), answered)


def _bill(messages: Sequence[Message], text: str) -> dict[str, int]:
    usage = usage_of(messages, text)
    total = usage.input_tokens + usage.output_tokens
    return {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens, "total_tokens": total}


def _envelope(kind: str) -> dict[str, Any]:
    return {"id": "scripted", "object": kind, "created": 0, "model": "scripted"}


def _reason(complete: bool) -> str:
    return "stop" if complete else "length"
