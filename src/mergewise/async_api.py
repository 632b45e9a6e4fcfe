"""The other forms of a question: awaited, streamed, or many at once. Each is made from the ordinary method.

A stream and an awaited question do their work in another thread. Whoever stops listening calls the work off: a chat model's
call is then cancelled, and the thread ends.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial, wraps
from queue import SimpleQueue
from threading import Thread
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from mergewise.concurrency import CancellableWork, in_thread
from mergewise.errors import UsageError
from mergewise.ranges import AT_ONCE, whole
from mergewise.types import Answer

Owner = TypeVar("Owner")
Given = ParamSpec("Given")
Result = TypeVar("Result")
Item = TypeVar("Item")
Answerer: TypeAlias = Callable[[Callable[[str], None]], Answer]
"""Answers a question, and calls the function with each piece of the answer on the way."""

_STOP_SECONDS = 5.0  # for a thread whose work is called off; a model's own code cannot be interrupted


class AnswerStream(Iterator[str]):
    """The pieces of an answer as they arrive; afterwards `answer()` is the whole of it.

    The work begins with the first piece that is asked for. Closing the stream, leaving its `with` block, or dropping it
    before its end calls the work off. Raises what `Index.ask` raises, from the piece where it happens.
    """

    def __init__(self, work: Answerer) -> None:
        self._answers: list[Answer] = []
        self._pieces = _pieces(work, self._answers)

    def __next__(self) -> str:
        return next(self._pieces)

    def answer(self) -> Answer:
        """The answer; pieces that nobody read are passed over. Raises UsageError where the stream was closed before its end."""
        for _ in self._pieces:
            pass
        return _only(self._answers)

    def close(self) -> None:
        """Call the work off, unless it is done."""
        self._pieces.close()

    def __enter__(self) -> AnswerStream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncAnswerStream(AsyncIterator[str]):
    """`AnswerStream` for coroutines: `async for piece in stream`, then `await stream.answer()`."""

    def __init__(self, work: Answerer) -> None:
        self._answers: list[Answer] = []
        self._pieces = _pieces_awaited(work, self._answers)

    async def __anext__(self) -> str:
        return await anext(self._pieces)

    async def answer(self) -> Answer:
        """The answer; pieces that nobody read are passed over. Raises UsageError where the stream was closed before its end."""
        async for _ in self._pieces:
            pass
        return _only(self._answers)

    async def aclose(self) -> None:
        """Call the work off, unless it is done."""
        await self._pieces.aclose()

    async def __aenter__(self) -> AsyncAnswerStream:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


Stream = TypeVar("Stream", AnswerStream, AsyncAnswerStream)
_STREAM_TEXTS: dict[type, tuple[str, str]] = {
    AnswerStream: (
        "{name}_stream",
        "The pieces of the answer that `{name}` gives, as they arrive; `answer()` of the stream is the whole of it.\n\n"
        "Where nothing can be shown on the way (without a chat model), the answer comes in one piece.",
    ),
    AsyncAnswerStream: (
        "a{name}_stream",
        "`{name}_stream` for coroutines: `async for piece in ...`, then `await stream.answer()`.",
    ),
}
"""The name and the description of a method's twin, by the stream that it gives."""


