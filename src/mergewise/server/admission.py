"""Who may assemble a context now, and who waits: one slot a worker, and a queue that is as long as it can be served in time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Admission:
    """The slots of a worker. Belongs to one event loop."""

    def __init__(self, slots: int = 1, streams: int = 64) -> None: ...

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[float]:
        """A slot to assemble in; gives the seconds that it was waited for. Raises HTTPProblem 429 where the queue is full."""
        yield 0.0

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[None]:
        """One of the places in which models are waited for. Raises HTTPProblem 429 where all are taken."""
        yield
