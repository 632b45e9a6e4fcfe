"""Where batches are worked on: in this process, in workers beside it, or on a cluster. The pipeline knows the `Executor` alone.

A worker of this machine is a fresh interpreter (`python -m mergewise.index.worker`): never a fork, which LanceDB forbids, and
never one that runs the caller's script again, as those of `multiprocessing` do, so that no script needs
`if __name__ == "__main__"`. `index.cluster` has the workers of a cluster. Functions and items travel pickled. What cannot be
pickled, and what workers had when they died, is done in this process at its turn: results come whole and in order whatever
becomes of the workers.

    requests   two wait at each worker, so that none is idle while an answer is read
    memory     `AHEAD` items a worker are under way at most, or wait for one before them
    logs       what a worker logs, and its warnings, are told here when its result is taken
    ends       workers ignore Ctrl-C, which this process gets; they end with it, also where it is killed
"""

from __future__ import annotations

import logging
import pickle
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import IO, Any, Protocol, TypeAlias, TypeVar

from mergewise.errors import UsageError
from mergewise.models.minilm import cores
from mergewise.readers.sandbox import ending_of, start_sandbox

log = logging.getLogger("mergewise")

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_WORKER, AHEAD = 2, 4
"""Items that a worker holds, and items a worker that are under way in all."""
LOOK_SECONDS = 0.2
"""Between two calls of `waiting`."""
START_SECONDS = 60.0
"""After which it is said that no worker has started."""
CHARACTERS_A_WORKER = 4_000_000
"""Of work, or bytes of files, for which it pays to start a worker (docs/evaluation.md)."""
WORKER = "mergewise.index.worker"
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
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        waiting: Callable[[], None] = lambda: None,
        each: int = AT_WORKER,
    ) -> Iterator[Result]:
        """The results in the order of the items, of which only so many are taken ahead; so many wait at `each` worker.
        `waiting` is called now and then while no result is there, and may raise. An error of the function is raised in the
        place of its result."""
        ...


Executors: TypeAlias = Callable[[int], AbstractContextManager[Executor]]
"""Opens an executor for work of so many characters."""


class Inline:
    """The caller does the work, one item after the other."""

    workers = 0
    is_cluster = False

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        waiting: Callable[[], None] = lambda: None,
        each: int = AT_WORKER,
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