def as_async(
    method: Callable[Concatenate[Owner, Given], Result], *, waits: bool = False
) -> Callable[Concatenate[Owner, Given], Coroutine[Any, Any, Result]]:
    """The method as a coroutine function, whose work is done in a thread. It mostly `waits` for a model where that is said."""

    @wraps(method)
    async def twin(self: Owner, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return await in_thread(partial(method, self, *args, **kwargs), waits=waits)

    awaited: Callable[Concatenate[Owner, Given], Coroutine[Any, Any, Result]] = _described_as(
        twin, method, "a" + method.__name__, "Awaits `{name}`. When the awaiting task is cancelled, so is the work."
    )
    return awaited


def as_stream(
    method: Callable[Concatenate[Owner, Given], Answer], stream: type[Stream]
) -> Callable[Concatenate[Owner, Given], Stream]:
    """The method, which takes `show`, as one that gives the pieces as a stream: an iterator, or an asynchronous one."""

    @wraps(method)
    def twin(self: Owner, /, *args: Given.args, **kwargs: Given.kwargs) -> Stream:
        if kwargs.get("show") is not None:
            raise UsageError("a stream gives the pieces itself", "leave out `show`")
        answer: Callable[..., Answer] = partial(method, self, *args, **kwargs)
        return stream(lambda show: answer(show=show))

    name, doc = _STREAM_TEXTS[stream]
    described: Callable[Concatenate[Owner, Given], Stream] = _described_as(
        twin, method, name.format(name=method.__name__), doc, stream.__name__
    )
    return described


def each(work: Callable[[Item], Result], questions: Sequence[Item], concurrency: int) -> list[Result | Exception]:
    """The results, at most `concurrency` at the same time, in the order of the questions. An error stands in for a result."""
    concurrency = whole("concurrency", concurrency, AT_ONCE)
    called = CancellableWork.current()
    with ThreadPoolExecutor(concurrency, thread_name_prefix="mergewise-ask") as pool:
        try:
            attempts = [partial(_attempt, work, question) for question in questions]
            asked = [pool.submit(copy_context().run, called.do, attempt) for attempt in attempts]
            return [one.result() for one in asked]
        except BaseException:
            called.cancel()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _attempt(work: Callable[[Item], Result], question: Item) -> Result | Exception:
    try:
        return work(question)
    except Exception as error:
        return error


def _described_as(twin: Any, method: Callable[..., object], name: str, doc: str, gives: str | None = None) -> Any:
    """The twin as help shows it: with the parameters of the method, but with a name, a text and a result of its own."""
    twin.__name__ = name
    twin.__qualname__ = method.__qualname__.removesuffix(method.__name__) + name
    twin.__doc__ = doc.format(name=method.__name__)
    signature = inspect.signature(method)
    hidden = [] if gives is None else ["show"]
    kept = [parameter for parameter in signature.parameters.values() if parameter.name not in hidden]
    twin.__signature__ = signature.replace(parameters=kept, return_annotation=gives or signature.return_annotation)
    return twin


def _only(answers: Sequence[Answer]) -> Answer:
    if not answers:
        raise UsageError("the stream was closed before its end, so that there is no answer", "ask again")
    return answers[0]


def _pieces(work: Answerer, answers: list[Answer]) -> Generator[str, None, None]:
    arrived: SimpleQueue[str | None] = SimpleQueue()
    outcome: Future[Answer] = Future()
    called = CancellableWork()

    def answer() -> None:
        try:
            outcome.set_result(called.do(lambda: work(arrived.put)))
        except BaseException as error:
            outcome.set_exception(error)
        finally:
            arrived.put(None)

    thread = Thread(target=copy_context().run, args=(answer,), name="mergewise-stream", daemon=True)
    thread.start()
    try:
        shown = False
        while (piece := arrived.get()) is not None:
            shown = True
            yield piece
        answers.append(outcome.result())
        if not shown:
            yield answers[0].text
    finally:
        called.cancel()
        thread.join(_STOP_SECONDS)


async def _pieces_awaited(work: Answerer, answers: list[Answer]) -> AsyncGenerator[str, None]:
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[str | None] = asyncio.Queue()
    task = loop.create_task(in_thread(lambda: work(lambda piece: _put(loop, arrived, piece)), waits=True))
    task.add_done_callback(lambda _: arrived.put_nowait(None))
    try:
        shown = False
        while (piece := await arrived.get()) is not None:
            shown = True
            yield piece
        answers.append(await task)
        if not shown:
            yield answers[0].text
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _put(loop: asyncio.AbstractEventLoop, queue: asyncio.Queue[str | None], piece: str) -> None:
    """A loop that was closed meanwhile wants no more pieces."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(queue.put_nowait, piece)
