"""Long-running responses: event streams, and work that is cancelled when its client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any

from fastapi import Request
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse
from starlette.types import Message, Receive, Scope, Send

from mergewise.server.problems import HTTPProblem, log_failure, problem_of
from mergewise.server.shared_work import Result

PING_SECONDS = 15.0
TOKEN_SECONDS = 2.0
"""Seconds between two checks that the token of a stream is still valid."""
STALLED_SECONDS = 60.0
"""Seconds for which a client may leave sent data unread."""
DRAINED = HTTPProblem(503, "draining", "server shutting down", "ask again", retry_after=1.0)


class _Gone(HTTPProblem):
    """The client has disconnected."""


async def until_disconnect(request: Request, work: Awaitable[Result]) -> Result:
    """Return the result of the work. Cancel the work if the client disconnects. The body must have been read."""
    task = asyncio.ensure_future(work)

    async def disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    gone = asyncio.ensure_future(disconnect())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise _Gone(408, "gone", "client disconnected")
        return task.result()
    finally:
        await cancelled(task, gone)


async def cancelled(*tasks: asyncio.Future[Any]) -> None:
    """Cancel the tasks and wait for their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Stalled(Exception):
    """The client has stopped reading."""


async def _send_in_time(send: Send, message: Message) -> None:
    try:
        async with asyncio.timeout(STALLED_SECONDS):
            await send(message)
    except TimeoutError:
        raise _Stalled from None


class EventStream(EventSourceResponse):
    """A stream of encoded events, with keep-alive comments during pauses.

    `failure` encodes an error as the last event. The generator is closed when the client disconnects, and when the server shuts
    down or the token expires; then the client gets an error event.
    """

    def __init__(
        self, events: AsyncGenerator[bytes, None], failure: Callable[[HTTPProblem], bytes], ending: asyncio.Event
    ) -> None:
        super().__init__(events, headers={"X-Accel-Buffering": "no"})
        self._events, self._failure, self._ending, self._first = events, failure, ending, b""

    async def begun(self, request: Request) -> EventStream:
        """Return the stream once it has its first event. An earlier error becomes an ordinary response with its own status."""
        try:
            self._first = await until_disconnect(request, anext(self._events, b""))
        except BaseException:
            await self._events.aclose()
            raise
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = self._send(send, scope.get("mergewise.check_token"))
        try:
            # a response without an end makes uvicorn close the connection of a stalled client
            with suppress(_Stalled, _Gone):
                await until_disconnect(Request(scope, receive), sending)
        finally:
            await self._events.aclose()

    async def _send(self, send: Send, check_token: Callable[[], object] | None) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for piece in self._pieces(check_token):
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

    async def _pieces(self, check_token: Callable[[], object] | None) -> AsyncGenerator[bytes, None]:
        ending = asyncio.ensure_future(self._wait_for_end(check_token))
        coming: asyncio.Future[bytes] | None = None
        try:
            if self._first:
                yield self._first
            while True:
                coming = coming or asyncio.ensure_future(anext(self._events))
                await asyncio.wait((coming, ending), timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if ending.done() and ending.exception() is not None:
                    ending.result()
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
            await cancelled(ending, *([] if coming is None else [coming]))

    async def _wait_for_end(self, check_token: Callable[[], object] | None) -> None:
        """Wait until the server shuts down. Raises HTTPProblem 401 once the token is not valid any more."""
        while not self._ending.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(TOKEN_SECONDS):
                    await self._ending.wait()
            if check_token is not None:
                check_token()
