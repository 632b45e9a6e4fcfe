"""Coroutines run from ordinary code, and ordinary code awaited: loops and threads of our own, started when first needed.

`asyncio.run` would fail inside a running loop (a notebook, a server) and would close the connections that clients keep.
Chat models share one loop. A store has one of its own: what a model's coroutine asks of a store must not wait for itself. Its
searches are many and short: a thread without a running loop turns one itself while it waits for them (`ThreadLoop`).

Code that is awaited runs in a pool of threads of its own, since it may wait long for a model: the default pool of asyncio is
small, and belongs to the caller. A caller that no longer wants a result calls the work off (`CancellableWork`).

Threads do not survive a fork: the child starts loops and a pool of its own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
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

# Threads that work for coroutines, and those that wait for a model which writes: these do next to nothing.
THREADS, WAITING_THREADS = 32, 256


_DEADLINE: ContextVar[float] = ContextVar("mergewise-deadline", default=inf)


@contextmanager
def deadline_in(seconds: float | None) -> Iterator[None]:
    """What is done within ends by then, or raises DeadlineExceeded: whatever asks `check_time`, and what is awaited."""
    if seconds is None:
        yield
        return
    before = _DEADLINE.set(min(_DEADLINE.get(), monotonic() + seconds))
    try:
        yield
    finally:
        _DEADLINE.reset(before)


def check_time() -> float | None:
    """The seconds that are left; None where there is no deadline. Raises DeadlineExceeded where none is left."""
    deadline = _DEADLINE.get()
    if deadline == inf:
        return None
    left = deadline - monotonic()
    if left <= 0:
        raise _late()
    return left


def _late() -> DeadlineExceeded:
    return DeadlineExceeded("the question took longer than its deadline", "give it more time, or ask for less")


class CancellableWork:
    """Work that another thread may call off: the coroutine that it waits for is then cancelled, and so is every later one.

    So is one that is still awaited when a deadline passes (`deadline_in`).
    """

    _current: ContextVar[CancellableWork | None] = ContextVar("mergewise-work", default=None)

    def __init__(self) -> None:
        self._lock = Lock()
        self.cancelled = False
        self._awaited: set[Future[Any]] = set()

    @classmethod
    def current(cls) -> CancellableWork:
        """The work that the caller is part of, else a new one."""
        return cls._current.get() or cls()

    def do(self, function: Callable[[], Result]) -> Result:
        """The function's result. What it awaits by `BackgroundLoop.run` is part of the work. CancelledError once called off."""
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
        """The future's result, unless the work is called off meanwhile, or its time is over."""
        with self._lock:
            if self.cancelled:
                raise CancelledError
            self._awaited.add(future)
        try:
            return future.result(check_time())
        except TimeoutError:
            # one that the coroutine raised is another matter
            if future.done():
                raise
            raise _late() from None
        finally:
            with self._lock:
                self._awaited.discard(future)


class _PerProcess(Generic[Resource]):
    """Something that is made when it is first needed, and again in the child of a fork."""

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
        """Run the coroutine meanwhile; `result()` waits for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop.get())

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """The coroutine's result. When the caller is interrupted, so is the coroutine."""
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
    """An event loop that the waiting thread turns itself: no thread of its own has to be woken for each step.

    It is for coroutines that wait for threads of a database alone: it has neither timers nor sockets.
    """

    _own = local()

    def __init__(self) -> None:
        self._ready: SimpleQueue[asyncio.Handle] = SimpleQueue()

    @classmethod
    def start(cls, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Begin the coroutine in this thread. Its first step is done at once, the others while a `result` is waited for."""
        if not hasattr(cls._own, "loop"):
            cls._own.loop = cls()
        loop = cls._own.loop
        started = _ThreadFuture(loop, asyncio.Task(coroutine, loop=loop))
        loop.turn(lambda: loop._ready.empty())
        return started

    def turn(self, until: Callable[[], bool]) -> None:
        """Do what is ready, and wait for more, until that is so."""
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

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What nobody waits for any more fails in silence."""


class _ThreadFuture(Future[Result]):
    """The result of a coroutine on a `ThreadLoop`, for the thread that began it."""

    def __init__(self, loop: ThreadLoop, task: asyncio.Task[Result]) -> None:
        super().__init__()
        self._loop, self._task = loop, task

    def result(self, timeout: float | None = None) -> Result:
        self._loop.turn(self._task.done)
        return self._task.result()


run = BackgroundLoop("mergewise-async").run


async def together(*coroutines: Coroutine[Any, Any, Result]) -> list[Result]:
    """The results in order. All run at the same time; the first error cancels the others and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def both(first: Coroutine[Any, Any, Result], second: Coroutine[Any, Any, Other]) -> tuple[Result, Other]:
    """`together` for two coroutines of different results."""
    results: list[Any] = await together(first, second)
    return results[0], results[1]


_WORKING = _PerProcess(lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="mergewise-work"))
_WAITING = _PerProcess(lambda: ThreadPoolExecutor(WAITING_THREADS, thread_name_prefix="mergewise-wait"))


async def in_thread(function: Callable[[], Result], *, waits: bool = False) -> Result:
    """The function's result, computed in a thread of a pool. When the caller is cancelled, the work is called off.

    What mostly `waits` for a model has a pool of its own, so that slow models keep no one else from working.
    """
    work = CancellableWork()
    loop = asyncio.get_running_loop()
    pool = (_WAITING if waits else _WORKING).get()
    try:
        return await loop.run_in_executor(pool, copy_context().run, work.do, function)
    except asyncio.CancelledError:
        work.cancel()
        raise
