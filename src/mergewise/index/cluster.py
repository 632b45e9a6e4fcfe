"""Workers on a Ray cluster, for the pool of `index.executors`. Each is an actor with its own processor, or with part of a GPU.

cluster    "local" starts a cluster on this machine, which ends with the work. "auto" is the cluster of which this machine is a
           node, and HOST:PORT names the head of a cluster. A process that has already joined a cluster stays with it. A
           separate process first tests the cluster, because Ray retries a dead one for minutes
nodes      must have this version of mergewise; workers of another version are not used
actors     start when there is room. A dead actor is replaced, and its item is processed again
files      are sent as paths. If a worker finds no file there, or another one, the main process reads it (`index.pipeline`)
models     are loaded once by each actor, like `open` loads them
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
from tempfile import TemporaryDirectory
from threading import current_thread
from typing import Any

import mergewise
from mergewise.errors import MissingExtra, UsageError
from mergewise.index.executors import INLINE, NO_MORE_THREADS, Executor, Executors, WorkerPool, in_workers, log_levels
from mergewise.index.worker import LogCollector, answer_to
from mergewise.models.onnx import cores
from mergewise.ranges import GPUS, WORKERS, number, text_or_none, whole

LOCAL = "local"
TRIES = 3
"""Number of workers that may die with an item before this process processes it."""
JOIN_SECONDS = 30.0
"""Seconds within which a cluster must answer."""
_HINT = "check that it is running; --ray local starts one, --ray HOST:PORT names the head of a cluster with this node"
# With this setting Ray replaces the loopback address by the machine's own, and listens there.
_NETWORK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_FOLDERS: list[TemporaryDirectory[str]] = []
_JOIN = "import logging, sys, ray; ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.ERROR)"


def executors_of(workers: int | None, ray: str | None = None, gpus_per_worker: float = 0.0) -> Executors:
    """Return local executors (`in_workers`), or those of a Ray cluster if `ray` names one (`on_cluster`).

    Raises:
        UsageError: if a value is out of range, or GPUs are given without a cluster.
    """
    count = None if workers is None else whole("number of workers", workers, WORKERS)
    gpus = number("GPUs per worker", gpus_per_worker, float, GPUS)
    address = text_or_none("cluster address", ray)
    if address is not None:
        return partial(on_cluster, address=address, workers=count, gpus_per_worker=gpus)
    if gpus:
        raise UsageError("GPUs per worker need a cluster", "name one: ray='local', or --ray local")
    return partial(in_workers, workers=count)


@contextmanager
def on_cluster(size: int, address: str, workers: int | None, gpus_per_worker: float) -> Iterator[Executor]:
    """Open an executor of workers on a Ray cluster. With None or one worker, use as many as fit on the cluster.

    Work of size 0 joins no cluster.

    Raises:
        MissingExtra: if Ray is not installed.
        UsageError: if no cluster answers, or no worker can start on it.
    """
    if not size:
        yield INLINE
        return
    ray = load_ray()
    is_guest = ray.is_initialized()
    join_cluster(ray, address, workers or 1)
    try:
        count = workers if workers is not None and workers > 1 else 0
        for node in [] if count else ray.nodes():
            if node["Alive"]:
                has = node["Resources"]
                by_gpu = has.get("GPU", 0) / gpus_per_worker if gpus_per_worker else has.get("CPU", 0)
                count += int(min(has.get("CPU", 0), by_gpu + 1e-6))
        if not count:
            wanted = f"a processor and {gpus_per_worker:g} GPUs" if gpus_per_worker else "a processor"
            hint = "add such a node, or give the number of --workers"
            raise UsageError(f"no node of the Ray cluster has {wanted}", hint)
        actor = ray.remote(num_cpus=1, num_gpus=gpus_per_worker, max_restarts=0)(ClusterActor)
        pool = WorkerPool(count, partial(ClusterWorker, ray, actor), TRIES, is_cluster=True)
        try:
            yield pool
        finally:
            pool.close()
    finally:
        if not is_guest:
            leave_cluster(ray)


def load_ray() -> Any:
    """Import Ray. Raises MissingExtra."""
    try:
        import ray
    # a broken installation may raise any error
    except Exception as error:
        raise MissingExtra("ray", "ray", error) from error
    return ray


def leave_cluster(ray: Any) -> None:
    """Leave the cluster. A local one ends, and its folder is removed."""
    with redirect_stdout(sys.stderr):
        ray.shutdown()
    while _FOLDERS:
        _FOLDERS.pop().cleanup()


def join_cluster(ray: Any, address: str, workers: int = 1) -> None:
    """Join the cluster for the rest of this process, unless it has joined one.

    Raises:
        UsageError: if no cluster answers.
    """
    if ray.is_initialized():
        return
    if "://" in address:
        raise UsageError(f"invalid cluster address: {address!r} (expected no scheme)", _HINT)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        # switch off Ray's usage reports, and both servers of metrics: a port that does not exist stays closed
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("AUTOSCALER_METRIC_PORT", "-1")
        options |= {"include_dashboard": False, "num_cpus": max(cores(), workers)}
        options |= {"_node_ip_address": "127.0.0.1", "_system_config": {"enable_metrics_collection": False}}
        # Ray opens its own folder to everybody, so it is in a private one. A socket needs a short path.
        _FOLDERS.append(TemporaryDirectory(prefix="mergewise-ray-", dir="/tmp", ignore_cleanup_errors=True))
        options["_temp_dir"] = f"{_FOLDERS[-1].name}/ray"
    else:
        command = [sys.executable, "-P", "-c", _JOIN, address]
        env = {**os.environ, _NETWORK: "0"}
        try:
            tried = subprocess.run(command, capture_output=True, text=True, timeout=JOIN_SECONDS, env=env)
        except subprocess.TimeoutExpired:
            reason = f"no answer in {JOIN_SECONDS:.0f} seconds"
            raise UsageError(f"Ray cluster not available at {address!r}: {reason}", _HINT) from None
        if tried.returncode:
            raise UsageError(f"Ray cluster not available at {address!r}: {_last_line(tried.stderr)}", _HINT)
    constants = ray._private.ray_constants
    before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        with redirect_stdout(sys.stderr):
            ray.init(address=address, **options)
    except Exception as error:
        raise UsageError(f"Ray cluster not available at {address!r}: {_last_line(str(error))}", _HINT) from error
    finally:
        constants.ENABLE_RAY_CLUSTER = before
    # for the rest of this process, because Ray's threads print at any time
    redirect_stdout(_OutputWithoutRay(sys.stdout)).__enter__()


class _OutputWithoutRay:
    """Standard output without the messages of Ray's threads, which go to standard error: standard output may be an answer."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        stream = sys.stderr if current_thread().name.startswith("ray_") else self._stream
        return int(stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason given")


class ClusterActor:
    """The actor of a worker, which runs on a node."""

    def __init__(self, folder: str, every: int, own: int) -> None:
        os.environ.update(NO_MORE_THREADS)
        # paths may be relative
        with suppress(OSError):
            os.chdir(folder)
        self._collector = LogCollector(every, own)

    def begin(self) -> tuple[int, str]:
        """Return the process id and the version of mergewise."""
        return os.getpid(), mergewise.__version__

    def answer(self, request: bytes) -> bytes:
        return answer_to(request, self._collector)


class ClusterWorker:
    """A `PoolWorker` that uses an actor."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self.pid, self.name = 0, "worker"
        self._ray = ray
        self._actor = actor.remote(str(Path.cwd()), *log_levels())

    def begin(self) -> None:
        pid, version = self._actor.begin.remote().future().result()
        if version != mergewise.__version__:
            raise ValueError(f"mergewise {version} (this process has {mergewise.__version__})")
        self.pid, self.name = pid, f"worker {pid}"

    def ask(self, request: bytes) -> bytes:
        answer: bytes = self._actor.answer.remote(request).future().result()
        return answer

    def end(self, error: Exception | None = None) -> str:
        with suppress(Exception):
            self._ray.kill(self._actor)
        # the worker is unusable after any error, whose first sentence is the reason
        return " ".join(str(error).split()).partition(". ")[0][:300] or "no reason given"
