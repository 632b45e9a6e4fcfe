"""The parent of a server's processes: workers that answer on one socket, a single writer, and an evaluator.

All processes are spawned, never forked: an index does not work in a forked child. A process that dies is restarted after a pause
that doubles each time. If a process repeatedly dies at its start, the server ends with the reason.

    SIGTERM, Ctrl-C   workers refuse new requests (503), running answers get 8 seconds, and all ends within 10 seconds
    NOTIFY_SOCKET     systemd is notified when the server is ready, and when it ends
"""

from __future__ import annotations

import ctypes
import errno
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Any

from mergewise.errors import MergewiseError, StoreError, UsageError
from mergewise.extend import write_whole
from mergewise.server.balance import ABSENT, ConnectionCounts, SharedListener, ending_connections
from mergewise.server.configuration import ServerConfig
from mergewise.server.locks import lock_file, waiting_lock
from mergewise.server.logs import log, log_as_json
from mergewise.server.records import SCOPES, CollectionRecord
from mergewise.server.state import State

APP = "mergewise.server.app"
"""The module of the application, with `create_app(config, state)` and optionally `uvicorn_options(config)`."""
STREAM_SECONDS = 8.4
"""Seconds for running answers at shutdown. The application ends its streams after 8 seconds, with an event."""
END_SECONDS = 9.7
"""Seconds from the start of the shutdown until remaining processes are killed."""
NICE = {"writer": 5, "evaluator": 10}
"""Nice values of the processes that run jobs. With too few cores, each gets a third of the CPU time of the one before it.

So questions come first, then uploads, then evaluations.
"""
QUICK_SECONDS = 10.0
"""Lifetime in seconds below which a death counts as quick."""
QUICK_DEATHS = 5
"""Number of quick deaths in a row after which the server gives up."""
TRIM_SECONDS = 10.0
"""Interval in seconds at which a process returns freed memory to the system."""
_START_SECONDS = 120.0


@dataclass
class Child:
    """A process that the supervisor keeps alive."""

    name: str
    start: Callable[[Connection], Any]
    on_death: Callable[[], None] = lambda: None
    process: Any = None
    messages: Any = None
    began: float = 0.0
    is_ready: bool = False
    reason: str = ""
    quick_deaths: int = 0
    not_before: float = 0.0

    def begin(self) -> None:
        self.messages, theirs = multiprocessing.Pipe(duplex=False)
        self.process, self.began, self.is_ready, self.reason = self.start(theirs), time.monotonic(), False, ""
        theirs.close()

    def read_messages(self) -> bool:
        """Read the messages of the process: "ready", or the reason of its end. Return whether it wakes the evaluator."""
        wakes = False
        with suppress(EOFError, OSError):
            while self.messages.poll():
                what, text = self.messages.recv()
                self.is_ready |= what == "ready"
                wakes |= what == "wake"
                self.reason = text or self.reason
        return wakes

    def reap(self) -> None:
        """Clean up after the death of the process, and schedule its restart."""
        self.read_messages()
        lived = time.monotonic() - self.began
        self.quick_deaths = self.quick_deaths + 1 if lived < QUICK_SECONDS else 0
        pause = min(15.0, 0.2 * 2**self.quick_deaths)
        self.not_before = time.monotonic() + pause
        code = self.process.exitcode
        self.reason = self.reason or (f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}")
        # jobs' processes end when they have nothing to do
        if code or self.quick_deaths:
            log.warning("%s died after %.1f s (%s), restarting in %.1f s", self.name, lived, self.reason, pause)
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            from prometheus_client.multiprocess import mark_process_dead

            # drops the live gauges of the process
            mark_process_dead(self.process.pid)  # type: ignore[no-untyped-call]
        self.on_death()
        self.process.join()
        self.process = None
        self.messages.close()


