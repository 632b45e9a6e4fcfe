"""Coroutines run from ordinary code: one event loop in a thread of its own, started when it is first needed.

`asyncio.run` would fail inside a running loop (a notebook, a server) and would close the connections that clients keep.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import cache
from threading import Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """The coroutine's result. When the caller is interrupted, so is the coroutine."""
    future = asyncio.run_coroutine_threadsafe(coroutine, event_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


@cache
def event_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="mergewise-async", daemon=True).start()
    return loop


async def together(*coroutines: Coroutine[Any, Any, Result]) -> list[Result]:
    """The results in order. All run at the same time; the first error cancels the others and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