@dataclass(slots=True, eq=False)
class WorkItem:
    """An item on its way, with which so many workers died. It is `returned` until another one has it, and `lost` where none
    will answer."""

    item: Any
    answer: WorkerAnswer | None = None
    deaths: int = 0
    is_returned: bool = False
    is_lost: bool = False

    def request(self, function: Callable[[Any], object]) -> bytes | None:
        """What a worker is sent; None where that cannot be: the item is lost."""
        try:
            return pickle.dumps((function, self.item), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            # pickling calls what others wrote
            log.info("it is done in this process, as it cannot be sent to a worker: %s", error)
            self.is_lost = True
            return None


class PoolWorker(Protocol):
    """A worker of a pool, with the items that it was sent and has not answered, in order."""

    name: str
    pid: int
    is_ready: bool
    items: deque[WorkItem]

    def send(self, function: Callable[[Any], object], item: WorkItem) -> None:
        """Have an item done. One that cannot be sent is lost."""
        ...

    def end(self) -> str:
        """End the worker, unless it has ended. How it ended."""
        ...


WorkerAnswers: TypeAlias = "SimpleQueue[tuple[PoolWorker, WorkerAnswer | None]]"
"""What workers say: `READY`, then an answer to the first of their items; None once they have ended."""
READY = WorkerAnswer()


class WorkerPool:
    """An `Executor` of workers, which `start` with the first item. One `map` at a time.

    An item with which so many workers died (`tries`) is done here. A worker of a cluster that dies is replaced.
    """

    def __init__(
        self,
        workers: int,
        start: Callable[[WorkerAnswers], PoolWorker] | None = None,
        tries: int = 1,
        is_cluster: bool = False,
    ) -> None:
        self.workers, self.is_cluster = workers, is_cluster
        self._start, self._tries = start or partial(_WorkerProcess, max(1, cores() // workers)), tries
        self._pool: list[PoolWorker] | None = None
        self._answers: WorkerAnswers = SimpleQueue()

    @property
    def pids(self) -> list[int]:
        """The processes that live."""
        return [worker.pid for worker in self._pool or () if worker.is_ready]

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        waiting: Callable[[], None] = lambda: None,
        each: int = AT_WORKER,
    ) -> Iterator[Result]:
        rest = iter(items)
        under_way: deque[WorkItem] = deque()
        while self._hand_out(function, rest, under_way, waiting, each):
            first = under_way[0]
            if not (first.is_lost or first.answer):
                self._take_answer(waiting)
                continue
            under_way.popleft()
            yield function(first.item) if first.is_lost or first.answer is None else _result(first.answer)

    def close(self) -> None:
        for worker in self._pool or ():
            worker.end()
        self._pool = []

    def _hand_out(
        self,
        function: Callable[[Any], object],
        rest: Iterator[Any],
        under_way: deque[WorkItem],
        waiting: Callable[[], None],
        each: int,
    ) -> bool:
        """Give the workers what there is to do. Whether something is under way."""
        ready = self._ready_workers(waiting)
        while True:
            worker = min(ready, key=lambda worker: len(worker.items), default=None)
            item = next((item for item in under_way if item.is_returned), None)
            if item is not None and worker is None:
                item.is_returned, item.is_lost = False, True
                continue
            if under_way and (worker is None or len(worker.items) >= each):
                break
            if item is None:
                if len(under_way) >= AHEAD * self.workers:
                    break
                item = WorkItem(next(rest, _END), is_lost=worker is None)
                if item.item is _END:
                    break
                under_way.append(item)
            if worker is not None:
                item.is_returned = False
                worker.send(function, item)
        return bool(under_way)

    def _ready_workers(self, waiting: Callable[[], None]) -> list[PoolWorker]:
        """At least one, unless all have ended."""
        if self._pool is None:
            self._pool = []
            try:
                for _ in range(self.workers):
                    self._pool.append(self._start(self._answers))
            except OSError as error:
                log.warning("%d of %d workers could be started: %s", len(self._pool), self.workers, error)
        began = monotonic()
        while self._pool and not any(worker.is_ready for worker in self._pool):
            self._take_answer(waiting)
            if monotonic() - began > START_SECONDS:
                log.warning("no worker has started for %.0f seconds: is there room for one?", START_SECONDS)
                began = inf
        return [worker for worker in self._pool if worker.is_ready]

    def _take_answer(self, waiting: Callable[[], None]) -> None:
        try:
            worker, answer = self._answers.get(timeout=LOOK_SECONDS)
        except Empty:
            waiting()
            return
        if self._pool is None or worker not in self._pool:
            # others have what it had
            return
        if answer is READY:
            worker.is_ready = True
        elif answer is not None:
            item = worker.items.popleft()
            item.answer, item.is_lost = answer, answer.is_refused
        else:
            self._pool.remove(worker)
            self._give_back(worker, worker.end())

    def _give_back(self, worker: PoolWorker, why: str) -> None:
        """What a worker had that ended is done by others, or here."""
        assert self._pool is not None
        if self.is_cluster and not (worker.is_ready or self._pool):
            raise UsageError(f"no worker can start on the cluster: {why}", "install this mergewise on every node")
        log.warning("%s ended (%s): what it had is done %s", worker.name, why, "again" if self._tries > 1 else "here")
        for item in worker.items:
            item.deaths += 1
            item.is_lost = item.deaths >= self._tries
            item.is_returned = not item.is_lost
        if self.is_cluster and worker.is_ready:
            self._pool.append(self._start(self._answers))


class _WorkerProcess:
    """A process of this machine. It is ready at once: what it is sent waits until it has started."""

    is_ready = True

    def __init__(self, threads: int, answers: WorkerAnswers) -> None:
        env = {**NO_MORE_THREADS, "OMP_NUM_THREADS": str(threads)}
        self._process = start_sandbox(WORKER, *map(str, log_levels()), stderr=None, env=env, own_group=True)
        self.pid = self._process.pid
        self.name = f"worker {self.pid}"
        self.items: deque[WorkItem] = deque()
        Thread(target=self._receive, args=(answers,), name="mergewise-worker", daemon=True).start()

    def send(self, function: Callable[[Any], object], item: WorkItem) -> None:
        request = item.request(function)
        if request is None:
            return
        self.items.append(item)
        assert self._process.stdin is not None
        # a worker that is gone is told of by `_receive`
        with suppress(OSError):
            write_frame(self._process.stdin, request)

    def _receive(self, answers: WorkerAnswers) -> None:
        assert self._process.stdout is not None
        with suppress(Exception):
            while (frame := read_frame(self._process.stdout)) is not None:
                answers.put((self, pickle.loads(frame)))
        answers.put((self, None))

    def end(self) -> str:
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


# -- frames, in which both sides send


def write_frame(stream: IO[bytes], content: bytes) -> None:
    stream.write(len(content).to_bytes(8, "little"))
    stream.write(content)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """The next frame; None at the end, and where the other side died in the middle of one."""
    size = int.from_bytes(stream.read(8), "little")
    content = stream.read(size) if size else b""
    return content if size and len(content) == size else None