@dataclass
class Supervisor:
    """The parent that starts, watches and ends the processes of a server. The evaluator runs while the writer asks for it.

    `on_ready` is called with the URL of the server, and with the new token at the first start.
    """

    config: ServerConfig
    app: str = APP
    on_ready: Callable[[str, str | None], None] = lambda url, secret: None
    children: list[Child] = field(default_factory=list)
    _ending: bool = False
    _is_ready: bool = False
    _is_awake: bool = False
    _secret: str | None = None

    def run(self) -> None:
        """Run the server until it is ended, and all its processes too.

        Raises UsageError if the port is in use, IndexBusy if another server uses the data, StoreError if a process keeps dying.
        """
        allow_descriptors()
        data = self.config.data
        refusal = f"another server is running on {data}", "stop it first, or serve other data"
        with waiting_lock(lock_file(data, "supervisor"), 0, refusal):
            for end in (signal.SIGTERM, signal.SIGINT):
                signal.signal(end, self._stop)
            with State.of(self.config) as state:
                self._secret = prepare(self.config, state)
                for name, collection in self.config.collections.items() if self.config.role != "web" else ():
                    if collection.sources or (collection.folders and not self.config.watch):
                        queue_first_sync(state, name)
            # an empty folder in which the workers of this run share their metrics
            metrics = data / "metrics"
            shutil.rmtree(metrics, ignore_errors=True)
            metrics.mkdir(mode=0o700)
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(metrics.absolute())
            # a writer answers nothing
            with nullcontext() if self.config.role == "writer" else listening_socket(self.config) as listener:
                spawn = multiprocessing.get_context("spawn")

                def start(main: Callable[..., None], more: Sequence[object], messages: Connection) -> Any:
                    process = spawn.Process(target=_run_process, args=(main, os.getpid(), self.config, messages, *more))
                    process.start()
                    return process

                port, workers = (0, 0) if listener is None else (listener.getsockname()[1], self.config.workers)
                for name in NICE if self.config.role != "web" else ():
                    self.children.append(Child(name, partial(start, _jobs_process, [name])))
                counts = spawn.RawArray("i", [ABSENT] * workers)
                for number in range(workers):
                    own = ConnectionCounts(counts, number)
                    begin = partial(start, _worker, [self.app, listener, own])
                    self.children.append(Child(f"worker {number + 1}", begin, partial(own.set, ABSENT)))
                try:
                    while not self._ending:
                        self._look_after(port)
                finally:
                    self._end()

    def _look_after(self, port: int) -> None:
        now = time.monotonic()
        for child in self.children:
            if child.process is not None and not child.process.is_alive():
                child.reap()
                self._is_awake &= child.name != "evaluator"
            if child.quick_deaths >= QUICK_DEATHS:
                raise StoreError(f"{child.name} died {QUICK_DEATHS} times in a row: {child.reason}", "see the log")
            if child.process is None and now >= child.not_before and (self._is_awake or child.name != "evaluator"):
                child.begin()
            if child.process is None:
                continue
            self._is_awake |= child.read_messages()
            if not child.is_ready and now - child.began > _START_SECONDS:
                child.reason = f"not ready after {_START_SECONDS:.0f} s"
                child.process.kill()
        if not self._is_ready and all(child.is_ready or child.name == "evaluator" for child in self.children):
            self._is_ready = True
            tell_systemd("READY=1")
            self.on_ready(replace(self.config, port=port).url, self._secret)
        wait([child.process.sentinel for child in self.children if child.process is not None], 0.2)

    def _end(self) -> None:
        tell_systemd("STOPPING=1")
        until = time.monotonic() + END_SECONDS
        running = [child.process for child in self.children if child.process is not None]
        for process in running:
            process.terminate()
        for process in running:
            process.join(max(0.0, until - time.monotonic()))
        for process in running:
            if process.is_alive():
                log.warning("process did not end in time, killing it")
                process.kill()
                process.join()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._ending = True


# -- before the first process


def prepare(config: ServerConfig, state: State) -> str | None:
    """Create the records of the configured collections, and the first token in a file that only its owner may read.

    Return the token if it was created now.
    """
    for known in state.collections.all():
        if known.configured and known.name not in config.collections:
            state.collections.forget(known.name)
    for name, own in config.collections.items():
        place, views = config.home_of(name), own.views or ("leaf",)
        path, blobs = str(own.path or place / "index"), str(place / "blobs")
        record = CollectionRecord(name, path, blobs, own.title, own.embedder, views, defaults=own.defaults)
        state.collections.add(replace(record, configured=True))
    if not config.needs_token or state.tokens.all():
        return None
    _, secret = state.tokens.add(SCOPES, title="the first start")
    write_whole(token_file(config.data), f"{secret}\n".encode(), 0o600)
    return secret


def queue_first_sync(state: State, name: str) -> None:
    """Queue a `sync` of a collection's folders at the start, unless it waits already or just killed the writer."""
    last = state.jobs.last_sync(name)
    if last is not None and (last.error or {}).get("code") == "writer_killed":
        log.warning("not indexing the folders of %s: the writer died at them. Start a job `sync` to try again", name)
    elif last is None or last.has_ended:
        log.info("indexing the folders of %s", name)
        state.jobs.enqueue("sync", name)


def saved_token(config: ServerConfig) -> str | None:
    """Return the token in the file of the first start, or None if the file is missing or the token no longer works."""
    try:
        secret = token_file(config.data).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    with State.of(config) as state:
        return secret if state.tokens.authenticate(secret) is not None else None


def token_file(data: Path) -> Path:
    """Return the path of the file with the token of the first start."""
    return data / "token"


