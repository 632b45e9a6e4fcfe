"""Object store for tests: moto's server on loopback, behind a proxy that counts requests and injects faults (`FAULTS`).

The proxy lets one conditional put through at a time, since moto checks and puts in two steps.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread

KEY = "testing-secret-4711"
_STATUS = {
    "503": (503, "ServiceUnavailable"),
    "SlowDown": (503, "SlowDown"),
    "409": (409, "ConditionalRequestConflict"),
    "403": (403, "AccessDenied"),
}
FAULTS = (*_STATUS, "cut before", "cut after", "truncated", "unconditional")


@dataclass(frozen=True)
class Request:
    """A request. `number` counts from 1. `key` is the key of the object, or the query of a listing."""

    number: int
    method: str
    key: str


class Proxy:
    """A proxy. `fault` chooses the fault of each request, or None. `delay` is the time in seconds before each request."""

    def __init__(self, server: int) -> None:
        self.requests: list[Request] = []
        self.fault: Callable[[Request], str | None] = lambda request: None
        self.delay = 0.0
        self.port = 0
        self._server = server
        self._loop = asyncio.new_event_loop()
        self._one = asyncio.Lock()
        self._listening = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = self._listening.sockets[0].getsockname()[1]
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    @property
    def storage(self) -> dict[str, str]:
        # few retries and a short timeout for both clients
        patience = {"client_max_retries": "1", "client_retry_timeout": "5"}
        keys = {"aws_access_key_id": "testing", "aws_secret_access_key": KEY, "region": "us-east-1"}
        return {**keys, **patience, "endpoint": f"http://127.0.0.1:{self.port}", "allow_http": "true"}

    def reset(self) -> None:
        self.requests, self.fault, self.delay = [], lambda request: None, 0.0

    @contextmanager
    def counting(self) -> Iterator[list[Request]]:
        """Yield the list of requests that arrive within the block."""
        first, seen = len(self.requests), list[Request]()
        yield seen
        seen += self.requests[first:]

    def close(self) -> None:
        async def stop() -> None:
            self._listening.close()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(_length(head))
                answer = await self._answer(head, body)
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
                if len(answer) < _promised(answer):
                    break
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, head: bytes, body: bytes) -> bytes | None:
        """Return the answer, or None to cut the connection."""
        method, target = head.split(b" ", 2)[:2]
        request = Request(len(self.requests) + 1, method.decode(), target.decode().split("/", 2)[-1])
        self.requests.append(request)
        fault = self.fault(request)
        await asyncio.sleep(self.delay)
        if fault == "cut before":
            return None
        if fault in _STATUS:
            status, said = _STATUS[fault]
            content = f"<Error><Code>{said}</Code></Error>".encode()
            return f"HTTP/1.1 {status} Fault\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content
        if fault == "unconditional":
            head = re.sub(rb"(?i)\r\nif-[^\r]*", b"", head)
        if b"\r\nif-" in head.lower() and method == b"PUT":
            async with self._one:
                answer = await self._pass_on(head, body)
        else:
            answer = await self._pass_on(head, body)
        if fault == "cut after":
            return None
        return answer[: len(answer) - max(1, _length(answer) // 2)] if fault == "truncated" else answer

    async def _pass_on(self, head: bytes, body: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server)
        writer.write(head + body)
        answer = await reader.read()
        writer.close()
        # moto closes each connection, but the proxy keeps its own open
        return answer.replace(b"\r\nConnection: close", b"", 1)


def _length(message: bytes) -> int:
    for line in message.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def _promised(answer: bytes) -> int:
    """Return the length of the answer that its head declares."""
    head = answer.partition(b"\r\n\r\n")[0]
    return len(head) + 4 + (0 if b" 304" in head[:16] else _length(answer)) if answer.count(b"\r\n\r\n") else 0


@contextmanager
def object_store() -> Iterator[Proxy]:
    """Start a bucket "indexes" behind a proxy."""
    process = subprocess.Popen(
        [sys.executable, "-c", _MOTO], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        _create_bucket(port)
        proxy = Proxy(port)
        try:
            yield proxy
        finally:
            proxy.close()
    finally:
        process.kill()
        process.communicate()


# ends with its parent process, whose end of the pipe then closes
_MOTO = """
import sys
from threading import Thread
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
"""


def _create_bucket(port: int) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/indexes", data=b"", method="PUT")
    for _ in range(100):
        try:
            urllib.request.urlopen(request, timeout=10).close()
            return
        except urllib.error.URLError:
            time.sleep(0.05)
    raise AssertionError("the object store did not start")
