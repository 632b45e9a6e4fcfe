"""Connections are spread evenly over the workers, so that no client waits in a long queue while another worker is idle.

All workers listen on one socket, and asyncio takes all the connections that wait there at once: of 50 clients that came together,
one of two workers had 50, 32 or 36. Clients keep their connections, so this lasts. Hence:

- Each worker tells the others how many connections it has, in memory that they share.
- A worker takes a connection while no other one has fewer; else it leaves it to the others for a moment.
- A worker with many more than another one, which may have been started anew, ends connections with its answers
  (`Connection: close`): their clients come again.
"""

from __future__ import annotations

import socket
import time
from collections.abc import MutableSequence
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

ABSENT = -1
"""The count of a worker that does not listen."""
LEAVING_SECONDS = 0.05
"""For which a connection is left to those that have fewer: one of them may hang."""
_LOOK_SECONDS = 0.001


@dataclass(frozen=True)
class ConnectionCounts:
    """How many connections each worker has open, in shared memory, and the place of one worker there. Each writes its own."""

    counts: MutableSequence[int]
    own: int

    def set(self, connections: int) -> None:
        self.counts[self.own] = connections

    def add(self, connections: int) -> None:
        self.counts[self.own] += connections

    def are_fewest(self) -> bool:
        """Whether no other worker has fewer than this one."""
        return self.counts[self.own] <= self._fewest()

    def are_too_many(self) -> bool:
        """Whether another worker has so many fewer that clients should come again."""
        own = self.counts[self.own]
        return own > self._fewest() + max(2, own // 8)

    def _fewest(self) -> int:
        return min((count for count in self.counts if count != ABSENT), default=0)


class SharedListener(socket.socket):
    """The listening socket of all workers, as one of them sees it: what is left to the others is not there."""

    def __init__(self, listener: socket.socket, counts: ConnectionCounts) -> None:
        super().__init__(fileno=listener.detach())
        self._counts = counts
        self._left_since = self._looked = 0.0

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection. Raises BlockingIOError where there is none for this worker now."""
        if not self._counts.are_fewest() and self._leaves_it():
            # the event loop asks again at once
            time.sleep(_LOOK_SECONDS)
            raise BlockingIOError
        accepted = super().accept()
        self._counts.add(1)
        return accepted

    def _leaves_it(self) -> bool:
        now = time.monotonic()
        if now - self._looked > LEAVING_SECONDS:
            # it is another connection than the last one that was left
            self._left_since = now
        self._looked = now
        return now - self._left_since < LEAVING_SECONDS


def ending_connections(app: ASGIApp, counts: ConnectionCounts) -> ASGIApp:
    """The application, whose answers end their connections where this worker has too many.

    Refusals do not: who was told to come again is known here.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_or_end(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400 and counts.are_too_many():
                counts.add(-1)
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            await send(message)

        await app(scope, receive, send_or_end if scope["type"] == "http" else send)

    return answer
