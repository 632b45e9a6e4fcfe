"""Clients of endpoints: one per event loop, with limits on the time and the decompressed size of an answer.

An endpoint may send without end, send one byte at a time, or send a small body that decompresses to a huge one. The read timeout
of HTTP clients prevents none of these.
"""

from __future__ import annotations

import asyncio
import logging
import os
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from mergewise.errors import InputRefused, ModelError
from mergewise.ranges import Range, number
from mergewise.redaction import masked

# a separate logger for notices about silent endpoints, so that a program can show these alone
log = logging.getLogger("mergewise.waiting")

Response = TypeVar("Response")
Client = TypeVar("Client")
Number = TypeVar("Number", int, float)

LONGEST = 1800.0
"""Maximum of seconds for an answer, including retries."""
ANSWER_MB, EMBEDDINGS_MB = 64, 256
"""Maximum of megabytes for a completion or scores, and for embeddings."""
REFUSED = frozenset({400, 413, 422})
"""HTTP statuses of a refused input."""
SILENT = 10.0
"""Seconds of silence before the first notice."""

# time of the last notice, by the clock of event loops
_last_notice = -SILENT
# maximum of characters of a quoted message
_QUOTED = 300
_MB = 1_000_000
_PIECE = 1 << 18
_END = 64
# zlib or gzip, by the header
_ANY_ZIP = 47
_HINT = "check the endpoint"


def setting(name: str, given: object, default: Number, limits: Range) -> Number:
    """Return a number of an endpoint: the given one, else that of the variable MERGEWISE_NAME, else the default."""
    variable = f"MERGEWISE_{name.upper()}"
    if given is None:
        name, given = variable, os.environ.get(variable) or default
    kind = type(default)
    return kind(number(name, given, kind, limits))


class Batches:
    """Texts in batches for an endpoint. A batch that the endpoint refuses is halved, and the smaller size is kept.

    `size` defaults to MERGEWISE_BATCH_TEXTS, else to `default`.
    """

    def __init__(self, size: int | None, default: int) -> None:
        self.size = setting("batch_texts", size, default, Range(1, 100_000))

    def each(self, texts: Sequence[str], ask: Callable[[Sequence[str]], Response]) -> Iterator[Response]:
        """Yield the answer for each batch, in order. Raises InputRefused if a single text is refused."""
        size, start = self.size, 0
        while start < len(texts):
            batch = texts[start : start + self.size]
            try:
                yield ask(batch)
                start += len(batch)
            except InputRefused:
                self.size = len(batch) // 2 or size
                if len(batch) == 1:
                    raise


class PerLoop(Generic[Client]):
    """A client per event loop, made on first use, because connections belong to the loop that opened them."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()

    def here(self) -> Client:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = self._make()
        return self._clients[loop]

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        client: Any = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()


async def in_time(spec: str, answer: Awaitable[Response], until: float | None = None) -> Response:
    """Await an answer. Raises ModelError if it takes longer than `until`, a time of the loop, or than `LONGEST` seconds."""
    try:
        async with asyncio.timeout_at(_longest() if until is None else until) as limit:
            with _silence_notices(spec):
                return await answer
    except TimeoutError:
        if not limit.expired():
            raise
        message = f"answer of {spec} not complete after {LONGEST:g} seconds"
        raise ModelError(message, "ask for a shorter answer, or check the endpoint") from None


async def each_in_time(spec: str, chunks: AsyncIterable[Response]) -> AsyncIterator[Response]:
    """Yield the chunks of an answer. Raises ModelError if the answer takes longer than `LONGEST` seconds."""
    until = _longest()
    iterator = aiter(chunks)
    while True:
        try:
            yield await in_time(spec, anext(iterator), until)
        except StopAsyncIteration:
            return


def _longest() -> float:
    return asyncio.get_running_loop().time() + LONGEST


@contextmanager
def _silence_notices(spec: str) -> Iterator[None]:
    """Log that the endpoint is silent, after `SILENT` seconds and each time that the silence has doubled.

    Of many concurrent calls only one logs.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    due = loop.call_later(SILENT, lambda: notify())

    def notify() -> None:
        nonlocal due
        global _last_notice
        silent = loop.time() - began
        if loop.time() - _last_notice >= SILENT / 2:
            _last_notice = loop.time()
            log.info("%s silent for %.0f seconds", spec, silent)
        due = loop.call_later(silent, notify)

    try:
        yield
    finally:
        due.cancel()


def quoted_message(text: str) -> str:
    """Return an endpoint's message for an error: on one line, shortened, with keys masked."""
    line = " ".join(masked(text)[: 100 * _QUOTED].split())
    return line if len(line) <= _QUOTED else line[:_QUOTED] + " ..."


def size_limits(megabytes: int) -> dict[str, Any]:
    """Return options of an asynchronous HTTP client that limit the size of answers."""

    async def limit_size(response: Any) -> None:
        packed = response.headers.pop("content-encoding", "identity").strip().lower()
        if packed not in ("", "identity", "gzip", "x-gzip"):
            named = masked(packed)[:40]
            raise ModelError(f"unexpected content encoding of the endpoint: {named!r} (expected gzip or none)", _HINT)
        response.stream = _stream_kind(type(response).__module__)(response.stream, "gzip" in packed, megabytes * _MB)

    return {"headers": {"Accept-Encoding": "gzip"}, "event_hooks": {"response": [limit_size]}}


@cache
def _stream_kind(module: str) -> type[Any]:
    """Return the class of a bounded stream for the client's HTTP library (`httpx` or `httpx2`)."""

    class BoundedStream(import_module(module.partition(".")[0]).AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, is_gzip: bool, most: int) -> None:
            self.stream, self.is_gzip, self.most = stream, is_gzip, most
            # the last bytes of the answer so far
            self.end = b""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = self.most
            async for piece in _decompress(self.stream) if self.is_gzip else self.stream:
                left -= len(piece)
                if left < 0:
                    raise ModelError(
                        f"answer of the endpoint too large (expected at most {self.most // _MB} MB)", _HINT
                    )
                self.end = (self.end + piece)[-_END:]
                yield piece

        async def aclose(self) -> None:
            await self.stream.aclose()

    return BoundedStream


async def _decompress(stream: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    decompressor = zlib.decompressobj(_ANY_ZIP)
    async for compressed in stream:
        while compressed and not decompressor.eof:
            try:
                piece = decompressor.decompress(compressed, _PIECE)
            except zlib.error as error:
                raise ModelError(f"invalid compression of the endpoint's answer: {error}", _HINT) from error
            compressed = decompressor.unconsumed_tail
            yield piece
