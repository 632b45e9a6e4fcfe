"""Clients of endpoints: one for each event loop, whose answers are bounded in megabytes, unpacked, and in seconds.

An endpoint may send without end, a byte every now and then, or a small body that unpacks to a huge one. A time limit between
two bytes, which HTTP clients have, bounds none of these.
"""

from __future__ import annotations

import asyncio
import logging
import os
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from mergewise.errors import ModelError
from mergewise.ranges import RETRYING, SECONDS, number, whole
from mergewise.redaction import masked

# the signs of life while an endpoint is silent; of its own, so that they can be heard without the rest
log = logging.getLogger("mergewise.waiting")

Response = TypeVar("Response")
Client = TypeVar("Client")

LONGEST = 1800.0
"""Seconds that one answer may take, with everything that is tried again."""
ANSWER_MB, EMBEDDINGS_MB = 64, 256
"""Megabytes that a completion or scores may have, and embeddings."""
SILENT = 10.0
"""Seconds after which it is said that an endpoint is silent."""

# when the last sign of life was given, by the clock of event loops
_last_notice = -SILENT
# characters of what an endpoint says
_SAID = 300
_MB = 1_000_000
_PIECE = 1 << 18
_ANY_ZIP = 47  # zlib or gzip, by its header
_HINT = "it is no answer that was asked for: check the endpoint"


def timeout_of(given: float | None, default: float) -> float:
    """Seconds without a byte from an endpoint that are waited for: the given ones, else MERGEWISE_TIMEOUT, else the default."""
    if given is not None:
        return number("the time to wait is", given, float, SECONDS)
    return number("MERGEWISE_TIMEOUT is", os.environ.get("MERGEWISE_TIMEOUT") or default, float, SECONDS)


def retries_of(given: int | None, default: int) -> int:
    """How often a request is tried again: as given, else MERGEWISE_RETRIES, else the default."""
    if given is not None:
        return whole("the number of retries is", given, RETRYING)
    return int(number("MERGEWISE_RETRIES is", os.environ.get("MERGEWISE_RETRIES") or default, int, RETRYING))


class PerLoop(Generic[Client]):
    """A client for each event loop, made when it is first asked for: connections belong to the loop that opened them."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._clients)

    def here(self) -> Client:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = self._make()
        return self._clients[loop]

    def pop(self) -> Any:
        """The client of the running loop, which is forgotten; None where there is none."""
        return self._clients.pop(asyncio.get_running_loop(), None)

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        client = self.pop()
        if client is not None:
            close = getattr(client, "aclose", None) or client.close
            await close()


async def in_time(spec: str, answer: Awaitable[Response], until: float | None = None) -> Response:
    """Await an answer. Raises ModelError if it is not there `until` a time of the loop, or after `LONGEST` seconds."""
    try:
        async with asyncio.timeout_at(_longest() if until is None else until) as limit:
            with _signs_of_life(spec):
                return await answer
    except TimeoutError:
        if not limit.expired():
            raise
        message = f"{spec} was still answering after {LONGEST:g} seconds"
        raise ModelError(message, "ask for less, or check the endpoint") from None


async def each_in_time(spec: str, chunks: AsyncIterable[Response]) -> AsyncIterator[Response]:
    """Yield the chunks of an answer. Raises ModelError if they have not all come after `LONGEST` seconds."""
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
def _signs_of_life(spec: str) -> Iterator[None]:
    """Logs that the endpoint is silent, after `SILENT` seconds and each time that it has been silent twice as long.

    Of many calls at once, one speaks for all.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    due = loop.call_later(SILENT, lambda: tell())

    def tell() -> None:
        nonlocal due
        global _last_notice
        silent = loop.time() - began
        if loop.time() - _last_notice >= SILENT / 2:
            _last_notice = loop.time()
            log.info("%s has been silent for %.0f seconds", spec, silent)
        due = loop.call_later(silent, tell)

    try:
        yield
    finally:
        due.cancel()


def quoted_message(text: str) -> str:
    """What an endpoint says, as an error quotes it: on one line, cut, without the keys that it was sent."""
    said = " ".join(masked(text)[: 100 * _SAID].split())
    return said if len(said) <= _SAID else said[:_SAID] + " ..."


def size_limits(megabytes: int) -> dict[str, Any]:
    """Options of an asynchronous HTTP client whose answers stay below this size."""

    async def bound(response: Any) -> None:
        packed = response.headers.pop("content-encoding", "identity").strip().lower()
        if packed not in ("", "identity", "gzip", "x-gzip"):
            named = masked(packed)[:40]
            raise ModelError(f"the endpoint packed its answer as {named!r}, which it was not asked to", _HINT)
        response.stream = _stream_kind(type(response).__module__)(response.stream, "gzip" in packed, megabytes * _MB)

    return {"headers": {"Accept-Encoding": "gzip"}, "event_hooks": {"response": [bound]}}


@cache
def _stream_kind(module: str) -> type[Any]:
    """The class of a bounded stream, for the HTTP library that the client is of (`httpx`, `httpx2`)."""
    base = import_module(module.partition(".")[0]).AsyncByteStream
    return type("BoundedStream", (base,), {"__init__": _take, "__aiter__": _pieces, "aclose": _close})


def _take(self: Any, stream: Any, is_packed: bool, most: int) -> None:
    self.stream, self.is_packed, self.most = stream, is_packed, most


async def _pieces(self: Any) -> AsyncIterator[bytes]:
    left = self.most
    async for piece in _unpacked(self.stream) if self.is_packed else self.stream:
        left -= len(piece)
        if left < 0:
            raise ModelError(f"the endpoint sent more than {self.most // _MB} MB for one answer", _HINT)
        yield piece


async def _close(self: Any) -> None:
    await self.stream.aclose()


async def _unpacked(stream: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    unpacker = zlib.decompressobj(_ANY_ZIP)
    async for packed in stream:
        while packed and not unpacker.eof:
            try:
                piece = unpacker.decompress(packed, _PIECE)
            except zlib.error as error:
                raise ModelError(f"the endpoint packed its answer wrongly: {error}", _HINT) from error
            packed = unpacker.unconsumed_tail
            yield piece
