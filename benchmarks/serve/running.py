"""A running server on loopback for the campaigns, with supervisor, workers and writer as separate processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

import httpx2 as httpx
from tests.chat_server import ChatServer

from mergewise.models.scripted import Script
from mergewise.server.records import Scope
from mergewise.server.state import State

STARTING = 120.0
SCOPES: tuple[Scope, ...] = ("read", "write", "admin")


@dataclass(frozen=True)
class RunningServer:
    """The address of a server, its process, and a token with every scope and no rate limit."""

    url: str
    token: str
    data: Path
    process: subprocess.Popen[bytes]
    chat: ChatServer

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=self.headers, timeout=60, verify=False)

    def memory(self) -> dict[str, int]:
        """Return the resident bytes of the server's processes, in the order of their start."""
        return {name: _resident(pid) for name, pid in self._processes().items()}

    def cpu_seconds(self) -> float:
        """Return the processor seconds of all processes of the server."""
        return sum(self.cpu_seconds_by_process().values())

    def cpu_seconds_by_process(self) -> dict[str, float]:
        return {name: _cpu(pid) for name, pid in self._processes().items()}

    def _processes(self) -> dict[str, int]:
        # the evaluator starts only for its jobs
        names = chain(("supervisor", "tracker", "writer"), (f"worker {number}" for number in count(1)))
        return dict(zip(names, [self.process.pid, *_descendants(self.process.pid)], strict=False))


@contextmanager
def running_server(
    data: Path, script: Script, *, workers: int = 1, collections: Sequence[str] = (), limits: Mapping[str, object] = {}
) -> Iterator[RunningServer]:
    """Run a server with its state in `data` and a scripted chat model. All processes end with the block."""
    data.mkdir(parents=True, exist_ok=True)
    with ChatServer(script) as chat:
        lines = [
            "[chats.scripted]",
            'spec = "openai:scripted"',
            f'base_url = "{chat.base_url}"',
            'key_env = "SCRIPTED_KEY"',
        ]
        lines += [f"[collections.{name}]" for name in collections]
        lines += ["[limits]", *(f"{name} = {value}" for name, value in limits.items())]
        (data / "serve.toml").write_text("\n".join(lines) + "\n")
        with State(data / "server.sqlite") as state:
            token = state.tokens.add(SCOPES, rate=1e6)[1]
        words = [sys.executable, "-m", "mergewise", "serve", str(data), "--port", "0", "--workers", str(workers)]
        with (data / "log").open("ab") as log:
            process = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=log, env={**os.environ, "SCRIPTED_KEY": "sk-scripted"}
            )
        try:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            assert line.startswith("http://"), (data / "log").read_text()[-3000:]
            server = RunningServer(line.partition("/#")[0].strip(), token, data, process, chat)
            _wait_until_ready(server)
            yield server
        finally:
            process.terminate()
            process.communicate(timeout=30)


def _wait_until_ready(server: RunningServer) -> None:
    until = time.monotonic() + STARTING
    with server.client() as client:
        while client.get("/readyz").status_code != 200:
            assert time.monotonic() < until, "server not ready"
            time.sleep(0.2)


def _descendants(pid: int) -> list[int]:
    try:
        children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [*children, *(each for child in children for each in _descendants(child))]


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
