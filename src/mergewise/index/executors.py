"""Where batches are worked on: in this process, in workers beside it, or on a cluster. The pipeline knows the `Executor` alone.

A worker of this machine is a fresh interpreter (`python -m mergewise.index.worker`): never a fork, which LanceDB forbids, and
never one that runs the caller's script again, as those of `multiprocessing` do, so that no script needs
`if __name__ == "__main__"`. `index.cluster` has the workers of a cluster. Functions and items travel pickled. What cannot be
pickled, and what workers had when they died, is done in this process at its turn: results come whole and in order whatever
becomes of the workers.

    threads    two a worker: one waits for an answer, the other has the next request ready
    memory     `AHEAD` items a worker are under way at most, or wait for one before them
    logs       what a worker logs, and its warnings, are told here when its result is taken
    ends       workers ignore Ctrl-C, which this process gets; they end with it, also where it is killed
"""

from __future__ import annotations

import logging
import pickle
import subprocess
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from queue import SimpleQueue
from threading import Lock, Thread
from time import monotonic
from typing import Any, Protocol, TypeAlias, TypeVar

from mergewise.errors import UsageError
from mergewise.index import worker
from mergewise.index.worker import read_frame, write_frame
from mergewise.models.minilm import cores
from mergewise.readers.sandbox import ending_of, start_sandbox

log = logging.getLogger("mergewise")

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_WORKER, AHEAD = 2, 4
"""Items that a worker has or that wait for it, and items a worker that are under way in all."""
LOOK_SECONDS = 0.2
"""Between two calls of `waiting`."""
START_SECONDS = 60.0
"""After which it is said that no worker has started."""
CHARACTERS_A_WORKER = 4_000_000
"""Of work, or bytes of files, for which it pays to start a worker (docs/evaluation.md)."""
_END = object()
NO_MORE_THREADS = {"TOKENIZERS_PARALLELISM": "false"}


class Executor(Protocol):
    """Where a function of the pipeline is called for each of many items."""

    @property
    def workers(self) -> int:
        """The processes beside this one; 0 where the caller does the work."""
        ...

    @property
    def is_cluster(self) -> bool:
        """Whether workers have processors of their own, so that each of them loads large models too."""
        ...

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], waiting: Callable[[], None] = lambda: None
    ) -> Iterator[Result]:
        """Return the results in the order of the items, of which only so many are taken ahead.

        `waiting` is called now and then while no result is there, and may raise. An error of the function is raised in the
        place of its result.
        """
        ...


Executors: TypeAlias = Callable[[int], AbstractContextManager[Executor]]
"""Opens an executor for work of so many characters."""


class Inline:
    """The caller does the work, one item after the other."""

    workers = 0
    is_cluster = False

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], waiting: Callable[[], None] = lambda: None
    ) -> Iterator[Result]:
        return map(function, items)


INLINE = Inline()


