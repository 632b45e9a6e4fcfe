"""Answers that take their time: events as they come, and work that ends when its client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from fastapi import Request
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse
from starlette.types import Message, Receive, Scope, Send

from mergewise.server.problems import HTTPProblem, log_failure, problem_of

Result = TypeVar("Result")

PING_SECONDS = 15.0
STALLED_SECONDS = 60.0
"""How long a client may leave unread what is sent."""
DRAINED = HTTPProblem(503, "draining", "the server is ending", "ask again", retry_after=1.0)


async def until_disconnect(request: Request, work: Awaitable[Result]) -> Result:
    """The result of the work, which is cancelled once the client is gone. The body must have been read."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request.receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise HTTPProblem(408, "gone", "the client went away")
        return task.result()
    finally:
        await _cancelled(task, gone)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancelled(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Stalled(Exception):
    """The client reads no more."""


async def _send_in_time(send: Send, message: Message) -> None:
    try:
        async with asyncio.timeout(STALLED_SECONDS):
            await send(message)
    except TimeoutError:
        raise _Stalled from None


class EventStream(EventSourceResponse):
    """Bytes of events as they come, with a sign of life where none does for a while.

    An error becomes the event that `failure` makes of it. When the client goes away, the generator is closed; when the server
    ends, it is closed too, and the client is told.
    """

    def __init__(
        self, events: AsyncGenerator[bytes, None], failure: Callable[[HTTPProblem], bytes], ending: asyncio.Event
    ) -> None:
        super().__init__(events, headers={"X-Accel-Buffering": "no"})
        self._events, self._failure, self._ending = events, failure, ending

    @classmethod
    async def begun(
        cls,
        request: Request,
        events: AsyncGenerator[bytes, None],
        failure: Callable[[HTTPProblem], bytes],
        ending: asyncio.Event,
    ) -> EventStream:
        """The stream, once its first event is there: what is raised before that is an ordinary answer of its own status."""
        try:
            first = await until_disconnect(request, anext(events, b""))
        except BaseException:
            await events.aclose()
            raise
        return cls(_behind(first, events), failure, ending)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                # the connection of whom reads no more is closed, since the answer has no end
                with suppress(_Stalled):
                    sending.result()
        finally:
            await _cancelled(sending, gone)
            await self._events.aclose()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for piece in self._pieces():
                await _send_in_time(send, {"type": "http.response.body", "body": piece, "more_body": True})
        except _Stalled:
            raise
        except Exception as error:
            problem = problem_of(error)
            if problem.status >= 500 and error is not DRAINED:
                log_failure(error, problem, "stream")
            message = {"type": "http.response.body", "body": self._failure(problem), "more_body": True}
            await _send_in_time(send, message)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        ending = asyncio.ensure_future(self._ending.wait())
        coming: asyncio.Future[bytes] | None = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(self._events))
                await asyncio.wait((coming, ending), timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if coming.done():
                    try:
                        piece = coming.result()
                    except StopAsyncIteration:
                        return
                    coming = None
                    yield piece
                elif ending.done():
                    raise DRAINED
                else:
                    yield KEEPALIVE_COMMENT
        finally:
            await _cancelled(ending, *([] if coming is None else [coming]))


async def _behind(first: bytes, events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The events, with the first one that was taken already. Closing this closes them."""
    try:
        yield first
        async for event in events:
            yield event
    finally:
        with suppress(RuntimeError):
            await events.aclose()