def allow_descriptors() -> None:
    """Raise the soft limit of open files to the hard one: each connection needs a descriptor. Child processes inherit it."""
    # Windows has no such limit, and macOS refuses a limit without a number
    with suppress(ImportError, OSError, ValueError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextmanager
def listening_socket(config: ServerConfig) -> Iterator[socket.socket]:
    """Open the socket that all workers share. Raises UsageError if the address is in use or invalid."""
    try:
        found = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        listener = socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        problem = f"cannot listen on {config.host}:{config.port}: {error.strerror}", "choose another --host"
        if error.errno == errno.EADDRINUSE:
            hint = "stop the program that listens there, or choose another --port"
            problem = f"port {config.port} is in use", hint
        raise UsageError(*problem) from None
    with listener:
        yield listener


def reserve_metrics() -> None:
    """Reserve the disk space of this worker's metrics. On a full disk, a write to the mapped files would end the process."""
    for file in Path(os.environ.get("PROMETHEUS_MULTIPROC_DIR", os.devnull)).glob(f"*_{os.getpid()}.db"):
        # not every system and file system can
        with suppress(OSError, AttributeError), file.open("r+b") as opened:
            os.posix_fallocate(opened.fileno(), 0, file.stat().st_size)


def tell_systemd(message: str) -> None:
    """Send a message to systemd. Do nothing if systemd does not listen."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if not place or not hasattr(socket, "AF_UNIX"):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
        # a leading @ marks a socket in the abstract namespace
        notifier.sendto(message.encode(), "\0" + place[1:] if place.startswith("@") else place)


# -- the processes


def _run_process(
    main: Callable[..., None], parent: int, config: ServerConfig, messages: Connection, *more: Any
) -> None:
    """Run a process, and report the reason of its end to the supervisor. Log a traceback for unexpected errors only."""
    log_as_json()
    start_trimming()
    try:
        main(parent, config, messages, *more)
    except Exception as error:
        is_expected = isinstance(error, MergewiseError)
        log.error("%s", error if is_expected else "process failed", exc_info=not is_expected)
        _send(messages, "reason", str(error) if is_expected else f"{type(error).__name__}: {error}")
        raise SystemExit(1) from None


def _jobs_process(parent: int, config: ServerConfig, messages: Connection, name: str) -> None:
    from mergewise.server.jobs.process import run_jobs

    if hasattr(os, "nice"):
        os.nice(NICE[name])
    _send(messages, "ready")
    run_jobs(config, parent, name, partial(_send, messages, "wake"))


def _worker(
    parent: int, config: ServerConfig, messages: Connection, app: str, listener: socket.socket, counts: ConnectionCounts
) -> None:
    import uvicorn

    room = import_module(app)
    state = State.of(config)
    options: dict[str, Any] = room.uvicorn_options(config) if hasattr(room, "uvicorn_options") else {}
    options |= {"log_config": None, "access_log": False, "timeout_graceful_shutdown": 1}
    options |= {"ssl_certfile": config.tls_certificate, "ssl_keyfile": config.tls_key}
    uvicorn_config = uvicorn.Config(ending_connections(room.create_app(config, state), counts), **options)
    reserve_metrics()

    class DrainingServer(uvicorn.Server):
        """A server that finishes its answers at shutdown, while the application refuses new requests with 503."""

        _since: float | None = None

        @contextmanager
        def capture_signals(self) -> Any:
            # the terminal sends Ctrl-C to all processes; the supervisor forwards it as SIGTERM
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, lambda *_: state.draining.set())
            yield

        async def startup(self, sockets: Sequence[socket.socket] | None = None) -> None:
            await super().startup(list(sockets or ()))
            if self.started:
                _send(messages, "ready")

        async def on_tick(self, counter: int) -> bool:
            counts.set(len(self.server_state.connections))
            if os.getppid() != parent:
                state.draining.set()
            if state.draining.is_set():
                self._since = self._since or time.monotonic()
                waited = time.monotonic() - self._since
                # an idle server too answers 503 for a moment, for health checks
                is_idle = not self.server_state.tasks and waited > 0.5
                self.should_exit |= is_idle or waited > STREAM_SECONDS
            return await super().on_tick(counter)

    DrainingServer(uvicorn_config).run(sockets=[SharedListener(listener, counts)])
    state.close()


def _send(messages: Connection, what: str, text: str = "") -> None:
    # fails if the supervisor was killed
    with suppress(OSError):
        messages.send((what, text))


def start_trimming() -> None:
    """Start a thread that returns freed memory to the system every few seconds, if the allocator supports it.

    Questions and changes leave many small gaps in glibc's heaps, and each thread may have its own heap. With a change per second,
    a worker grew by 30 MB and the writer by 100 MB within minutes, although they used the same amount of memory.
    """
    if (trim := allocator_trim()) is None:
        return

    def trim_again() -> None:
        while True:
            time.sleep(TRIM_SECONDS)
            trim(0)

    Thread(target=trim_again, name="memory", daemon=True).start()


def allocator_trim() -> Callable[[int], object] | None:
    """Return glibc's `malloc_trim(pad)`, or None with another allocator. `pad` is the number of free bytes to keep."""
    if sys.platform != "linux":
        return None
    trim: Callable[[int], object] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim
