"""The processes of a server: restarts, shutdown in time, and exclusive use of the data."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.client import HTTPException
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

import mergewise as mw
from mergewise.errors import IndexBusy, StoreError, UsageError
from mergewise.server import processes
from mergewise.server.balance import ABSENT, ConnectionCounts
from mergewise.server.configuration import CollectionConfig, ServerConfig
from mergewise.server.processes import Child, Supervisor, listening_socket, prepare, tell_systemd, token_file
from mergewise.server.state import State
from tests.chat_server import ChatServer
from tests.server.killing import Summarizer, assert_each_done_once, queue
from tests.support import patience, until

pytest.importorskip("uvicorn")
pytest.importorskip("openai")
ROOT = Path(__file__).parents[2]
TINY = """
import sys
from pathlib import Path
from mergewise.server.configuration import CollectionConfig, ModelConfig, ServerConfig
from mergewise.server.processes import Supervisor

if __name__ == "__main__":
    config = ServerConfig(
        Path(sys.argv[1]),
        port=0,
        workers=1,
        chats={"local": ModelConfig("openai:m", base_url=sys.argv[2], key_env="SCRIPTED_KEY")},
        collections={"a": CollectionConfig(embedder="none", views=("leaf", "slice"), chat="local")},
    )
    Supervisor(config, "tests.server.tiny_app", lambda url, secret: print(url, secret, flush=True)).run()
