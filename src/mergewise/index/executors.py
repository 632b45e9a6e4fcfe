"""Where batches are worked on: in this process, or in workers beside it. The pipeline knows the `Executor` alone.

A worker is a fresh interpreter (`python -m mergewise.index.worker`): never a fork, which LanceDB forbids, and never one that
runs the caller's script again, as those of `multiprocessing` do, so that no script needs `if __name__ == "__main__"`. Functions
and items travel pickled. What cannot be pickled, and what a worker had when it died, is done in this process at its turn:
results come whole and in order whatever becomes of the workers.

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
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, Any, Protocol, TypeAlias, TypeVar

from mergewise.models.minilm import cores
from mergewise.readers.apart import ending_of, start_apart

log = logging.getLogger("mergewise")

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_WORKER, AHEAD = 2, 4
"""Items that a worker holds, and items a worker that are under way in all."""
LOOK_SECONDS = 0.2
"""Between two calls of `waiting`."""
CHARACTERS_A_WORKER = 4_000_000
"""Of work, or bytes of files, for which it pays to start a worker (docs/evaluation.md)."""
WORKER = "mergewise.index.worker"
_END = object()
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


class Executor(Protocol):
    """Where a function of the pipeline is called for each of many items."""

    @property
    def workers(self) -> int:
        """The processes beside this one; 0 where the caller does the work."""
        ...

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], waiting: Callable[[], None] = lambda: None
    ) -> Iterator[Result]:
        """The results in the order of the items, of which only so many are taken ahead. `waiting` is called now and then while
        none is there, and may raise. An error of the function is raised in the place of its result."""
        ...


Executors: TypeAlias = Callable[[int], AbstractContextManager[Executor]]
"""Opens an executor for work of so many characters."""


class Inline:
    """The caller does the work, one item after the other."""

    workers = 0

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


def executors_of(workers: int | None) -> Executors:
    """Those of `in_workers`."""
    return partial(in_workers, workers=workers)


HERE = executors_of(1)


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """What a worker says to a request: a value, an error, or that it could not do it. `logged` and `warned` are told here."""

    value: Any = None
    error: Exception | None = None
    is_refused: bool = False
    logged: tuple[logging.LogRecord, ...] = ()
    warned: tuple[tuple[str, type[Warning], str, int], ...] = ()


@dataclass(slots=True, eq=False)
class _WorkItem:
    """An item on its way. It is `lost` where no worker will answer."""

    item: Any
    answer: WorkerAnswer | None = None
    is_lost: bool = False


class WorkerPool:
    """An `Executor` of processes, which start with the first item. One `map` at a time."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._living: list[_WorkerProcess] | None = None
        self._answers: SimpleQueue[tuple[_WorkerProcess, WorkerAnswer | None]] = SimpleQueue()

    @property
    def pids(self) -> list[int]:
        """The processes that live."""
        return [worker.process.pid for worker in self._living or ()]

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], waiting: Callable[[], None] = lambda: None
    ) -> Iterator[Result]:
        rest = iter(items)
        under_way: deque[_WorkItem] = deque()
        while self._hand_out(function, rest, under_way):
            first = under_way[0]
            if not (first.is_lost or first.answer):
                self._take_answer(waiting)
                continue
            under_way.popleft()
            yield function(first.item) if first.is_lost or first.answer is None else _result(first.answer)

    def close(self) -> None:
        for worker in self._living or ():
            worker.end()
        self._living = []

    def _hand_out(self, function: Callable[[Any], object], rest: Iterator[Any], under_way: deque[_WorkItem]) -> bool:
        """Give the workers what there is to do. Whether something is under way."""
        if self._living is None:
            self._living = []
            try:
                for _ in range(self.workers):
                    self._living.append(_WorkerProcess(self._answers))
            except OSError as error:
                log.warning("%d of %d workers could be started: %s", len(self._living), self.workers, error)
        while len(under_way) < AHEAD * self.workers:
            worker = min(self._living, key=lambda worker: len(worker.items), default=None)
            if under_way and (worker is None or len(worker.items) >= AT_WORKER):
                break
            item = _WorkItem(next(rest, _END), is_lost=worker is None)
            if item.item is _END:
                break
            under_way.append(item)
            if worker is not None:
                worker.send(function, item)
        return bool(under_way)

    def _take_answer(self, waiting: Callable[[], None]) -> None:
        try:
            worker, answer = self._answers.get(timeout=LOOK_SECONDS)
        except Empty:
            waiting()
            return
        if answer is not None:
            item = worker.items.popleft()
            item.answer, item.is_lost = answer, answer.is_refused
        elif self._living is not None and worker in self._living:
            self._living.remove(worker)
            why = ending_of(worker.end())
            log.warning("worker %d ended (%s): what it had is done here", worker.process.pid, why)
            for item in worker.items:
                item.is_lost = True


class _WorkerProcess:
    """One process, with the items that it was sent and has not answered, in order."""

    def __init__(self, answers: SimpleQueue[tuple[_WorkerProcess, WorkerAnswer | None]]) -> None:
        levels = (logging.getLogger(name).getEffectiveLevel() for name in ("", "mergewise"))
        self.process = start_apart(WORKER, *map(str, levels), stderr=None, env=_ONE_THREAD, own_group=True)
        self.items: deque[_WorkItem] = deque()
        Thread(target=self._receive, args=(answers,), name="mergewise-worker", daemon=True).start()

    def send(self, function: Callable[[Any], object], item: _WorkItem) -> None:
        try:
            request = pickle.dumps((function, item.item), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            # pickling calls what others wrote
            log.info("it is done in this process, as it cannot be sent to a worker: %s", error)
            item.is_lost = True
            return
        self.items.append(item)
        assert self.process.stdin is not None
        # a worker that is gone is told of by `_receive`
        with suppress(OSError):
            write_frame(self.process.stdin, request)

    def _receive(self, answers: SimpleQueue[tuple[_WorkerProcess, WorkerAnswer | None]]) -> None:
        assert self.process.stdout is not None
        with suppress(Exception):
            while (frame := read_frame(self.process.stdout)) is not None:
                answers.put((self, pickle.loads(frame)))
        answers.put((self, None))

    def end(self) -> int:
        """Kill it, unless it has ended. Its exit code."""
        with suppress(OSError):
            self.process.kill()
        code = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()
        return code


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
