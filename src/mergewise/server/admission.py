"""Who may work now, and who waits: slots for assembling contexts, and places for those who wait for models.

Assembling takes a processor, so a worker has one slot; more threads would only slow each other down. The queue for it is as
long as it can be served in time: by the mean time that a slot was held lately. Whoever waits for a chat model within a slot gives
the slot up meanwhile (`PausingChat`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar

from mergewise.concurrency import CancellableWork
from mergewise.protocols import ChatModel
from mergewise.server.configuration import ServeLimits
from mergewise.server.metrics import Metrics
from mergewise.server.problems import HTTPProblem
from mergewise.types import Message, Reply

Result = TypeVar("Result")

# Seconds that a slot is taken to be held before the first one was, and how much the latest counts for the mean.
_FIRST_MEAN, _LATEST = 0.06, 0.1


class Admission:
    """The slots and places of a worker. Belongs to the event loop that it is made in."""

    def __init__(self, limits: ServeLimits, metrics: Metrics, slots: int = 1) -> None:
        self._limits, self._metrics = limits, metrics
        self._loop = asyncio.get_running_loop()
        self._free = slots
        self._queue: deque[asyncio.Future[None]] = deque()
        self._streams = 0
        self._mean = _FIRST_MEAN
        threads = slots + limits.streams + limits.queue_most
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="mergewise-question")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def longest_queue(self) -> int:
        limits = self._limits
        return int(min(max(limits.queue_seconds / self._mean, limits.queue_least), limits.queue_most))

    @property
    def busy(self) -> tuple[int, int]:
        """Questions that wait for a slot, and that wait for a model."""
        return len(self._queue), self._streams

    def check(self) -> None:
        """Raises HTTPProblem 429 where the queue for slots is full."""
        if self._free <= 0 and len(self._queue) >= self.longest_queue:
            self._metrics.rejected.labels("queue").inc()
            wait = max(0.05, len(self._queue) * self._mean)
            raise HTTPProblem(429, "busy", "more is asked than can be answered", "ask again later", retry_after=wait)

    async def assemble(self, function: Callable[[], Result]) -> tuple[Result, float]:
        """The function's result, computed in a slot, and the seconds that the slot was waited for.

        When the caller is cancelled, the work is called off; the slot is free once its thread has ended.
        """
        self.check()
        slot = _Slot(self)
        began = perf_counter()
        await slot.take()
        waited = perf_counter() - began
        self._metrics.queue.observe(waited)
        work = CancellableWork()
        try:
            thread = self._start(slot.around(function), work)
        except BaseException:
            slot.leave()
            raise
        thread.add_done_callback(lambda _: slot.leave())
        return await _awaited(thread, work), waited

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[None]:
        """One of the places in which models are waited for. Raises HTTPProblem 429 where all are taken."""
        self.take_place()
        try:
            yield
        finally:
            self.leave_place()

    async def wait(self, function: Callable[[], Result]) -> Result:
        """The function's result, computed outside of the slots: by those who have a place. Called off with the caller."""
        work = CancellableWork()
        return await _awaited(self._start(function, work), work)

    def _start(self, function: Callable[[], Result], work: CancellableWork) -> asyncio.Future[Result]:
        return self._loop.run_in_executor(self._pool, copy_context().run, work.do, function)

    def take_place(self) -> None:
        if self._streams >= self._limits.streams:
            self._metrics.rejected.labels("streams").inc()
            raise HTTPProblem(429, "busy", "too many answers wait for a model", "ask again later", retry_after=1.0)
        self._streams += 1

    def leave_place(self) -> None:
        self._streams -= 1

    async def take(self, first: bool) -> None:
        """Wait for a slot: at the end of the queue, or `first`."""
        if self._free > 0:
            self._free -= 1
            return
        turn = self._loop.create_future()
        (self._queue.appendleft if first else self._queue.append)(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give()
            elif turn in self._queue:
                self._queue.remove(turn)
            raise

    def give(self) -> None:
        """Give a slot to the first who waits."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def observe(self, seconds: float) -> None:
        self._mean += _LATEST * (seconds - self._mean)


async def _awaited(thread: asyncio.Future[Result], work: CancellableWork) -> Result:
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        work.cancel()
        # nobody asks for what it raises then
        thread.add_done_callback(lambda done: done.cancelled() or done.exception())
        raise


class _Slot:
    """A slot in the hands of one question, which may give it up for a while."""

    current: ContextVar[_Slot | None] = ContextVar("mergewise-slot", default=None)

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._since: float | None = None
        self._held = 0.0
        self._left = False

    async def take(self, first: bool = False) -> None:
        await self._admission.take(first)
        self._since = perf_counter()
        if self._left:
            self._release()

    def leave(self) -> None:
        """For good. What was held in all counts for the mean."""
        self._left = True
        self._release()
        self._admission.observe(self._held)

    def _release(self) -> None:
        if self._since is not None:
            self._held += perf_counter() - self._since
            self._since = None
            self._admission.give()

    def around(self, function: Callable[[], Result]) -> Callable[[], Result]:
        """The function, whose calls of models know this slot."""

        def run() -> Result:
            _Slot.current.set(self)
            return function()

        return run

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Gives the slot up meanwhile, for one of the places of those who wait for models. From any event loop."""
        await self._there(self._pause)
        try:
            yield
        finally:
            await self._there(self._resume)

    async def _pause(self) -> None:
        self._admission.take_place()
        self._release()

    async def _resume(self) -> None:
        self._admission.leave_place()
        await self.take(first=True)

    async def _there(self, step: Callable[[], Any]) -> None:
        """The step, in the event loop of the server."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(step(), self._admission._loop))


@dataclass(frozen=True)
class PausingChat:
    """A `ChatModel` whose callers give up their slot while they wait for it."""

    chat: ChatModel

    def __getattr__(self, name: str) -> Any:
        return getattr(self.chat, name)

    @property
    def spec(self) -> str:
        return self.chat.spec

    @property
    def identity(self) -> str:
        return self.chat.identity

    @property
    def window(self) -> int:
        return self.chat.window

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Mapping[str, object] | None = None
    ) -> Reply:
        slot = _Slot.current.get()
        if slot is None:
            return await self.chat.complete(messages, max_tokens=max_tokens, schema=schema)
        async with slot.paused():
            return await self.chat.complete(messages, max_tokens=max_tokens, schema=schema)

    def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        """Answers are streamed outside of slots."""
        return self.chat.stream(messages, max_tokens=max_tokens)