@contextmanager
def in_workers(size: int, workers: int | None = None) -> Iterator[Executor]:
    """An executor of so many `workers`; where None are named, of as many as there are cores and the size of the work pays for."""
    count = min(cores(), size // CHARACTERS_A_WORKER) if workers is None else workers
    if count < 2:
        yield INLINE
        return
    pool = WorkerPool(count)
    try:
        yield pool
    finally:
        pool.close()


HERE: Executors = partial(in_workers, workers=1)


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """What a worker says to a request: a value, an error, or that it could not do it. `logged` and `warned` are told here."""

    value: Any = None
    error: Exception | None = None
    is_refused: bool = False
    logged: tuple[logging.LogRecord, ...] = ()
    warned: tuple[tuple[str, type[Warning], str, int], ...] = ()


class PoolWorker(Protocol):
    """A worker of a pool, which does one item at a time. Its `pid` is 0 until it has begun."""

    name: str
    pid: int

    def begin(self) -> None:
        """Wait until the worker is ready. Raises an error if it never will be."""
        ...

    def ask(self, request: bytes) -> bytes:
        """Return the pickled fields of a `WorkerAnswer` to a pickled function and item. Raises an error if the worker ended."""
        ...

    def end(self, error: Exception | None = None) -> str:
        """End the worker, unless it has ended by this error. Return how it ended."""
        ...


class WorkerPool:
    """An `Executor` of workers, which start with the first item. One `map` at a time.

    An item with which so many workers died (`tries`) is done here. A worker of a cluster that dies is replaced.
    """

    def __init__(
        self, workers: int, new_worker: Callable[[], PoolWorker] | None = None, tries: int = 1, is_cluster: bool = False
    ) -> None:
        self.workers, self.is_cluster = workers, is_cluster
        self._new_worker = new_worker or partial(_WorkerProcess, max(1, cores() // workers))
        self._tries = tries
        self._lock = Lock()
        self._pool: list[PoolWorker] = []
        # those that have nothing to do; None once all have ended
        self._idle: SimpleQueue[PoolWorker | None] = SimpleQueue()
        self._threads = ThreadPoolExecutor(AT_WORKER * workers, thread_name_prefix="mergewise-worker")
        self._began = 0.0
        self._fault: UsageError | None = None

    @property
    def pids(self) -> list[int]:
        """The processes that live."""
        return [worker.pid for worker in self._pool if worker.pid]

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], waiting: Callable[[], None] = lambda: None
    ) -> Iterator[Result]:
        if not self._began:
            self._began = monotonic()
            with self._lock:
                for _ in range(self.workers):
                    self._add_worker()
        rest = iter(items)
        under_way: deque[tuple[Any, Future[WorkerAnswer | None]]] = deque()
        try:
            while True:
                while len(under_way) < AHEAD * self.workers and (item := next(rest, _END)) is not _END:
                    under_way.append((item, self._threads.submit(self._answer, function, item)))
                if not under_way:
                    return
                first, future = under_way[0]
                while not wait([future], LOOK_SECONDS).done:
                    self._look_at_start()
                    waiting()
                under_way.popleft()
                answer = future.result()
                yield function(first) if answer is None else _result(answer)
        finally:
            for _, future in under_way:
                future.cancel()

    def close(self) -> None:
        with self._lock:
            ended, self._pool = self._pool, []
        for one in ended:
            one.end()
        self._idle.put(None)
        self._threads.shutdown(cancel_futures=True)

    def _answer(self, function: Callable[[Any], object], item: Any) -> WorkerAnswer | None:
        """Return the answer of a worker; None if this process is to do the item."""
        try:
            request = pickle.dumps((function, item), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            # pickling calls what others wrote
            log.info("it is done in this process, as it cannot be sent to a worker: %s", error)
            return None
        for _ in range(self._tries):
            one = self._idle.get()
            if one is None:
                self._idle.put(None)
                if self._fault is not None:
                    raise self._fault
                return None
            try:
                answer = WorkerAnswer(**pickle.loads(one.ask(request)))
            except Exception as error:
                self._remove(one, error, has_begun=True)
            else:
                self._idle.put(one)
                return None if answer.is_refused else answer
        return None

    def _add_worker(self) -> None:
        one = self._new_worker()
        self._pool.append(one)
        Thread(target=self._begin, args=(one,), name="mergewise-worker", daemon=True).start()

    def _begin(self, one: PoolWorker) -> None:
        try:
            one.begin()
        except Exception as error:
            self._remove(one, error, has_begun=False)
            return
        self._began = inf
        with self._lock:
            if one in self._pool:
                self._idle.put(one)
                return
        # the pool was closed meanwhile
        one.end()

    def _remove(self, one: PoolWorker, error: Exception, *, has_begun: bool) -> None:
        """Go on without a worker that ended; on a cluster, with another one in its place."""
        with self._lock:
            if one not in self._pool:
                return
            self._pool.remove(one)
            why = one.end(error)
            log.warning("%s ended (%s): what it had is done %s", one.name, why, "again" if self._tries > 1 else "here")
            if self.is_cluster and has_begun:
                self._add_worker()
            elif not self._pool:
                if self.is_cluster:
                    hint = "install this mergewise on every node"
                    self._fault = UsageError(f"no worker can start on the cluster: {why}", hint)
                self._idle.put(None)

    def _look_at_start(self) -> None:
        if monotonic() - self._began > START_SECONDS:
            log.warning("no worker has started for %.0f seconds: is there room for one?", START_SECONDS)
            self._began = inf


class _WorkerProcess:
    """A process of this machine. It is ready at once: what it is sent waits until it has started."""

    def __init__(self, threads: int) -> None:
        self.name, self.pid = "worker", 0
        self._env = {**NO_MORE_THREADS, "OMP_NUM_THREADS": str(threads)}
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        self._process = start_sandbox(
            worker.__name__, *map(str, log_levels()), stderr=None, env=self._env, own_group=True
        )
        self.pid = self._process.pid
        self.name = f"worker {self.pid}"

    def ask(self, request: bytes) -> bytes:
        assert self._process is not None and self._process.stdin is not None and self._process.stdout is not None
        write_frame(self._process.stdin, request)
        answer = read_frame(self._process.stdout)
        if answer is None:
            raise EOFError
        return answer

    def end(self, error: Exception | None = None) -> str:
        if self._process is None:
            return str(error)
        with suppress(OSError):
            self._process.kill()
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()
        return ending_of(code)


def log_levels() -> tuple[int, int]:
    """What workers are to log: the levels of all loggers, and of this package's."""
    every, own = (logging.getLogger(name).getEffectiveLevel() for name in ("", "mergewise"))
    return every, own


def _result(answer: WorkerAnswer) -> Any:
    """The value, or its error, after what was logged meanwhile."""
    for record in answer.logged:
        logger = logging.getLogger(record.name)
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)
    for message, category, path, line in answer.warned:
        warnings.warn_explicit(message, category, path, line)
    if answer.error is not None:
        raise answer.error
    return answer.value
