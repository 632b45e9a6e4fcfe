"""Slots, the queue for them, places for those who wait for a model, and work that several want."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest

from mergewise.concurrency import run
from mergewise.server import admission as admission_room
from mergewise.server.admission import LONGEST_WAIT, ConcurrencyLimiter, RetryLedger, SlotReleasingChat
from mergewise.server.configuration import ServeLimits
from mergewise.server.metrics import Metrics
from mergewise.server.problems import HTTPProblem
from mergewise.server.questions import SharedWork
from mergewise.server.state import State
from mergewise.types import Message, Reply, Usage


@pytest.fixture
def metrics(tmp_path: Path) -> Any:
    with State(tmp_path / "server.sqlite") as state:
        yield Metrics(state, dict)


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is run in an event loop, within a time."""

    @wraps(test)
    def run_test(*given: Any, **options: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*given, **options), 20))

    return run_test


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.002)


@in_loop
async def test_one_works_at_a_time_in_the_order_of_coming(metrics: Metrics) -> None:
    admission = ConcurrencyLimiter(ServeLimits(queue_least=10), metrics)
    at_work, most, order = 0, 0, []

    def work(number: int, waited: float) -> int:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        order.append(number)
        time.sleep(0.005)
        at_work -= 1
        return number

    tasks = [admission.enter().start(partial(work, n)) for n in range(8)]
    assert await asyncio.gather(*tasks) == order == list(range(8))
    assert most == 1 and admission.busy == (0, 0)
    admission.close()


@in_loop
async def test_the_queue_is_as_long_as_it_can_be_served(metrics: Metrics) -> None:
    admission = ConcurrencyLimiter(ServeLimits(), metrics)
    for mean, longest in ((0.01, 32), (0.1, 8), (5.0, 2)):
        admission._mean = mean
        assert admission.longest_queue() == longest
    done = threading.Event()
    tasks = [admission.enter().start(lambda _: done.wait(10)) for _ in range(3)]
    with pytest.raises(HTTPProblem) as refused:
        admission.enter()
    assert (refused.value.status, refused.value.code, refused.value.retry_after) == (429, "busy", 10.0)
    assert refused.value.headers == {"Retry-After": "10", "retry-after-ms": "10000"}
    done.set()
    await asyncio.gather(*tasks)
    await asyncio.gather(*(admission.enter().start(lambda _: None) for _ in range(3)))
    # what is quick makes the queue longer again
    assert admission.longest_queue() >= 2 and admission._mean < 5
    admission.close()


class Full:
    """An `ConcurrencyLimiter` with a full queue, a tenth of a second a question, and a clock that tests set."""

    def __init__(self, metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(admission_room, "monotonic", lambda: self.now)
        self.admission = ConcurrencyLimiter(ServeLimits(), metrics)
        self.admission._mean = 0.1
        self.slots = [self.admission.enter() for _ in range(1 + self.admission.longest_queue())]

    def refused(self, question: str) -> float:
        """The seconds after which the question is to come again."""
        with pytest.raises(HTTPProblem) as refused:
            self.admission.enter(question)
        assert refused.value.status == 429 and refused.value.retry_after is not None
        return refused.value.retry_after


@in_loop
async def test_who_comes_again_when_told_is_let_in(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Full(metrics, monkeypatch)
    wait = full.refused("patient")
    assert wait == pytest.approx(0.8)
    # who comes too early keeps the time from before
    full.now += wait / 2
    full.refused("patient")
    full.now += wait / 2
    full.refused("new")
    full.admission.enter("patient")
    # once, and as long as there is an end
    full.refused("patient")
    for number in range(50):
        full.refused(f"other {number}")
    full.now += 10
    for number in range(20 - 9):
        full.admission.enter(f"other {number}")
    full.refused("other 40")
    assert full.admission.busy[0] == 20
    full.admission.close()


@in_loop
async def test_clients_that_heed_the_time_are_spread_over_it(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetryLedger, "MOST", 300)
    full = Full(metrics, monkeypatch)
    waits = [full.refused(f"heeds {number}") for number in range(10)]
    assert waits == pytest.approx([0.8 + 0.1 * number for number in range(10)])
    assert full.refused("same") < full.refused("later") <= LONGEST_WAIT
    # of those who never come again, fewer and fewer are expected, and few are remembered
    for number in range(3 * RetryLedger.MOST):
        full.now += 0.01
        full.refused(f"impatient {number}")
    assert len(full.admission._retries._due) <= RetryLedger.MOST + 1
    assert full.refused("late") == pytest.approx(0.8, abs=0.01)
    full.admission.close()


@pytest.mark.parametrize("when", ["at once", "waiting", "working"])
@in_loop
async def test_who_leaves_frees_the_slot(metrics: Metrics, when: str) -> None:
    admission = ConcurrencyLimiter(ServeLimits(), metrics)
    loop = asyncio.new_event_loop()
    begun, called_off = threading.Event(), threading.Event()

    def work(waited: float) -> None:
        begun.set()
        try:
            run(asyncio.sleep(20))
        except CancelledError:
            called_off.set()
            raise

    first = admission.enter().start(work)
    if when != "at once":
        await until(begun.is_set)
    leaving = admission.enter().start(work) if when == "waiting" else first
    if when == "waiting":
        await asyncio.sleep(0.01)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    assert leaving.cancelled()
    if when == "waiting":
        assert admission.busy == (0, 0) and not called_off.is_set()
        first.cancel()
    elif when == "working":
        await until(called_off.is_set)
    assert await admission.enter().start(lambda _: "next") == "next"
    await asyncio.gather(first, return_exceptions=True)
    assert await asyncio.gather(*(admission.enter().start(lambda _: 1) for _ in range(2))) == [1, 1]
    loop.close()
    admission.close()


class SlowChat:
    """A chat model that answers when it is told to."""

    spec = identity = "slow"
    window = 1000

    def __init__(self) -> None:
        self.asked, self.may_answer = 0, threading.Event()

    async def complete(self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Any = None) -> Reply:
        self.asked += 1
        while not self.may_answer.is_set():
            await asyncio.sleep(0.002)
        return Reply("slow", Usage())

    def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        raise NotImplementedError


@in_loop
async def test_who_waits_for_a_model_gives_up_the_slot(metrics: Metrics) -> None:
    admission, slow = ConcurrencyLimiter(ServeLimits(streams=2), metrics), SlowChat()
    chat = SlotReleasingChat(slow)

    def work(waited: float) -> str:
        return run(chat.complete([Message("user", "x")])).text

    first, second = (admission.enter().start(work) for _ in range(2))
    await until(lambda: slow.asked == 2)
    assert admission.busy == (0, 2)
    assert await admission.enter().start(lambda _: "meanwhile") == "meanwhile"
    # as many wait as may
    with pytest.raises(HTTPProblem) as refused:
        await admission.enter().start(work)
    assert refused.value.status == 429
    # who has a place already takes no second one
    third = admission.enter(has_place=True).start(work)
    await until(lambda: slow.asked == 3)
    assert admission.busy == (0, 2)
    second.cancel()
    await until(lambda: admission.busy == (0, 1))
    slow.may_answer.set()
    assert await first == await third == "slow"
    assert admission.busy == (0, 0)
    assert await asyncio.gather(*(admission.enter().start(work) for _ in range(2))) == ["slow"] * 2
    assert await admission.enter().start(lambda _: "last") == "last"
    admission.close()


@in_loop
async def test_work_that_several_want_is_done_once() -> None:
    shared, begun, may_end = SharedWork[str](2, 100, len), [0], asyncio.Event()

    async def work() -> str:
        begun[0] += 1
        await may_end.wait()
        return "x" * 10

    async def want() -> str:
        async with shared.join("a", lambda: asyncio.create_task(work())) as coming:
            return await coming

    wanting = [asyncio.create_task(want()) for _ in range(3)]
    await asyncio.sleep(0)
    wanting[0].cancel()
    await asyncio.sleep(0)
    may_end.set()
    assert await asyncio.gather(*wanting[1:]) == ["x" * 10] * 2 and begun == [1]
    assert await want() == "x" * 10 and begun == [1]
    assert shared.join("a", lambda: asyncio.create_task(work())).was_done


@in_loop
async def test_the_last_who_leaves_calls_the_work_off_and_the_next_begins_anew() -> None:
    shared, tasks = SharedWork[str](2, 100, len), list[asyncio.Task[str]]()

    async def work() -> str:
        await asyncio.sleep(0 if len(tasks) > 1 else 60)
        return "done"

    def begin() -> asyncio.Task[str]:
        tasks.append(asyncio.create_task(work()))
        return tasks[-1]

    async def want() -> str:
        async with shared.join("a", begin) as coming:
            return await coming

    wanting = [asyncio.create_task(want()) for _ in range(2)]
    await asyncio.sleep(0.01)
    for one in wanting:
        one.cancel()
    await asyncio.gather(*wanting, return_exceptions=True)
    assert await want() == "done"
    assert tasks[0].cancelled() and len(tasks) == 2


@in_loop
async def test_what_is_kept_is_bounded_in_number_and_bytes() -> None:
    shared = SharedWork[str](3, 100, len)

    async def result(text: str) -> str:
        return text

    async def want(key: str, size: int) -> None:
        async with shared.join(key, lambda: asyncio.create_task(result("x" * size))) as coming:
            await coming
        await asyncio.sleep(0)

    def kept() -> list[str]:
        return [key for key in "abcd" if key in shared._done]

    for key in "abc":
        await want(key, 30)
    await want("a", 30)
    await want("d", 30)
    # the one used longest ago is gone
    assert kept() == ["a", "c", "d"]
    await want("b", 90)
    assert kept() == ["b"] and shared._bytes == 90
    await want("c", 101)
    assert kept() == [] and shared._bytes == 0
