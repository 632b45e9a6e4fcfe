"""Even distribution of connections over the workers, so that no client waits in a queue while another worker is idle.

All workers listen on one socket, and asyncio accepts all waiting connections at once. When 50 clients connected together, one of
two workers got 50, 32 or 36 of them. Clients keep their connections, so the imbalance lasts. Therefore:

- Each worker publishes its number of connections in shared memory.
- A worker accepts a connection if no other worker has fewer. Otherwise it leaves the connection to the others for a moment.
- A worker with many more connections than another, for example after a restart of the other, closes connections with its
  answers (`Connection: close`). Their clients connect again.
"""

from __future__ import annotations

import socket
import time
from collections.abc import MutableSequence
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mergewise.types import frozen

ABSENT = -1
"""The count of a worker that does not listen."""
LEAVING_SECONDS = 0.05
"""Seconds for which a worker leaves a connection to workers with fewer. One of them may hang, so this is short."""


@frozen
class ConnectionCounts:
    """The number of open connections of each worker, in shared memory. Each worker writes only its `own` entry."""

    counts: MutableSequence[int]
    own: int

    def set(self, connections: int) -> None:
        self.counts[self.own] = connections

    def add(self, connections: int) -> None:
        self.counts[self.own] += connections

    def are_fewest(self) -> bool:
        """Check that no other worker has fewer than this one."""
        return self.counts[self.own] <= self._fewest()

    def are_too_many(self) -> bool:
        """Check if another worker has so few that clients of this one should reconnect."""
        own = self.counts[self.own]
        return own > self._fewest() + max(2, own // 8)

    def _fewest(self) -> int:
        return min((count for count in self.counts if count != ABSENT), default=0)


class SharedListener(socket.socket):
    """The shared listening socket as one worker sees it: connections left to other workers are hidden."""

    def __init__(self, listener: socket.socket, counts: ConnectionCounts) -> None:
        super().__init__(fileno=listener.detach())
        self._counts = counts
        self._left_since = self._looked = 0.0

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept the next connection. Raises BlockingIOError if none is for this worker now."""
        if not self._counts.are_fewest():
            now = time.monotonic()
            if now - self._looked > LEAVING_SECONDS:
                # this is another connection than the last one left to the others
                self._left_since = now
            self._looked = now
            if now - self._left_since < LEAVING_SECONDS:
                # the event loop calls again at once
                time.sleep(0.001)
                raise BlockingIOError
        accepted = super().accept()
        self._counts.add(1)
        return accepted


def ending_connections(app: ASGIApp, counts: ConnectionCounts) -> ASGIApp:
    """Wrap the application so that its answers close their connections while this worker has too many.

    Refusals keep theirs: only this worker knows the retry time of a refused question.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_or_end(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400 and counts.are_too_many():
                counts.add(-1)
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            await send(message)

        await app(scope, receive, send_or_end if scope["type"] == "http" else send)

    return answer
