"""Background event loops: order, errors, interrupts, forks."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import mergewise
from mergewise.concurrency import ThreadLoop, in_thread, run, together
from mergewise.errors import ModelError


async def after(seconds: float, value: int) -> int:
    await asyncio.sleep(seconds)
    return value


def test_results_come_in_order() -> None:
    assert run(together(after(0.03, 1), after(0.0, 2), after(0.01, 3))) == [1, 2, 3]
    assert run(together()) == []


def test_first_error_cancels_the_others_and_is_raised() -> None:
    cancelled: list[str] = []

    async def wait() -> int:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append("wait")
            raise
        return 0

    async def fail() -> int:
        await asyncio.sleep(0.01)
        raise ModelError("no", "hint")

    with pytest.raises(ModelError, match="no"):
        run(together(wait(), together_in_together(fail())))
    assert cancelled == ["wait"]


async def together_in_together(coroutine: object) -> int:
    return (await together(coroutine))[0]  # type: ignore[arg-type]


def test_it_works_from_several_threads_and_inside_a_running_loop() -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda i=i: found.append(run(after(0.01, i)))) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2, 3]

    async def inside() -> int:
        return run(after(0, 7))

    assert asyncio.run(inside()) == 7


def test_coroutine_of_a_model_can_query_a_store(tmp_path: Path) -> None:
    """A store has its own loop, so that a query from the loop of the models does not deadlock."""
    index = mergewise.open(tmp_path, embedder="none")
    index.add(mergewise.Document("d", "Cats eat fish."))

    async def ask() -> str:
        return index.document("d").text + index.context("cats", budget=50).text

    assert "fish" in run(ask())


async def from_another_thread(value: int, done: list[int], gate: threading.Event) -> int:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    done.append(threading.get_ident())

    def finish() -> None:
        assert gate.wait(10)
        loop.call_soon_threadsafe(future.set_result, value)

    threading.Thread(target=finish).start()
    number: int = await future
    if number < 0:
        raise ModelError("negative", "hint")
    return number


def test_waiting_thread_runs_its_own_loop() -> None:
    """Results of other threads arrive in any order, errors are passed on, and no loop stays running."""
    gates = [threading.Event() for _ in range(3)]
    steps: list[int] = []
    begun = [ThreadLoop.start(from_another_thread(i, steps, gate)) for i, gate in zip((1, 2, -3), gates, strict=True)]
    assert steps == [threading.get_ident()] * 3  # each has made its first step
    for gate in reversed(gates):
        gate.set()
    assert [begun[1].result(), begun[0].result(), begun[1].result()] == [2, 1, 2]
    with pytest.raises(ModelError, match="negative"):
        begun[2].result()
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    assert asyncio.run(after(0, 4)) == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_child_has_its_own_loop() -> None:
    """Threads do not survive a fork: without its own loop, the child would wait for ever."""
    script = """
import asyncio, os, sys, warnings
warnings.simplefilter("ignore")
from mergewise.concurrency import run
run(asyncio.sleep(0))
child = os.fork()
if child == 0:
    run(asyncio.sleep(0))
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=60, check=False).returncode == 0


def test_cancelled_work_in_a_thread_cancels_its_caller() -> None:
    begun, over = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        over.wait(30)

    async def cancelled() -> bool:
        task = asyncio.create_task(in_thread(work))
        await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return task.cancelled()

    try:
        assert asyncio.run(cancelled())
    finally:
        over.set()
