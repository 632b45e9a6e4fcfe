"""Concurrency limits of a worker: slots for assembling contexts, and places for questions that wait for a chat model.

Assembling a context is bound by the CPU, so a worker has one slot; more threads would only slow each other down. The length of
the queue follows from the mean time that a slot was held recently. A question that waits for a chat model while it holds a slot
releases the slot during the wait (`SlotReleasingChat`).

A refused question gets a time to retry (`RetryLedger`). The queue is longer for a retry at that time than for a new question.
So clients that respect the time get their answer, and clients that retry at once gain nothing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from math import inf
from time import monotonic, perf_counter
from typing import Any

from mergewise.extend import CancellableWork
from mergewise.protocols import ChatModel, Schema
from mergewise.server.configuration import ServeLimits
from mergewise.server.metrics import Metrics
from mergewise.server.problems import HTTPProblem
from mergewise.server.shared_work import Result
from mergewise.types import Message, Reply

LONGEST_WAIT = 10.0
"""Longest time in seconds after which a refused question should retry."""


class RetryLedger:
    """Refused questions, each with its time to retry.

    The retries are spread over time: each question gets a later time than the retries that are expected already. The number of
    expected retries follows from the share of questions that came back recently, so clients that never retry delay nobody.
    """

    GRACE = 5.0
    """Seconds after the retry time during which a question is still expected."""
    MOST = 4096
    _LATEST = 0.05

    def __init__(self) -> None:
        self._due: OrderedDict[int, float] = OrderedDict()
        self._return_share = 1.0

    def count_expected(self, now: float) -> float:
        """Estimate how many refused questions will come back."""
        while self._due:
            question, due = next(iter(self._due.items()))
            if now <= due + self.GRACE and len(self._due) <= self.MOST:
                break
            del self._due[question]
            self._return_share -= self._LATEST * self._return_share
        return self._return_share * len(self._due)

    def is_due(self, question: int, now: float) -> bool:
        """Check if the question was refused earlier and its time to retry has come."""
        return self._due.get(question, inf) <= now

    def note_admission(self, question: int) -> None:
        """Record that the question was admitted."""
        if self._due.pop(question, None) is not None:
            self._return_share += self._LATEST * (1 - self._return_share)

    def note_refusal(self, question: int, now: float, wait: float) -> None:
        """Record that the question was refused. A question that came too early keeps its earlier time to retry."""
        if self._due.get(question, -inf) <= now:
            self._due.pop(question, None)
            self._due[question] = now + wait


class ConcurrencyLimiter:
    """The slots and places of a worker. Bound to the event loop that creates it."""

    def __init__(self, limits: ServeLimits, metrics: Metrics) -> None:
        self.limits, self.metrics = limits, metrics
        self.loop = asyncio.get_running_loop()
        self._free = 1
        self._queue: deque[asyncio.Future[None]] = deque()
        self._streams = 0
        # moving average of the seconds that a slot is held, at first an estimate
        self._mean = 0.06
        self._retries = RetryLedger()
        self._pool = ThreadPoolExecutor(1 + limits.streams + limits.queue_most, thread_name_prefix="mergewise-question")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def longest_queue(self, *, again: bool = False) -> int:
        """Return the longest queue that a question may join, or that a retry may join at its time (`again`)."""
        limits = self.limits
        seconds = limits.queue_again_seconds if again else limits.queue_seconds
        return int(min(max(seconds / self._mean, limits.queue_least), limits.queue_most))

    def enter(self, question: str = "", has_place: bool = False) -> Slot:
        """Return a slot, or a turn in the queue for a slot. Raises HTTPProblem 429 if the queue is full.

        `question` identifies the client and the question, to recognise a retry. With `has_place`, the caller already has a place
        in which to wait for models.
        """
        key, now = hash(question), monotonic()
        again = self._retries.is_due(key, now)
        if self._free <= 0 and len(self._queue) >= self.longest_queue(again=again):
            self.metrics.rejected.labels("queue").inc()
            before = len(self._queue) + self._retries.count_expected(now)
            wait = min(max(0.05, before * self._mean), LONGEST_WAIT)
            if question:
                self._retries.note_refusal(key, now, wait)
            raise HTTPProblem(429, "busy", "server busy: too many questions", "ask again later", retry_after=wait)
        self._retries.note_admission(key)
        return Slot(self, has_place)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place in which to wait for models. Raises HTTPProblem 429 if all places are taken."""
        self.take_place()
        try:
            yield
        finally:
            self.leave_place()

    async def wait(self, function: Callable[[], Result], then: Callable[[], None] = lambda: None) -> Result:
        """Run the function in a thread of the pool and return its result. `then` is called once the thread has finished.

        A caller that holds no slot must hold a place. If the caller is cancelled, the work is cancelled too; it stops at its
        next call of a store or a model.
        """
        work = CancellableWork()
        thread = self.loop.run_in_executor(self._pool, copy_context().run, work.do, function)
        thread.add_done_callback(lambda _: then())
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            work.cancel()
            # nobody reads its exception after a cancellation
            thread.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise

    def take_place(self) -> None:
        if self._streams >= self.limits.streams:
            self.metrics.rejected.labels("streams").inc()
            raise HTTPProblem(
                429, "busy", "server busy: too many answers wait for a model", "ask again later", retry_after=1.0
            )
        self._streams += 1

    def leave_place(self) -> None:
        self._streams -= 1

    def turn(self, first: bool) -> asyncio.Future[None]:
        """Join the queue at its end, or at its front if `first`. The future is done once a slot is free."""
        turn = self.loop.create_future()
        if self._free > 0:
            self._free -= 1
            turn.set_result(None)
        else:
            (self._queue.appendleft if first else self._queue.append)(turn)
        return turn

    def drop(self, turn: asyncio.Future[None]) -> None:
        """Leave the queue. If the turn has already come, its slot goes to the next in the queue."""
        if turn.done():
            self.give()
        else:
            self._queue.remove(turn)

    def give(self) -> None:
        """Give a slot to the first in the queue."""
        if self._queue:
            self._queue.popleft().set_result(None)
        else:
            self._free += 1

    def observe(self, seconds: float) -> None:
        """Add the seconds that a slot was held to the moving average."""
        self._mean += 0.1 * (seconds - self._mean)


