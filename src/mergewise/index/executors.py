"""Executors of batches: in this process, in worker processes, or on a cluster. The pipeline knows only the `Executor` protocol.

A local worker is a new interpreter (`python -m mergewise.index.worker`). It is never a fork, which LanceDB forbids. And it never
runs the caller's script again, as `multiprocessing` does, so no script needs `if __name__ == "__main__"`. `index.cluster` defines
the workers of a cluster.

Functions and items are pickled. An item that cannot be pickled, or whose worker died, is processed in this process at its turn.
So results are complete and in order, even if workers die.

    threads    two per worker: one waits for an answer, the other has the next request ready
    memory     at most `AHEAD` items per worker are sent, or wait for earlier results
    logs       logs and warnings of a worker are emitted here when its result is read
    exit       workers ignore Ctrl-C, which this process handles; they end with this process, even if it is killed
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import copy_context
from functools import partial
from math import inf
from queue import SimpleQueue
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from mergewise.errors import UsageError
from mergewise.index import worker
from mergewise.index.worker import read_frame, write_frame
from mergewise.log import log
from mergewise.models.onnx import cores
from mergewise.readers.sandbox import ending_of, start_sandbox
from mergewise.tracing import span

if TYPE_CHECKING:
    from mergewise.index.cluster import ClusterWorker

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_WORKER, AHEAD = 2, 4
"""Number of items at a worker or in its queue, and number of unfinished items per worker in all."""
LOOK_SECONDS = 0.2
"""Seconds between two calls of `waiting`."""
START_SECONDS = 60.0
"""Seconds after which a warning says that no worker has started."""
CHARACTERS_A_WORKER = 4_000_000
"""Characters of work, or bytes of files, that justify one worker, whose start takes 0.65 to 0.9 seconds of a processor."""
_END = object()
NO_MORE_THREADS = {"TOKENIZERS_PARALLELISM": "false"}


class Executor(Protocol):
    """A way to call a function of the pipeline for each of many items."""

    workers: int
    """Number of worker processes, or 0 if the caller does the work."""
    is_cluster: bool
    """True if workers have their own processors, so that each can load large models."""

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], waiting: Callable[[], None] = lambda: None
    ) -> Iterator[Result]:
        """Yield the results in the order of the items. Only a limited number of items is read ahead.

        `waiting` is called from time to time until a result is ready, and may raise. An error of the function is raised in
        place of its result.
        """


Executors: TypeAlias = Callable[[int], AbstractContextManager[Executor]]
"""A function that opens an executor for work of a given size in characters."""


class Inline:
    """The executor in which the caller does the work, item by item."""

    workers = 0
    is_cluster = False

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], waiting: Callable[[], None] = lambda: None
    ) -> Iterator[Result]:
        return map(function, items)


INLINE = Inline()


@contextmanager
def in_workers(size: int, workers: int | None = None) -> Iterator[Executor]:
    """Open an executor of local workers. By default their number depends on the cores and the size of the work."""
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


class WorkerAnswer(NamedTuple):
    """A worker's answer: a value, an error or a refusal. `logged` and `warned` are the worker's logs and warnings."""

    value: Any = None
    error: Exception | None = None
    is_refused: bool = False
    logged: tuple[logging.LogRecord, ...] = ()
    warned: tuple[tuple[str, type[Warning], str, int], ...] = ()


PoolWorker: TypeAlias = "_WorkerProcess | ClusterWorker"
"""A worker of a pool, which processes one item at a time. Its `pid` is 0 until it has started."""


class WorkerPool:
    """An `Executor` of workers, which start with the first item. Only one `map` may run at a time.

    After `tries` dead workers, an item is processed in this process. On a cluster, dead workers are replaced.
    """

    def __init__(
        self, workers: int, new_worker: Callable[[], PoolWorker] | None = None, tries: int = 1, is_cluster: bool = False
    ) -> None:
        self.workers, self.is_cluster = workers, is_cluster
        self._new_worker = new_worker or partial(_WorkerProcess, max(1, cores() // workers))
        self._tries = tries
        self._lock = Lock()
        self._pool: list[PoolWorker] = []
        # idle workers, and None when all have ended
        self._idle: SimpleQueue[PoolWorker | None] = SimpleQueue()
        self._threads = ThreadPoolExecutor(AT_WORKER * workers, thread_name_prefix="mergewise-worker")
        self._began = 0.0
        self._fault: UsageError | None = None

    @property
    def pids(self) -> list[int]:
        """The ids of the running worker processes."""
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
                    under_way.append((item, self._threads.submit(copy_context().run, self._answer, function, item)))
                if not under_way:
                    return
                first, future = under_way[0]
                while not wait([future], LOOK_SECONDS).done:
                    if monotonic() - self._began > START_SECONDS:
                        log.warning("no worker has started for %.0f seconds: check the free resources", START_SECONDS)
                        self._began = inf
                    waiting()
                under_way.popleft()
                answer = future.result()
                if answer is None:
                    yield function(first)
                    continue
                # the logs and warnings of the worker are emitted here
                for record in answer.logged:
                    logger = logging.getLogger(record.name)
                    if logger.isEnabledFor(record.levelno):
                        logger.handle(record)
                for message, category, path, line in answer.warned:
                    warnings.warn_explicit(message, category, path, line)
                if answer.error is not None:
                    raise answer.error
                yield answer.value
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
        """Return the answer of a worker, or None if this process must process the item."""
        try:
            request = pickle.dumps((function, item), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            # any error, because pickling may call foreign code
            log.info("cannot send an item to a worker, processing it here: %s", error)
            return None
        for _ in range(self._tries):
            one = self._idle.get()
            if one is None:
                self._idle.put(None)
                if self._fault is not None:
                    raise self._fault
                return None
            try:
                with span("mergewise.worker", {"mergewise.worker": one.name}):
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
        # the pool was closed in the meantime
        one.end()

    def _remove(self, one: PoolWorker, error: Exception, *, has_begun: bool) -> None:
        """Remove a worker that ended. On a cluster, replace it."""
        with self._lock:
            if one not in self._pool:
                return
            self._pool.remove(one)
            why = one.end(error)
            log.warning(
                "%s ended (%s): its item is processed %s", one.name, why, "again" if self._tries > 1 else "here"
            )
            if self.is_cluster and has_begun:
                self._add_worker()
            elif not self._pool:
                if self.is_cluster:
                    hint = "install this mergewise on every node"
                    self._fault = UsageError(f"cannot start a worker on the cluster: {why}", hint)
                self._idle.put(None)


class _WorkerProcess:
    """A local worker process. It accepts requests at once, and answers them when it has started."""

    def __init__(self, threads: int) -> None:
        self.name, self.pid = "worker", 0
        self._environment = {**os.environ, **NO_MORE_THREADS, "OMP_NUM_THREADS": str(threads)}
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Wait until the worker is ready. Raise an error if it cannot start."""
        self._process = start_sandbox(
            worker.__name__, *map(str, log_levels()), stderr=None, environment=self._environment, own_group=True
        )
        self.pid = self._process.pid
        self.name = f"worker {self.pid}"

    def ask(self, request: bytes) -> bytes:
        """Send a pickled function and item. Return the pickled fields of a `WorkerAnswer`. Raise an error if the worker ended."""
        assert self._process is not None and self._process.stdin is not None and self._process.stdout is not None
        write_frame(self._process.stdin, request)
        answer = read_frame(self._process.stdout)
        if answer is None:
            raise EOFError
        return answer

    def end(self, error: Exception | None = None) -> str:
        """End the worker if it still runs. Return the reason of its end, which may be `error`."""
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
    """Return the log levels for workers: that of all loggers, and that of this package."""
    every, own = (logging.getLogger(name).getEffectiveLevel() for name in ("", "mergewise"))
    return every, own
