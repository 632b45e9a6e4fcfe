"""A scripted chat model behind an OpenAI-compatible endpoint on loopback, for tests and benchmarks.

with ChatServer(["first answer", Turn(status=429), "second answer"]) as server:
    chat = OpenAIChat("any", base_url=server.base_url)
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

from mergewise.models.scripted import ChatRequest, Script, Transcript, Turn, pieces, shorten, usage_of
from mergewise.models.tokens import count_tokens
from mergewise.types import Message


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


def _bill(messages: Sequence[Message], text: str) -> dict[str, int]:
    usage = usage_of(messages, text)
    total = usage.input_tokens + usage.output_tokens
    return {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens, "total_tokens": total}


def _envelope(kind: str) -> dict[str, Any]:
    return {"id": "scripted", "object": kind, "created": 0, "model": "scripted"}


def _reason(complete: bool) -> str:
    return "stop" if complete else "length"
