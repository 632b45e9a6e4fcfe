"""Who may work now, and who waits: slots for assembling contexts, and places for those who wait for models.

Assembling takes a processor, so a worker has one slot; more threads would only slow each other down. The queue for it is as
long as it can be served in time: by the mean time that a slot was held lately. Whoever waits for a chat model within a slot gives
the slot up meanwhile (`SlotReleasingChat`).

A question that is refused is told when to come again (`RetryLedger`). If it does, it finds a longer queue than one that is
asked for the first time: so all who heed the time are answered, and who asks again at once gains nothing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from math import inf
from time import monotonic, perf_counter
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
LONGEST_WAIT = 10.0
"""Seconds after which a refused question is told to come again, at most."""
_SHORTEST_WAIT = 0.05


class RetryLedger:
    """Refused questions, each with the time at which it was told to come again.

    Clients that heed the time are spread over it: the next one is told to come after those that are expected. Clients that do
    not heed it make nobody wait longer, since as many are expected as came lately.
    """

    GRACE = 5.0
    """Seconds after its time for which a question is expected."""
    MOST = 4096
    _LATEST = 0.05

    def __init__(self) -> None:
        self._due: OrderedDict[int, float] = OrderedDict()
        self._kept = 1.0

    def count_expected(self, now: float) -> float:
        """How many questions will come again."""
        while self._due:
            question, due = next(iter(self._due.items()))
            if now <= due + self.GRACE and len(self._due) <= self.MOST:
                break
            del self._due[question]
            self._kept -= self._LATEST * self._kept
        return self._kept * len(self._due)

    def is_due(self, question: int, now: float) -> bool:
        """Whether the question was told to come again, and its time has come."""
        return self._due.get(question, inf) <= now

    def keep(self, question: int) -> None:
        """The question is let in."""
        if self._due.pop(question, None) is not None:
            self._kept += self._LATEST * (1 - self._kept)

    def make(self, question: int, now: float, wait: float) -> None:
        """The question is refused. One that came too early has its time from before."""
        if self._due.get(question, -inf) <= now:
            self._due.pop(question, None)
            self._due[question] = now + wait


class ConcurrencyLimiter:
    """The slots and places of a worker. Belongs to the event loop that it is made in."""

    def __init__(self, limits: ServeLimits, metrics: Metrics, slots: int = 1) -> None:
        self._limits, self._metrics = limits, metrics
        self.loop = asyncio.get_running_loop()
        self._free = slots
        self._queue: deque[asyncio.Future[None]] = deque()
        self._streams = 0
        self._mean = _FIRST_MEAN
        self._appointments = RetryLedger()
        threads = slots + limits.streams + limits.queue_most
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="mergewise-question")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def longest_queue(self, *, again: bool = False) -> int:
        """How many questions may wait when another one comes, or comes `again` at the time that it was told."""
        limits = self._limits
        seconds = limits.queue_again_seconds if again else limits.queue_seconds
        return int(min(max(seconds / self._mean, limits.queue_least), limits.queue_most))

    @property
    def busy(self) -> tuple[int, int]:
        """Questions that wait for a slot, and that wait for a model."""
        return len(self._queue), self._streams

    def enter(self, question: str = "", has_place: bool = False) -> Slot:
        """A slot, or a turn in the queue for one. Raises HTTPProblem 429 where the queue is full.

        `question` says what is asked by whom; without it nobody knows it again. `has_place`: the caller waits for models in a
        place that he has already.
        """
        key, now = hash(question), monotonic()
        again = self._appointments.is_due(key, now)
        if self._free <= 0 and len(self._queue) >= self.longest_queue(again=again):
            self._metrics.rejected.labels("queue").inc()
            before = len(self._queue) + self._appointments.count_expected(now)
            wait = min(max(_SHORTEST_WAIT, before * self._mean), LONGEST_WAIT)
            if question:
                self._appointments.make(key, now, wait)
            raise HTTPProblem(429, "busy", "more is asked than can be answered", "ask again later", retry_after=wait)
        self._appointments.keep(key)
        return Slot(self, has_place)

    @contextmanager
    def place(self) -> Iterator[None]:
        """One of the places in which models are waited for. Raises HTTPProblem 429 where all are taken."""
        self.take_place()
        try:
            yield
        finally:
            self.leave_place()

    async def wait(self, function: Callable[[], Result], then: Callable[[], None] = lambda: None) -> Result:
        """The function's result, computed in a thread of ours; `then` is called once the thread is done with it.

        Who waits outside of the slots has a place.
        When the caller is cancelled, the work is called off, which takes until its next call of a store or a model.
        """
        work = CancellableWork()
        thread = self.loop.run_in_executor(self._pool, copy_context().run, work.do, function)
        thread.add_done_callback(lambda _: then())
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            work.cancel()
            # nobody asks for what it raises then
            thread.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise

    def take_place(self) -> None:
        if self._streams >= self._limits.streams:
            self._metrics.rejected.labels("streams").inc()
            raise HTTPProblem(429, "busy", "too many answers wait for a model", "ask again later", retry_after=1.0)
        self._streams += 1

    def leave_place(self) -> None:
        self._streams -= 1

    def turn(self, first: bool) -> asyncio.Future[None]:
        """Done once there is a slot: at the end of the queue, or `first` in it."""
        turn = self.loop.create_future()
        if self._free > 0:
            self._free -= 1
            turn.set_result(None)
        else:
            (self._queue.appendleft if first else self._queue.append)(turn)
        return turn

    def drop(self, turn: asyncio.Future[None]) -> None:
        """Nobody waits for this turn any more; if it came meanwhile, the next one has it."""
        if turn.done():
            self.give()
        else:
            self._queue.remove(turn)

    def give(self) -> None:
        """Give a slot to the first who waits."""
        if self._queue:
            self._queue.popleft().set_result(None)
        else:
            self._free += 1

    def observe_queue(self, seconds: float) -> None:
        self._metrics.queue.observe(seconds)

    def observe(self, seconds: float) -> None:
        """How long a slot was held."""
        self._mean += _LATEST * (seconds - self._mean)


class Slot:
    """A slot in the hands of one question, which may give it up for a while."""

    current: ContextVar[Slot | None] = ContextVar("mergewise-slot", default=None)

    def __init__(self, admission: ConcurrencyLimiter, has_place: bool) -> None:
        self._admission, self._has_place = admission, has_place
        # what is waited for, until the slot is taken
        self._turn: asyncio.Future[None] | None = admission.turn(first=False)
        self._since: float | None = None
        self._held = 0.0
        self._has_left = False

    def start(self, function: Callable[[float], Result]) -> asyncio.Task[Result]:
        """The function's result, computed once the slot is there; it is given the seconds until then.

        When the task is cancelled, the work is called off; the slot is free once its thread has ended.
        """
        task = self._admission.loop.create_task(self._run(function))
        # also where the task was cancelled before it began
        task.add_done_callback(lambda _: self._forgo())
        return task

    async def _run(self, function: Callable[[float], Result]) -> Result:
        began = perf_counter()
        await self._take()
        waited = perf_counter() - began
        self._admission.observe_queue(waited)

        def work() -> Result:
            # the thread has a context of its own
            Slot.current.set(self)
            return function(waited)

        return await self._admission.wait(work, self._leave)

    async def _take(self) -> None:
        assert self._turn is not None
        await asyncio.shield(self._turn)
        self._turn, self._since = None, perf_counter()
        if self._has_left:
            self._release()

    def _forgo(self) -> None:
        """Nobody waits any more for the slot."""
        if self._turn is not None:
            self._admission.drop(self._turn)
            self._turn = None

    def _release(self) -> None:
        if self._since is not None:
            self._held += perf_counter() - self._since
            self._since = None
            self._admission.give()

    def _leave(self) -> None:
        """For good. What was held in all counts for the mean."""
        self._has_left = True
        self._release()
        self._admission.observe(self._held)

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Gives the slot up meanwhile, for one of the places of those who wait for models. From any event loop."""
        await self._in_its_loop(self._pause)
        try:
            yield
        finally:
            await self._in_its_loop(self._resume)

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
                self._forgo()

    async def _in_its_loop(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(step(), self._admission.loop))


@dataclass(frozen=True)
class SlotReleasingChat:
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
        slot = Slot.current.get()
        if slot is None:
            return await self.chat.complete(messages, max_tokens=max_tokens, schema=schema)
        async with slot.paused():
            return await self.chat.complete(messages, max_tokens=max_tokens, schema=schema)

    def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        """Answers are streamed outside of slots."""
        return self.chat.stream(messages, max_tokens=max_tokens)
