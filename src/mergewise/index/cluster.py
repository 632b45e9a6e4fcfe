"""Workers on a Ray cluster, for the pool of `index.executors`: each is an actor with a processor of its own, or part of a GPU.

cluster    "local" is one on this machine that ends with the work, "auto" the one that this machine is a node of, and
           HOST:PORT names its head. A process that has joined a cluster already stays with it. Whether one answers is tried
           by a process apart, since Ray asks one that is gone for minutes
nodes      have this version of mergewise; a worker with another one is not used
actors     join when there is room for them. One that dies, by itself or with its node, is replaced, and what it had is
           done again
files      travel as paths: a worker that finds no file there, or another one, leaves it to the committer (`index.pipeline`)
models     are loaded by each actor, once, as `open` loads them
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from threading import current_thread
from typing import Any

import mergewise
from mergewise.errors import MissingExtra, UsageError
from mergewise.index.executors import INLINE, NO_MORE_THREADS, Executor, Executors, WorkerPool, in_workers, log_levels
from mergewise.index.worker import LogCollector, answer_to
from mergewise.models.minilm import cores
from mergewise.ranges import GPUS, WORKERS, number, text_or_none, whole

LOCAL = "local"
TRIES = 3
"""Workers that may die with an item before it is done by this process: nodes come and go."""
JOIN_SECONDS = 30.0
"""In which a cluster is to answer."""
_HINT = (
    "is it running? --ray local starts one, --ray HOST:PORT names the head of another, of which this machine is a node"
)
_JOIN = "import logging, sys, ray; ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.ERROR)"


def executors_of(workers: int | None, ray: str | None = None, gpus_per_worker: float = 0.0) -> Executors:
    """Return those of `in_workers`; where `ray` names a cluster, those of `on_cluster`.

    Raises:
        UsageError: for a value that is out of its range, or GPUs without a cluster.
    """
    count = None if workers is None else whole("the workers are", workers, WORKERS)
    gpus = number("the GPUs of a worker are", gpus_per_worker, float, GPUS)
    address = text_or_none("the cluster is", ray)
    if address is not None:
        return partial(on_cluster, address=address, workers=count, gpus_per_worker=gpus)
    if gpus:
        raise UsageError("GPUs of a worker go with a cluster", "name one: ray='local', or --ray local")
    return partial(in_workers, workers=count)


@contextmanager
def on_cluster(size: int, address: str, workers: int | None, gpus_per_worker: float) -> Iterator[Executor]:
    """An executor of so many `workers` of a Ray cluster; where None or one is named, of as many as it has room for.

    Where the work has no size, no cluster is joined. Raises MissingExtra without Ray, and UsageError where no cluster answers, it
    has no room for a worker, or none can start.
    """
    if not size:
        yield INLINE
        return
    ray = _ray()
    with _membership(ray, address, workers):
        count = workers if workers is not None and workers > 1 else _room(ray, gpus_per_worker)
        actor = ray.remote(num_cpus=1, num_gpus=gpus_per_worker, max_restarts=0)(ClusterActor)
        pool = WorkerPool(count, partial(_ClusterWorker, ray, actor), TRIES, is_cluster=True)
        try:
            yield pool
        finally:
            pool.close()


def _ray() -> Any:
    try:
        import ray
    # a broken installation brings errors of any kind
    except Exception as error:
        raise MissingExtra("ray", "ray", error) from error
    return ray


@contextmanager
def _membership(ray: Any, address: str, workers: int | None) -> Iterator[None]:
    """Within, this process is one of the cluster."""
    if ray.is_initialized():
        yield
        return
    if "://" in address:
        raise UsageError(f"the cluster {address!r} is named by a scheme", _HINT)
    is_local = address == LOCAL
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if is_local:
        # nothing is reported to anybody
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options |= {"include_dashboard": False, "num_cpus": max(cores(), workers or 1)}
    else:
        _check_cluster(address)
    try:
        with redirect_stdout(sys.stderr):
            ray.init(address=address, **options)
    except Exception as error:
        raise UsageError(f"no Ray cluster at {address!r}: {_last_line(str(error))}", _HINT) from error
    try:
        with redirect_stdout(_OutputWithoutRay(sys.stdout)):
            yield
    finally:
        with redirect_stdout(sys.stderr):
            ray.shutdown()


class _OutputWithoutRay:
    """A standard output, which may be an answer, without what threads of Ray print when something dies: that is no answer."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        stream = sys.stderr if current_thread().name.startswith("ray_") else self._stream
        return int(stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _check_cluster(address: str) -> None:
    """Raises UsageError where no cluster answers."""
    try:
        tried = subprocess.run(
            [sys.executable, "-P", "-c", _JOIN, address], capture_output=True, text=True, timeout=JOIN_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"no Ray cluster at {address!r}: no answer in {JOIN_SECONDS:.0f} seconds", _HINT) from None
    if tried.returncode:
        raise UsageError(f"no Ray cluster at {address!r}: {_last_line(tried.stderr)}", _HINT)


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason given")


def _room(ray: Any, gpus_per_worker: float) -> int:
    """How many workers the nodes of the cluster have room for. Raises UsageError where it is none."""
    fitting = 0
    for node in ray.nodes():
        if node["Alive"]:
            has = node["Resources"]
            by_gpu = has.get("GPU", 0) / gpus_per_worker if gpus_per_worker else has.get("CPU", 0)
            fitting += int(min(has.get("CPU", 0), by_gpu + 1e-6))
    if not fitting:
        wanted = f"a processor and {gpus_per_worker:g} GPUs" if gpus_per_worker else "a processor"
        raise UsageError(f"no node of the Ray cluster has {wanted}", "add one, or say how many --workers there will be")
    return fitting


class ClusterActor:
    """What runs on a node."""

    def __init__(self, folder: str, every: int, own: int) -> None:
        os.environ.update(NO_MORE_THREADS)
        # paths may be relative
        with suppress(OSError):
            os.chdir(folder)
        self._collector = LogCollector(every, own)

    def begin(self) -> tuple[int, str]:
        """Its process, and its version of this package."""
        return os.getpid(), mergewise.__version__

    def answer(self, request: bytes) -> bytes:
        return answer_to(request, self._collector)


class _ClusterWorker:
    """A `PoolWorker` by an actor."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self.pid, self.name = 0, "worker"
        self._ray = ray
        self._actor = actor.remote(str(Path.cwd()), *log_levels())

    def begin(self) -> None:
        pid, version = self._actor.begin.remote().future().result()
        if version != mergewise.__version__:
            raise ValueError(f"it has mergewise {version}, this process {mergewise.__version__}")
        self.pid, self.name = pid, f"worker {pid}"

    def ask(self, request: bytes) -> bytes:
        answer: bytes = self._actor.answer.remote(request).future().result()
        return answer

    def end(self, error: Exception | None = None) -> str:
        with suppress(Exception):
            self._ray.kill(self._actor)
        # whatever the error is, the worker is of no use any more
        return _first_sentence(str(error))


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0][:300] or "no reason given"
