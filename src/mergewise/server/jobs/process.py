"""The processes `writer` and `evaluator`, which run jobs until they are told to stop."""

from __future__ import annotations

import os
import signal
import sys
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

STOP_SECONDS = 8.5
"""Seconds for the running batch at shutdown."""
WAIT_SECONDS = 30.0
"""Seconds to wait for the end of a previous writer, which ends with its parent."""
LOOK_AT_FOLDERS_SECONDS = 3.0
SWITCH_SECONDS = 0.0005
"""Python's switch interval. With the default of 5 ms, an upload beside a huge document took 8 s instead of 2.7 s."""


def run_jobs(config: ServerConfig, parent: int, name: str = "writer") -> None:
    """Run the writer or the evaluator until SIGTERM, or until the process `parent` ends. Raises the error that ends it early."""
    state = State.of(config)
    with waiting_lock(lock_file(config.data, name), WAIT_SECONDS):
        runner = JobRunner(config, state) if name == "writer" else JobRunner(config, state, tuple(READ_ONLY))
        sys.setswitchinterval(SWITCH_SECONDS)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: runner.stopping.set())
        running = ThreadPoolExecutor(1, "jobs").submit(runner.run)
        for collection, own in config.collections.items() if not runner.is_evaluator else ():
            if own.folders and config.watch:
                Thread(target=follow_folders, args=(config, state, collection, runner.stopping), daemon=True).start()
            if own.sources or (own.folders and not config.watch):
                queue_first_sync(state, collection)
        while not running.done() and not runner.stopping.is_set() and os.getppid() == parent:
            with suppress(OSError):
                state.beat(os.getpid(), name)
            wait([running], 0.5)
        runner.stopping.set()
        wait([running], STOP_SECONDS)
        if not running.done():
            log.warning("dropping the running batch")
            for job in (job for jobs in [*runner.under_way.values()] for job in jobs):
                state.jobs.requeue(job.id)
        state.beat(None, name)
        if not running.done():
            # a normal exit would wait for threads in native code
            os._exit(0)
        running.result()
        runner.close()
        state.close()


def queue_first_sync(state: State, name: str) -> None:
    """Queue a `sync` of a collection's folders at the start, unless it waits already or just killed the writer."""
    last = state.jobs.last_sync(name)
    if last is not None and (last.error or {}).get("code") == "writer_killed":
        log.warning("not indexing the folders of %s: the writer died at them. Start a job `sync` to try again", name)
    elif last is None or last.has_ended:
        log.info("indexing the folders of %s", name)
        state.jobs.enqueue("sync", name)


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
