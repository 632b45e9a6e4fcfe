"""Distribution of connections over the workers: accepting, leaving and closing connections."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mergewise.server import balance, processes
from mergewise.server.balance import ABSENT, ConnectionCounts, SharedListener, ending_connections


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=100) as one:
        one.setblocking(False)
        yield one


@pytest.mark.parametrize(
    ("counts", "fewest", "too_many"),
    [
        *((counts, True, False) for counts in ([0, ABSENT], [3, 3], [5, ABSENT, 9])),
        *((counts, False, False) for counts in ([4, 3], [20, 18], [200, 176])),
        *((counts, False, True) for counts in ([3, 0], [27, 23])),
    ],
)
def test_counts_are_compared(counts: list[int], fewest: bool, too_many: bool) -> None:
    own = ConnectionCounts(counts, 0)
    assert (own.are_fewest(), own.are_too_many()) == (fewest, too_many)


def test_simultaneous_connections_are_spread_evenly(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two event loops stand for two workers. Without `SharedListener`, asyncio gives most connections to one loop."""
    # on a busy machine a slow loop must not count as hanging
    monkeypatch.setattr(balance, "LEAVING_SECONDS", 10.0)
    counts, ready = [0, 0], threading.Barrier(3)
    transports: tuple[list[Any], list[Any]] = ([], [])

    def work(number: int) -> None:
        async def serve() -> None:
            shared = SharedListener(listener.dup(), ConnectionCounts(counts, number))
            server = await asyncio.get_running_loop().create_server(Kept, sock=shared)
            await asyncio.to_thread(ready.wait)
            async with asyncio.timeout(20):
                while sum(map(len, transports)) < 40:
                    await asyncio.sleep(0.001)
            await asyncio.to_thread(ready.wait)
            server.close()
            for transport in transports[number]:
                transport.close()
            await asyncio.sleep(0)

        class Kept(asyncio.Protocol):
            def connection_made(self, transport: Any) -> None:
                transports[number].append(transport)

        asyncio.run(serve())

    workers = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for worker in workers:
        worker.start()
    ready.wait(20)
    clients = [socket.create_connection(listener.getsockname()) for _ in range(40)]
    ready.wait(20)
    for worker in workers:
        worker.join()
    for client in clients:
        client.close()
    assert sum(counts) == 40 and max(counts) - min(counts) <= 4 and counts == list(map(len, transports))


def test_a_hanging_worker_delays_connections_only_briefly(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + 10 * seconds))
    counts = [3, 0]
    with SharedListener(listener.dup(), ConnectionCounts(counts, 0)) as shared:
        clients = [socket.create_connection(listener.getsockname()) for _ in range(2)]
        for _ in range(2):
            tries = 0
            while True:
                tries += 1
                try:
                    accepted, _ = shared.accept()
                    break
                except BlockingIOError:
                    assert tries < 10
            accepted.close()
            assert tries > 3
            # a later connection is left to the other worker again
            clock[0] += 5
        with pytest.raises(BlockingIOError):
            shared.accept()
        for client in clients:
            client.close()
    assert counts == [5, 0]


@pytest.mark.parametrize(("status", "ended"), [(200, 3), (429, 0)])
def test_a_worker_with_too_many_connections_closes_some(status: int, ended: int) -> None:
    counts = [8, 3]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"x", b"y")]})
        await send({"type": "http.response.body", "body": b""})

    async def ask() -> list[bool]:
        sent: list[dict[str, Any]] = []

        async def send(message: Any) -> None:
            sent.append(message)

        outer = ending_connections(app, ConnectionCounts(counts, 0))
        for _ in range(10):
            await outer({"type": "http"}, None, send)  # type: ignore[arg-type]
        heads = [message["headers"] for message in sent if "headers" in message]
        assert all((b"x", b"y") in head for head in heads)
        return [(b"connection", b"close") in head for head in heads]

    assert asyncio.run(ask()) == [True] * ended + [False] * (10 - ended)
    assert counts == [8 - ended, 3]


def test_freed_memory_is_returned_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    own = processes.allocator_trim()
    assert own is None or own(0) in (0, 1)
    called = threading.Event()
    monkeypatch.setattr(processes, "TRIM_SECONDS", 0.001)
    monkeypatch.setattr(processes, "allocator_trim", lambda: lambda kept: called.set())
    processes.start_trimming()
    assert called.wait(20)
