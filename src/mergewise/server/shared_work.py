"""Results that identical requests share, while they are computed and afterwards."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Shared(Generic[Result]):
    """Work in progress or done. `async with` gives its result as a future. The work is cancelled when the last user leaves."""

    def __init__(self, task: asyncio.Future[Result], was_done: bool, forget: Callable[[], object]) -> None:
        self.was_done = was_done
        self._task, self._forget = task, forget
        self._waiting = 0

    async def __aenter__(self) -> asyncio.Future[Result]:
        self._waiting += 1
        return asyncio.shield(self._task)

    async def __aexit__(self, *error: object) -> None:
        self._waiting -= 1
        if not self._waiting and not self._task.done():
            self._forget()
            self._task.cancel()


class SharedWork(Generic[Result]):
    """A cache of results by key, with shared work. Keeps the most recently used results, up to a count and a total size."""

    def __init__(self, most: int, most_bytes: int, size_of: Callable[[Result], int]) -> None:
        self._most, self._most_bytes, self._size_of = most, most_bytes, size_of
        self._under_way: dict[str, Shared[Result]] = {}
        self._done: OrderedDict[str, Result] = OrderedDict()
        self._bytes = 0

    def join(self, key: str, begin: Callable[[], asyncio.Task[Result]]) -> Shared[Result]:
        """Return the work of this key. Call `begin` if there is no such work yet. Raises the errors of `begin`."""
        if key in self._done:
            self._done.move_to_end(key)
            done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
            done.set_result(self._done[key])
            return Shared(done, True, lambda: None)
        if key not in self._under_way:
            task = begin()
            self._under_way[key] = Shared(task, False, partial(self._under_way.pop, key, None))
            task.add_done_callback(partial(self._store, key, self._under_way[key]))
        return self._under_way[key]

    def _store(self, key: str, shared: Shared[Result], task: asyncio.Future[Result]) -> None:
        if self._under_way.get(key) is shared:
            del self._under_way[key]
        if task.cancelled() or task.exception() is not None:
            return
        self._done[key] = task.result()
        self._bytes += self._size_of(task.result())
        while len(self._done) > self._most or self._bytes > self._most_bytes:
            self._bytes -= self._size_of(self._done.popitem(last=False)[1])
