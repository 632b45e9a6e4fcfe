"""Run coroutines from synchronous code, and await synchronous code. Loops and threads start at their first use.

- `asyncio.run` would fail inside a running loop (a notebook, a server), and would close the connections that clients keep. So we
  have loops of our own.
- All chat models share one loop. Each store has another loop, so that a coroutine of a model can query a store without deadlock.
  Searches of a store are many and short: a thread without a running loop runs one itself while it waits (`ThreadLoop`).
- Awaited code runs in our own thread pools, since it may wait long for a model. The default pool of asyncio is small and
  belongs to the caller. A caller that no longer wants a result cancels the work (`CancellableWork`).
- Threads do not survive a fork, so the child process starts its own loops and pools.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import partial
from math import inf
from queue import SimpleQueue
from threading import Lock, Thread, local
from time import monotonic
from typing import Any, Generic, TypeVar, TypeVarTuple, Unpack

from mergewise.errors import DeadlineExceeded

Result = TypeVar("Result")
Resource = TypeVar("Resource")
Other = TypeVar("Other")
Arguments = TypeVarTuple("Arguments")

# Threads that compute for coroutines, and threads that only wait for a model.
THREADS, WAITING_THREADS = 32, 256


_DEADLINE: ContextVar[float] = ContextVar("mergewise-deadline", default=inf)


@contextmanager
def deadline_in(seconds: float | None) -> Iterator[None]:
    """Raise DeadlineExceeded from `check_time`, and from awaited work, after `seconds`."""
    if seconds is None:
        yield
        return
    before = _DEADLINE.set(min(_DEADLINE.get(), monotonic() + seconds))
    try:
        yield
    finally:
        _DEADLINE.reset(before)


def check_time() -> float | None:
    """Return the seconds left until the deadline, or None without a deadline. Raises DeadlineExceeded if it has passed."""
    deadline = _DEADLINE.get()
    if deadline == inf:
        return None
    left = deadline - monotonic()
    if left <= 0:
        raise _late()
    return left


def _late() -> DeadlineExceeded:
    return DeadlineExceeded("deadline exceeded", "allow more time, or ask for less")


class CancellableWork:
    """Work that another thread may cancel. Cancelling also cancels the awaited coroutine and every later one.

    A passed deadline (`deadline_in`) cancels the awaited coroutine, too.
    """

    _current: ContextVar[CancellableWork | None] = ContextVar("mergewise-work", default=None)

    def __init__(self) -> None:
        self._lock = Lock()
        self.cancelled = False
        self._awaited: set[Future[Any]] = set()

    @classmethod
    def current(cls) -> CancellableWork:
        """Return the work that the caller is part of, or new work."""
        return cls._current.get() or cls()

    def do(self, function: Callable[[], Result]) -> Result:
        """Call the function. Its coroutines on a `BackgroundLoop` are part of the work. Raises CancelledError once cancelled."""
        before = self._current.set(self)
        try:
            return function()
        finally:
            self._current.reset(before)

    def cancel(self) -> None:
        with self._lock:
            self.cancelled = True
            awaited = list(self._awaited)
        for future in awaited:
            future.cancel()

    def wait(self, future: Future[Result]) -> Result:
        """Wait for the result of the future. Raises CancelledError if the work is cancelled, DeadlineExceeded if it is late."""
        with self._lock:
            if self.cancelled:
                raise CancelledError
            self._awaited.add(future)
        try:
            return future.result(check_time())
        except TimeoutError:
            # the coroutine itself has raised it
            if future.done():
                raise
            raise _late() from None
        finally:
            with self._lock:
                self._awaited.discard(future)


class _PerProcess(Generic[Resource]):
    """A resource that is made at its first use, and again in a forked child."""

    def __init__(self, make: Callable[[], Resource]) -> None:
        self._make = make
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = Lock()
        self._resource: Resource | None = None

    def get(self) -> Resource:
        with self._lock:
            if self._resource is None:
                self._resource = self._make()
            return self._resource


class BackgroundLoop:
    """An event loop in a daemon thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = _PerProcess(self._start_loop)

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        Thread(target=loop.run_forever, name=self._name, daemon=True).start()
        return loop

    def start(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Start the coroutine in the background. `result()` of the future waits for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop.get())

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run the coroutine and return its result. An interrupt of the caller cancels the coroutine."""
        work = CancellableWork.current()
        try:
            check_time()
            if work.cancelled:
                raise CancelledError
        except BaseException:
            coroutine.close()
            raise
        future = self.start(coroutine)
        try:
            return work.wait(future)
        except BaseException:
            future.cancel()
            raise


class ThreadLoop(asyncio.AbstractEventLoop):
    """An event loop that the waiting thread runs itself, so that no other thread must be woken for each step.

    It only supports coroutines that wait for threads of a database. It has no timers and no sockets.
    """

    _own = local()

    def __init__(self) -> None:
        self._ready: SimpleQueue[asyncio.Handle] = SimpleQueue()

    @classmethod
    def start(cls, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Start the coroutine in this thread. Its first step runs at once, the others while a caller waits for `result`."""
        if not hasattr(cls._own, "loop"):
            cls._own.loop = cls()
        loop = cls._own.loop
        started = _ThreadFuture(loop, asyncio.Task(coroutine, loop=loop))
        loop.turn(loop._ready.empty)
        return started

    def turn(self, until: Callable[[], bool]) -> None:
        """Run callbacks and wait for more until the condition is true."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            while not until():
                self._ready.get()._run()
        finally:
            asyncio._set_running_loop(before)

    def call_soon(
        self, callback: Callable[[Unpack[Arguments]], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.put(handle)
        return handle

    call_soon_threadsafe = call_soon

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def get_debug(self) -> bool:
        return False

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ignore errors of abandoned tasks."""


class _ThreadFuture(Future[Result]):
    """The result of a coroutine on a `ThreadLoop`, for the thread that has started it."""

    def __init__(self, loop: ThreadLoop, task: asyncio.Task[Result]) -> None:
        super().__init__()
        self._loop, self._task = loop, task

    def result(self, timeout: float | None = None) -> Result:
        self._loop.turn(self._task.done)
        return self._task.result()


run = BackgroundLoop("mergewise-async").run


async def together(*coroutines: Coroutine[Any, Any, Result]) -> list[Result]:
    """Run coroutines at the same time and return their results in order. The first error cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def both(first: Coroutine[Any, Any, Result], second: Coroutine[Any, Any, Other]) -> tuple[Result, Other]:
    """Run two coroutines with different result types, like `together`."""
    results: list[Any] = await together(first, second)
    return results[0], results[1]


_WORKING = _PerProcess(lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="mergewise-work"))
_WAITING = _PerProcess(lambda: ThreadPoolExecutor(WAITING_THREADS, thread_name_prefix="mergewise-wait"))


async def in_thread(function: Callable[[Unpack[Arguments]], Result], *args: *Arguments, waits: bool = False) -> Result:
    """Call the function with these arguments in a thread of a pool. Cancelling the caller cancels the work.

    Functions that mostly wait for a model (`waits`) have a separate pool, so that slow models block no other work.
    """
    work = CancellableWork()
    loop = asyncio.get_running_loop()
    pool = (_WAITING if waits else _WORKING).get()
    try:
        return await loop.run_in_executor(pool, copy_context().run, work.do, partial(function, *args))
    except asyncio.CancelledError:
        work.cancel()
        raise