"""


PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def fetch(address: str) -> tuple[int, str]:
    """Return the status and the body. The status is 0 without an answer."""
    try:
        with urlopen(address, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except URLError as error:
        return getattr(error, "code", 0), ""
    except (OSError, HTTPException):
        return 0, ""


@pytest.fixture
def notified(tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    place = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(place)
        listener.setblocking(False)
        yield place, listener


@pytest.mark.slow
def test_a_server_lives_and_ends(tmp_path: Path, notified: tuple[str, socket.socket]) -> None:
    """Test the whole life in one run, since each start takes seconds."""
    data, script = tmp_path / "data", tmp_path / "tiny.py"
    script.write_text(TINY)
    chat = Summarizer(data)
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "NOTIFY_SOCKET": notified[0], "SCRIPTED_KEY": "sk-scripted"}
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    few = ["sh", "-c", 'ulimit -S -n 256; exec "$@"', "sh"]
    with (
        ChatServer(chat) as endpoint,
        subprocess.Popen([*few, sys.executable, script, data, endpoint.base_url], env=environment, **PIPES) as server,
    ):
        try:
            assert server.stdout is not None and server.stderr is not None
            url, secret = server.stdout.readline().split()
            # each connection needs a descriptor
            limits = Path(f"/proc/{fetch(url)[1]}/limits").read_text()
            assert re.search(rf"^Max open files +{hard} +{hard} ", limits, re.MULTILINE)
            assert notified[1].recv(100) == b"READY=1"
            assert token_file(data).read_text() == f"{secret}\n" and token_file(data).stat().st_mode & 0o077 == 0
            assert until(lambda: fetch(f"{url}/readyz")[0] == 200)

            # a killed worker is replaced
            worker = fetch(url)[1]
            os.kill(int(worker), signal.SIGKILL)
            assert until(lambda: fetch(url)[1] not in ("", worker))

            # kill the writer during a model call: each job ends once, and only the interrupted call is repeated
            with State(data / "server.sqlite") as state:
                assert state.tokens.authenticate(secret) is not None
                jobs = [
                    queue(state, data, f"d{n}", f"# Town {n}\n\nIn town {n} they built a bridge.\n") for n in range(16)
                ]
                assert until(lambda: len(chat.asked) > 2)
                writer = int((data / "writer.beat").read_text())
                os.kill(writer, signal.SIGKILL)
                assert until(lambda: state.jobs.counts() == {"done": len(jobs)})
                assert [state.jobs.get(job).kills > 0 for job in jobs].count(True) > 0  # type: ignore[union-attr]
                assert_each_done_once(state, jobs)

                # the evaluator starts when a job waits for it, and a killed one is replaced
                beat = data / "evaluator.beat"
                assert not beat.exists()
                for _ in range(2):
                    check = state.jobs.enqueue("check", "a")
                    assert until(lambda: beat.exists() and bool(beat.read_text()))
                    os.kill(int(beat.read_text()), signal.SIGKILL)
                    beat.unlink()
                    assert until(lambda: state.jobs.get(check.id).state == "done")  # type: ignore[union-attr]  # noqa: B023
                    assert state.jobs.get(check.id).report == {"problems": []}  # type: ignore[union-attr]
            assert len(set(chat.asked)) == 16 and not any(chat.paid_twice)
            with mw.open(data / "collections/a/index", create=False) as index:
                assert index.check() == [] and len(index) == 16

            # a second server is refused the data
            config = ServerConfig(data, port=0)
            with pytest.raises(IndexBusy, match="another server"):
                Supervisor(config).run()

            # a running answer is finished, while new requests are refused
            streamed: list[tuple[int, str]] = []
            stream = threading.Thread(target=lambda: streamed.append(fetch(f"{url}/stream/2")))
            stream.start()
            time.sleep(0.5)
            began = time.monotonic()
            server.terminate()
            assert until(lambda: fetch(f"{url}/readyz")[0] in (503, 0), 5)
            _, errors = server.communicate(timeout=patience(30))
            assert server.returncode == 0 and time.monotonic() - began < patience(12)
            stream.join()
            assert streamed == [(200, "piece " * 20 + "end")]
            assert notified[1].recv(100) == b"STOPPING=1"
            lines = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
            assert lines and not any(secret in line for line in errors.splitlines())
            assert not (data / "writer.beat").exists() and not (data / "evaluator.beat").exists()
        finally:
            server.kill()


class DeadProcess:
    """A process that has ended."""

    exitcode = -9
    pid = 0
    sentinel = 0

    def is_alive(self) -> bool:
        return False

    def join(self, timeout: float | None = None) -> None:
        pass


def test_repeated_quick_deaths_end_the_server_with_the_reason(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(processes, "wait", lambda *_: None)
    server = Supervisor(ServerConfig(tmp_path))
    starts: list[float] = []
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def start(messages: Any) -> DeadProcess:
        starts.append(clock[0])
        messages.send(("reason", "no such model"))
        return DeadProcess()

    server.children = [Child("writer", start)]
    with pytest.raises(StoreError, match="writer died 5 times in a row: no such model"):
        for _ in range(1000):
            server._look_after(1)
            clock[0] += 0.1
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert len(starts) == 5 and gaps == sorted(gaps) and gaps[-1] > 4 * gaps[0]


def test_the_evaluator_runs_when_the_writer_wakes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "wait", lambda *_: None)
    server = Supervisor(ServerConfig(tmp_path))
    starts, pipes = list[str](), dict[str, Any]()

    class Process(DeadProcess):
        exitcode = 0
        has_ended = False

        def is_alive(self) -> bool:
            return not self.has_ended

    def start(name: str, messages: Any) -> Process:
        starts.append(name)
        pipes[name] = os.dup(messages.fileno())
        messages.send(("ready", ""))
        return Process()

    server.children = [Child(name, partial(start, name)) for name in ("writer", "evaluator")]
    writer, evaluator = server.children

    def pass_time(wakes: bool = False) -> None:
        if wakes:
            with Connection(os.dup(pipes["writer"])) as messages:
                messages.send(("wake", ""))
        for _ in range(3):
            writer.not_before = evaluator.not_before = 0.0
            server._look_after(1)

    pass_time()
    assert starts == ["writer"] and server._is_ready
    pass_time(wakes=True)
    assert starts == ["writer", "evaluator"]
    # both end when they have nothing to do
    writer.process.has_ended = evaluator.process.has_ended = True
    pass_time()
    assert starts == ["writer", "evaluator", "writer"] and evaluator.process is None
    pass_time(wakes=True)
    assert starts[3:] == ["evaluator"]
    for pipe in pipes.values():
        os.close(pipe)


def test_a_process_that_lived_long_restarts_at_once(tmp_path: Path, monkeypatch: Any) -> None:
    connections = [7, 3]
    child = Child("worker", lambda messages: DeadProcess(), partial(ConnectionCounts(connections, 0).set, ABSENT))
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    for _ in range(10):
        child.begin()
        clock[0] += 60
        child.reap()
        assert child.quick_deaths == 0 and child.reason == "signal SIGKILL" and child.not_before <= clock[0] + 0.5
    # other workers do not leave connections to a dead one
    assert connections == [ABSENT, 3] and ConnectionCounts(connections, 1).are_fewest()


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with listening_socket(ServerConfig(tmp_path, port=0)) as first:
        port = first.getsockname()[1]
        taken, nowhere = ServerConfig(tmp_path, port=port), ServerConfig(tmp_path, host="no.such.host.invalid")
        for config, message in ((taken, f"port {port} is in use"), (nowhere, "cannot listen on")):
            with pytest.raises(UsageError, match=message), listening_socket(config):
                pass


def test_collections_follow_the_configuration(tmp_path: Path) -> None:
    config = ServerConfig(tmp_path, collections={"a": CollectionConfig(title="A"), "b": CollectionConfig()})
    with State.of(config) as state:
        secret = prepare(config, state)
        assert secret is not None and prepare(config, state) is None
        assert state.collections.change("b", title="kept", defaults={"budget": 5})
        prepare(config, state)
        records = [(one.name, one.title, dict(one.defaults)) for one in state.collections.all()]
        assert records == [("a", "A", {}), ("b", "kept", {"budget": 5})]
        prepare(ServerConfig(tmp_path, collections={"b": CollectionConfig()}), state)
        assert [one.name for one in state.collections.all()] == ["b"]
        with State(tmp_path / "open" / "server.sqlite") as other:
            assert (
                prepare(ServerConfig(tmp_path / "open", needs_token=False), other) is None and other.tokens.all() == []
            )


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system reserves no space")
def test_the_space_of_metrics_is_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    processes.reserve_metrics()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    sparse = tmp_path / f"counter_{os.getpid()}.db"
    with sparse.open("wb") as file:
        file.truncate(65_536)
    processes.reserve_metrics()
    assert sparse.stat().st_size == 65_536 and 512 * sparse.stat().st_blocks >= 65_536


def test_systemd_is_notified(monkeypatch: pytest.MonkeyPatch, notified: tuple[str, socket.socket]) -> None:
    tell_systemd("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", "/no/such/place")
    tell_systemd("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", notified[0])
    tell_systemd("READY=1")
    assert notified[1].recv(100) == b"READY=1"
