"""Processes that compute the shards of a run side by side. Each ends with the one that started it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.sharedctypes import SynchronizedArray
from typing import TypeAlias

from mergewise.store.views import Progress

Work: TypeAlias = Callable[[int, int, Progress], None]
"""Called with the number of a shard, from 1, how many there are, and what is told how far it is. It can be pickled."""
SECONDS = 1.0


def run_workers(work: Work, count: int, progress: Progress) -> None:
    """Do the work of all shards, each in a process of its own. One that fails leaves its work undone, and says why."""
    context = multiprocessing.get_context("spawn")
    done = context.Array("q", 2 * count)
    workers = [context.Process(target=_work, args=(work, number, count, done)) for number in range(1, count + 1)]
    for worker in workers:
        worker.start()
    try:
        while any(worker.is_alive() for worker in workers):
            next(worker for worker in workers if worker.is_alive()).join(SECONDS)
            known = done[:]
            progress(sum(known[::2]), sum(known[1::2]), "")
    finally:
        for worker in workers:
            if worker.is_alive():
                worker.terminate()
            worker.join()


def _work(work: Work, number: int, count: int, done: SynchronizedArray[int]) -> None:
    parent, earlier = os.getppid(), [0, 0]

    def advance(now: int, total: int, item: str) -> None:
        if os.getppid() != parent:
            # nobody waits for it
            os._exit(1)
        # a set after the other
        if now < done[2 * number - 2] - earlier[0]:
            earlier[:] = done[2 * number - 2], done[2 * number - 1]
        done[2 * number - 2], done[2 * number - 1] = earlier[0] + now, earlier[1] + total

    work(number, count, advance)