class Slot:
    """A slot held by one question, which may release the slot for a while."""

    current: ContextVar[Slot | None] = ContextVar("mergewise-slot", default=None)

    def __init__(self, admission: ConcurrencyLimiter, has_place: bool) -> None:
        self._admission, self._has_place = admission, has_place
        # the turn in the queue, until the slot is taken
        self._turn: asyncio.Future[None] | None = admission.turn(first=False)
        self._since: float | None = None
        self._held = 0.0
        self._has_left = False

    def start(self, function: Callable[[float], Result]) -> asyncio.Task[Result]:
        """Start a task that waits for the slot and calls the function with the seconds waited.

        If the task is cancelled, the work is cancelled too, and the slot is free once its thread has ended.
        """
        task = self._admission.loop.create_task(self._run(function))
        # a task cancelled before it began would keep its turn
        task.add_done_callback(lambda _: self._leave_queue())
        return task

    async def _run(self, function: Callable[[float], Result]) -> Result:
        began = perf_counter()
        await self._take()
        waited = perf_counter() - began
        self._admission.metrics.queue.observe(waited)

        def work() -> Result:
            # context variables are per thread
            Slot.current.set(self)
            return function(waited)

        return await self._admission.wait(work, self._leave)

    async def _take(self) -> None:
        assert self._turn is not None
        await asyncio.shield(self._turn)
        self._turn, self._since = None, perf_counter()
        if self._has_left:
            self._release()

    def _leave_queue(self) -> None:
        if self._turn is not None:
            self._admission.drop(self._turn)
            self._turn = None

    def _release(self) -> None:
        if self._since is not None:
            self._held += perf_counter() - self._since
            self._since = None
            self._admission.give()

    def _leave(self) -> None:
        """Release the slot for good, and add the total time held to the moving average."""
        self._has_left = True
        self._release()
        self._admission.observe(self._held)

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Release the slot for the duration of the block, in exchange for a place. Works from any event loop."""
        await self._run_in_loop(self._pause)
        try:
            yield
        finally:
            await self._run_in_loop(self._resume)

    async def _pause(self) -> None:
        if not self._has_place:
            self._admission.take_place()
        self._release()

    async def _resume(self) -> None:
        if not self._has_place:
            self._admission.leave_place()
        if not self._has_left:
            self._turn = self._admission.turn(first=True)
            try:
                await self._take()
            finally:
                self._leave_queue()

    async def _run_in_loop(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(step(), self._admission.loop))


class SlotReleasingChat:
    """A `ChatModel` whose callers release their slot while they wait for the model."""

    def __init__(self, chat: ChatModel) -> None:
        self.chat, self.spec, self.identity, self.window = chat, chat.spec, chat.identity, chat.window
        # streaming callers hold no slot
        self.stream = chat.stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.chat, name)

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Schema | None = None
    ) -> Reply:
        slot = Slot.current.get()
        async with nullcontext() if slot is None else slot.paused():
            return await self.chat.complete(messages, max_tokens=max_tokens, schema=schema)
