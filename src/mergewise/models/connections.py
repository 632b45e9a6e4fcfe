"""Clients of the running event loop: connections belong to the loop that opened them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

Client = TypeVar("Client")


class PerLoop(Generic[Client]):
    """A client for each event loop, made when it is first asked for."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._clients)

    def here(self) -> Client:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = self._make()
        return self._clients[loop]

    def pop(self) -> Any:
        """The client of the running loop, which is forgotten; None where there is none."""
        return self._clients.pop(asyncio.get_running_loop(), None)

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        client = self.pop()
        if client is not None:
            close = getattr(client, "aclose", None) or client.close
            await close()
