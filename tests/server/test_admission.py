"""Slots, their queue, places for questions that wait for a model, and shared work."""

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
from mergewise.server.shared_work import SharedWork
from mergewise.server.state import State
from mergewise.types import Message, Reply, Usage
from tests.server.conftest import busy


@pytest.fixture
def metrics(tmp_path: Path) -> Any:
    with State(tmp_path / "server.sqlite") as state:
        yield Metrics(state, dict)


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop with a timeout."""

    @wraps(test)
    def run_test(*given: Any, **options: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*given, **options), 20))

    return run_test


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.002)


@in_loop
async def test_questions_run_one_at_a_time_in_order(metrics: Metrics) -> None:
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
    assert most == 1 and busy(admission) == (0, 0)
    admission.close()


@in_loop
async def test_queue_length_follows_the_mean_time_of_a_slot(metrics: Metrics) -> None:
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
    # quick questions make the queue longer again
    assert admission.longest_queue() >= 2 and admission._mean < 5
    admission.close()


class FullQueue:
    """A `ConcurrencyLimiter` with a full queue, 0.1 seconds per question, and a clock that tests set."""

    def __init__(self, metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(admission_room, "monotonic", lambda: self.now)
        self.admission = ConcurrencyLimiter(ServeLimits(), metrics)
        self.admission._mean = 0.1
        self.slots = [self.admission.enter() for _ in range(1 + self.admission.longest_queue())]

    def refuse(self, question: str) -> float:
        """Ask a question that is refused. Return the seconds after which it should retry."""
        with pytest.raises(HTTPProblem) as refused:
            self.admission.enter(question)
        assert refused.value.status == 429 and refused.value.retry_after is not None
        return refused.value.retry_after


@in_loop
async def test_a_retry_at_the_advised_time_is_admitted(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    full = FullQueue(metrics, monkeypatch)
    wait = full.refuse("patient")
    assert wait == pytest.approx(0.8)
    # an early retry keeps the earlier time
    full.now += wait / 2
    full.refuse("patient")
    full.now += wait / 2
    full.refuse("new")
    full.admission.enter("patient")
    # a retry has priority only once, and the queue for retries is limited too
    full.refuse("patient")
    for number in range(50):
        full.refuse(f"other {number}")
    full.now += 10
    for number in range(20 - 9):
        full.admission.enter(f"other {number}")
    full.refuse("other 40")
    assert busy(full.admission)[0] == 20
    full.admission.close()


@in_loop
async def test_retry_times_are_spread(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetryLedger, "MOST", 300)
    full = FullQueue(metrics, monkeypatch)
    waits = [full.refuse(f"patient {number}") for number in range(10)]
    assert waits == pytest.approx([0.8 + 0.1 * number for number in range(10)])
    assert full.refuse("same") < full.refuse("later") <= LONGEST_WAIT
    # if clients never retry, fewer and fewer retries are expected, and the memory is limited
    for number in range(3 * RetryLedger.MOST):
        full.now += 0.01
        full.refuse(f"impatient {number}")
    assert len(full.admission._retries._due) <= RetryLedger.MOST + 1
    assert full.refuse("late") == pytest.approx(0.8, abs=0.01)
    full.admission.close()


@pytest.mark.parametrize("when", ["at once", "waiting", "working"])
@in_loop
async def test_a_cancelled_question_frees_its_slot(metrics: Metrics, when: str) -> None:
    admission = ConcurrencyLimiter(ServeLimits(), metrics)
    loop = asyncio.new_event_loop()
    begun, is_cancelled = threading.Event(), threading.Event()

    def work(waited: float) -> None:
        begun.set()
        try:
            run(asyncio.sleep(20))
        except CancelledError:
            is_cancelled.set()
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
        assert busy(admission) == (0, 0) and not is_cancelled.is_set()
        first.cancel()
    elif when == "working":
        await until(is_cancelled.is_set)
    assert await admission.enter().start(lambda _: "next") == "next"
    await asyncio.gather(first, return_exceptions=True)
    assert await asyncio.gather(*(admission.enter().start(lambda _: 1) for _ in range(2))) == [1, 1]
    loop.close()
    admission.close()


class SlowChat:
    """A chat model that answers once `may_answer` is set."""

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
async def test_waiting_for_a_model_releases_the_slot(metrics: Metrics) -> None:
    admission, slow = ConcurrencyLimiter(ServeLimits(streams=2), metrics), SlowChat()
    chat = SlotReleasingChat(slow)

    def work(waited: float) -> str:
        return run(chat.complete([Message("user", "x")])).text

    first, second = (admission.enter().start(work) for _ in range(2))
    await until(lambda: slow.asked == 2)
    assert busy(admission) == (0, 2)
    assert await admission.enter().start(lambda _: "in between") == "in between"
    # all places are taken
    with pytest.raises(HTTPProblem) as refused:
        await admission.enter().start(work)
    assert refused.value.status == 429
    # a caller with a place takes no second one
    third = admission.enter(has_place=True).start(work)
    await until(lambda: slow.asked == 3)
    assert busy(admission) == (0, 2)
    second.cancel()
    await until(lambda: busy(admission) == (0, 1))
    slow.may_answer.set()
    assert await first == await third == "slow"
    assert busy(admission) == (0, 0)
    assert await asyncio.gather(*(admission.enter().start(work) for _ in range(2))) == ["slow"] * 2
    assert await admission.enter().start(lambda _: "last") == "last"
    admission.close()


@in_loop
async def test_shared_work_is_done_once() -> None:
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
async def test_work_without_users_is_cancelled_and_starts_again() -> None:
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
async def test_cached_results_are_limited_in_number_and_bytes() -> None:
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
    # the least recently used result is gone
    assert kept() == ["a", "c", "d"]
    await want("b", 90)
    assert kept() == ["b"] and shared._bytes == 90
    await want("c", 101)
    assert kept() == [] and shared._bytes == 0
