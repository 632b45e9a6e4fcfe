"""Other forms of a question: awaited, streamed, or many at once. Each is made from the synchronous method.

Streams and awaited questions work in another thread. If the caller stops listening, the work is cancelled: the call of the chat
model is cancelled, and the thread ends.
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
"""Function that answers a question and passes each piece of the answer to a callback."""

_STOP_SECONDS = 5.0  # to wait for the thread of cancelled work; the code of a model cannot be interrupted


class AnswerStream(Iterator[str]):
    """Iterator over the pieces of an answer as they arrive. Then `answer()` returns the whole answer.

    The work begins with the first `next()`. Closing the stream, leaving its `with` block, or dropping it cancels the work.
    Iteration raises what `Index.ask` raises.
    """

    def __init__(self, work: Answerer) -> None:
        self._answers: list[Answer] = []
        self._pieces = _pieces(work, self._answers)

    def __next__(self) -> str:
        return next(self._pieces)

    def answer(self) -> Answer:
        """Return the whole answer. Pieces that nobody has read are skipped.

        Raises:
            UsageError: if the stream was closed before its end.
        """
        for _ in self._pieces:
            pass
        return _finished_answer(self._answers)

    def close(self) -> None:
        """Cancel the work if it is not done."""
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
        """Return the whole answer. Pieces that nobody has read are skipped.

        Raises:
            UsageError: if the stream was closed before its end.
        """
        async for _ in self._pieces:
            pass
        return _finished_answer(self._answers)

    async def aclose(self) -> None:
        """Cancel the work if it is not done."""
        await self._pieces.aclose()

    async def __aenter__(self) -> AsyncAnswerStream:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


Stream = TypeVar("Stream", AnswerStream, AsyncAnswerStream)
_STREAM_TEXTS: dict[type, tuple[str, str]] = {
    AnswerStream: (
        "{name}_stream",
        "Stream the pieces of the answer of `{name}` as they arrive. `answer()` of the stream returns the whole answer.\n\n"
        "Without a chat model, the answer is one piece.",
    ),
    AsyncAnswerStream: (
        "a{name}_stream",
        "Stream like `{name}_stream`, but for coroutines: `async for piece in ...`, then `await stream.answer()`.",
    ),
}
"""Name and description of a streaming method, by the type of its stream."""


def as_async(
    method: Callable[Concatenate[Owner, Given], Result], *, waits: bool = False
) -> Callable[Concatenate[Owner, Given], Coroutine[Any, Any, Result]]:
    """Return the method as a coroutine function that works in a thread. `waits` marks a method that mostly waits for a model."""

    @wraps(method)
    async def twin(self: Owner, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return await in_thread(partial(method, self, *args, **kwargs), waits=waits)

    doc = "Await `{name}`. Cancelling the awaiting task cancels the work."
    return _described_as(twin, method, "a" + method.__name__, doc)  # type: ignore[no-any-return]


def as_stream(
    method: Callable[Concatenate[Owner, Given], Answer], stream: type[Stream]
) -> Callable[Concatenate[Owner, Given], Stream]:
    """Return a method with the callback `show` as one that returns a stream: an iterator, or an asynchronous iterator."""

    @wraps(method)
    def twin(self: Owner, /, *args: Given.args, **kwargs: Given.kwargs) -> Stream:
        if kwargs.get("show") is not None:
            raise UsageError("a stream takes no `show`", "read the pieces from the stream")
        answer: Callable[..., Answer] = partial(method, self, *args, **kwargs)
        return stream(lambda show: answer(show=show))

    name, doc = _STREAM_TEXTS[stream]
    own_name = name.format(name=method.__name__)
    return _described_as(twin, method, own_name, doc, stream.__name__)  # type: ignore[no-any-return]


def each(work: Callable[[Item], Result], questions: Sequence[Item], concurrency: int) -> list[Result | Exception]:
    """Work on the questions, at most `concurrency` at the same time. Return results or errors, in order."""

    def attempt(question: Item) -> Result | Exception:
        try:
            return work(question)
        except Exception as error:
            return error

    concurrency = whole("concurrency", concurrency, AT_ONCE)
    called = CancellableWork.current()
    with ThreadPoolExecutor(concurrency, thread_name_prefix="mergewise-ask") as pool:
        try:
            attempts = [partial(attempt, question) for question in questions]
            asked = [pool.submit(copy_context().run, called.do, one) for one in attempts]
            return [one.result() for one in asked]
        except BaseException:
            called.cancel()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _described_as(twin: Any, method: Callable[..., object], name: str, doc: str, gives: str | None = None) -> Any:
    """Give `twin` a name, a text and a result type of its own, and the parameters of the method."""
    twin.__name__ = name
    twin.__qualname__ = method.__qualname__.removesuffix(method.__name__) + name
    twin.__doc__ = doc.format(name=method.__name__)
    signature = inspect.signature(method)
    hidden = [] if gives is None else ["show"]
    kept = [parameter for parameter in signature.parameters.values() if parameter.name not in hidden]
    twin.__signature__ = signature.replace(parameters=kept, return_annotation=gives or signature.return_annotation)
    return twin


def _finished_answer(answers: Sequence[Answer]) -> Answer:
    if not answers:
        raise UsageError("stream closed before its end: no answer", "ask again")
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

    def put(piece: str) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(arrived.put_nowait, piece)

    task = loop.create_task(in_thread(lambda: work(put), waits=True))
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
