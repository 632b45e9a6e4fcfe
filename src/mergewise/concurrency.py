"""Coroutines run from ordinary code: event loops in threads of their own, started when they are first needed.

`asyncio.run` would fail inside a running loop (a notebook, a server) and would close the connections that clients keep.
Chat models share one loop. A store has one of its own: what a model's coroutine asks of a store must not wait for itself.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


class Background:
    """An event loop in a daemon thread. After a fork the child starts a thread of its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = Lock()
        self._loop = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                Thread(target=self._loop.run_forever, name=self._name, daemon=True).start()
            return self._loop

    def start(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Run the coroutine meanwhile; `result()` waits for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """The coroutine's result. When the caller is interrupted, so is the coroutine."""
        future = self.start(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


run = Background("mergewise-async").run


async def together(*coroutines: Coroutine[Any, Any, Result]) -> list[Result]:
    """The results in order. All run at the same time; the first error cancels the others and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
