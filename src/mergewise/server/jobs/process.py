"""The processes `writer` and `evaluator`, which run jobs until they are told to stop.

Either ends when it has nothing to do, which frees the memory of its jobs: the writer starts again at once, with a quarter of the
memory, and the evaluator when a job waits for it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from mergewise.extend import bursts
from mergewise.server.configuration import ServerConfig
from mergewise.server.jobs.runner import JobRunner
from mergewise.server.locks import lock_file, waiting_lock
from mergewise.server.logs import log
from mergewise.server.records import READ_ONLY
from mergewise.server.state import State
from mergewise.server.tables.jobs import WAITS_FOR_WRITER as WAITS

STOP_SECONDS = 8.5
"""Seconds for the running batch at shutdown."""
WAIT_SECONDS = 30.0
"""Seconds to wait for the end of a previous writer, which ends with its parent."""
LOOK_AT_FOLDERS_SECONDS = 3.0
REST_SECONDS = 60.0
"""Seconds after a change or an evaluation at which a process without jobs ends. The next one starts in two seconds."""
SWITCH_SECONDS = 0.0005
"""Python's switch interval. With the default of 5 ms, an upload beside a huge document took 8 s instead of 2.7 s."""


def run_jobs(
    config: ServerConfig, parent: int, name: str = "writer", wake_evaluator: Callable[[], object] = lambda: None
) -> None:
    """Run the writer or the evaluator until SIGTERM, until the process `parent` ends, or until it rests.

    Raises the error that ends it early.
    """
    state = State.of(config)
    with waiting_lock(lock_file(config.data, name), WAIT_SECONDS):
        runner = JobRunner(config, state) if name == "writer" else JobRunner(config, state, tuple(READ_ONLY))
        sys.setswitchinterval(SWITCH_SECONDS)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: runner.stopping.set())
        running = ThreadPoolExecutor(1, "jobs").submit(runner.run)
        for collection, own in config.collections.items():
            if own.folders and config.watch and not runner.is_evaluator:
                Thread(target=follow_folders, args=(config, state, collection, runner.stopping), daemon=True).start()
        rests = False
        while not (rests or running.done() or runner.stopping.is_set()) and os.getppid() == parent:
            with suppress(OSError):
                state.beat(os.getpid(), name)
            if state.jobs.find(kinds=READ_ONLY, states=WAITS, limit=1):
                wake_evaluator()
            rests = not runner.under_way and time.monotonic() - runner.grew > REST_SECONDS
            wait([running], 0.5)
        runner.stopping.set()
        wait([running], STOP_SECONDS)
        if not running.done():
            log.warning("dropping the running batch")
            for job in (job for jobs in [*runner.under_way.values()] for job in jobs):
                state.jobs.requeue(job.id)
        if not rests or runner.is_evaluator:
            state.beat(None, name)
        if not running.done():
            # a normal exit would wait for threads in native code
            os._exit(0)
        running.result()
        runner.close()
        state.close()


def follow_folders(config: ServerConfig, state: State, name: str, stop: Event) -> None:
    """Queue a `sync` of a collection's folders now, and after every burst of changes in them."""
    record, own = state.collections.get(name), config.collections[name]
    folders = [*map(str, own.folders)]
    left_out = [config.data, *([Path(record.path)] if record is not None else [])]
    while not stop.is_set():
        try:
            for _ in bursts(own.folders, left_out, stop, LOOK_AT_FOLDERS_SECONDS):
                if not state.jobs.find(collections=[name], kinds=["sync"], states=["queued"], limit=1):
                    state.jobs.enqueue("sync", name, {"folders": folders} if own.sources else {})
        except Exception as error:
            # a missing folder may come back
            log.warning("cannot watch the folders of %s: %s", name, error)
            stop.wait(LOOK_AT_FOLDERS_SECONDS)
