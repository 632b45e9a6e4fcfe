"""One event loop for all: order, errors and interrupts."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mergewise.concurrency import run, together
from mergewise.errors import ModelError


async def after(seconds: float, value: int) -> int:
    await asyncio.sleep(seconds)
    return value


def test_results_come_in_order() -> None:
    assert run(together(after(0.03, 1), after(0.0, 2), after(0.01, 3))) == [1, 2, 3]
    assert run(together()) == []


def test_the_first_error_cancels_the_others_and_comes_as_it_is() -> None:
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
    threads = [threading.Thread(target=lambda i=i: found.append(run(after(0.01, i)))) for i in range(4)]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2, 3]

    async def inside() -> int:
        return run(after(0, 7))

    assert asyncio.run(inside()) == 7
