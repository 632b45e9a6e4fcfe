"""Questions that are awaited, streamed, or asked together: the answers are the same, and no thread is left."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

import mergewise as mw
from mergewise.asking import answer_together
from mergewise.models.scripted import ScriptedChat, Turn
from mergewise.types import Message, Reply, Usage
from tests.support import HashEmbedder, cancel_when, until

TEXTS = {
    "cats": "# Cats\n\nCats eat fish. Cats sleep sixteen hours a day.\n",
    "dogs": "# Dogs\n\nDogs bark at night. Dogs eat meat.\n",
}
QUESTION = "What do cats eat?"
SLOW = Turn("Cats eat fish [1].", pause=30)


@pytest.fixture
def open_with(tmp_path: Path) -> Callable[..., mw.Index]:
    def opened(**models: object) -> mw.Index:
        index = mw.open(tmp_path / "index", **{"embedder": "none", **models})  # type: ignore[arg-type]
        index.add(mw.Document(name, text) for name, text in TEXTS.items())
        return index

    return opened


def streams() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "mergewise-stream"]


# -- awaited


def test_fifty_questions_are_awaited_together(open_with: Callable[..., mw.Index]) -> None:
    index = open_with()
    expected = {question: index.ask(question) for question in (QUESTION, "When do dogs bark?")}
    contexts = {question: index.context(question, budget=60) for question in expected}

    async def ask_all() -> tuple[list[mw.Answer], list[mw.Context]]:
        questions = list(expected) * 25
        answers = asyncio.gather(*(index.aask(question) for question in questions))
        found = asyncio.gather(*(index.acontext(question, budget=60) for question in questions))
        return await answers, await found

    answers, found = asyncio.run(ask_all())
    assert answers == list(expected.values()) * 25
    assert found == list(contexts.values()) * 25


def test_awaited_questions_wait_for_a_model_together(open_with: Callable[..., mw.Index]) -> None:
    """There are more questions than the default pool of asyncio has threads on a small machine."""
    chat = ScriptedChat(lambda messages: Turn("Fish [1].", together=20))
    index = open_with(chat=chat)

    async def ask_all() -> list[mw.Answer]:
        return await asyncio.gather(*(index.aask(f"What do cats eat, {i}?") for i in range(20)))

    assert {answer.text for answer in asyncio.run(ask_all())} == {"Fish [1]."}
    assert chat.transcript.most_at_once == 20


def test_cancelling_a_question_cancels_its_model_call(open_with: Callable[..., mw.Index]) -> None:
    """The question has several rounds, but the current call is the last."""
    chat = ScriptedChat([SLOW])
    index = open_with(chat=chat)

    asyncio.run(cancel_when(lambda: bool(chat.asked), index.aask(QUESTION, rounds=3)))
    assert until(lambda: chat.transcript._under_way == 0)
    assert len(chat.asked) == 1


def test_errors_are_passed_on(open_with: Callable[..., mw.Index]) -> None:
    index = open_with()
    with pytest.raises(mw.UsageError, match="question is empty"):
        asyncio.run(index.acontext(" "))
    with pytest.raises(mw.UsageError, match="unknown mode"):
        asyncio.run(index.aask("q", mode="quick"))
    with pytest.raises(mw.UsageError, match="unknown mode"):
        next(index.ask_stream("q", mode="quick"))


def test_the_other_forms_have_the_signature_of_the_method() -> None:
    def parameters(method: object) -> list[str]:
        return list(inspect.signature(method).parameters)  # type: ignore[arg-type]

    assert inspect.iscoroutinefunction(mw.Index.aask)
    for awaited, method in ((mw.Index.aask, mw.Index.ask), (mw.Index.acontext, mw.Index.context)):
        assert inspect.signature(awaited) == inspect.signature(method)
        assert inspect.signature(method).return_annotation is not None
    assert parameters(mw.Index.aask_many) == parameters(mw.Index.ask_many)
    assert set(parameters(mw.Index.ask)) - set(parameters(mw.Index.ask_stream)) == {"show"}
    for name in ("acontext", "aask", "aask_many", "ask_stream", "aask_stream"):
        method = getattr(mw.Index, name)
        assert method.__name__ == name and method.__qualname__ == f"Index.{name}" and method.__doc__


# -- streamed


def test_pieces_arrive_one_by_one_and_then_the_answer(open_with: Callable[..., mw.Index]) -> None:
    text = "Cats eat fish, and only fish [1]."
    index = open_with(chat=ScriptedChat([text]))
    stream = index.ask_stream(QUESTION, budget=100)
    pieces = list(stream)
    assert len(pieces) > 3 and "".join(pieces) == text
    answer = stream.answer()
    assert (answer.text, answer.mode, answer.question) == (text, "r&b", QUESTION)
    assert answer == index.ask(QUESTION, budget=100)
    assert index.ask_stream(QUESTION).answer().text == text  # nobody read the pieces
    assert not streams()


def test_the_first_piece_comes_before_the_model_is_done(open_with: Callable[..., mw.Index]) -> None:
    chat = Gated()
    stream = open_with(chat=chat).ask_stream(QUESTION)
    assert next(stream) == "Cats"
    chat.go_on.set()
    assert "".join(stream) == " eat fish."


def test_answer_of_a_model_without_streaming_is_one_piece(open_with: Callable[..., mw.Index]) -> None:
    extractive = open_with()
    stream = extractive.ask_stream(QUESTION)
    assert list(stream) == [stream.answer().text] == [extractive.ask(QUESTION).text]
    (nothing,) = extractive.ask_stream("Who won the match?")
    assert "Nothing relevant" in nothing
    index = open_with(chat=Plain(), cache=None)
    stream = index.ask_stream(QUESTION)
    assert "".join(stream) == stream.answer().text == "Fish [1]."
    assert [c.text for c in stream.answer().citations] == ["Cats eat fish."]


def test_leaving_a_stream_cancels_the_work(open_with: Callable[..., mw.Index]) -> None:
    def closed(stream: object) -> None:
        stream.close()  # type: ignore[attr-defined]

    for leave in (closed, lambda stream: None):
        chat = Gated()
        stream = open_with(chat=chat).ask_stream(QUESTION)
        assert next(stream) == "Cats" and len(streams()) == 1
        leave(stream)
        del stream
        assert until(lambda: not streams())
        assert until(lambda chat=chat: chat.ended == "cancelled")  # type: ignore[misc]


def test_a_stream_in_a_with_block_ends_with_it(open_with: Callable[..., mw.Index]) -> None:
    chat = Gated()
    with open_with(chat=chat).ask_stream(QUESTION) as stream:
        next(stream)
    assert not streams()
    with pytest.raises(StopIteration):
        next(stream)
    with pytest.raises(mw.UsageError, match="closed before its end"):
        stream.answer()


def test_a_stream_that_nobody_reads_starts_nothing(open_with: Callable[..., mw.Index]) -> None:
    chat = ScriptedChat(["Fish."])
    stream = open_with(chat=chat).ask_stream(QUESTION)
    stream.close()
    assert chat.asked == [] and not streams()


def test_a_model_that_fails_fails_the_stream(open_with: Callable[..., mw.Index]) -> None:
    index = open_with(chat=ScriptedChat([Turn(status=500)]))
    with pytest.raises(mw.ModelError):
        list(index.ask_stream(QUESTION))
    assert not streams()
    with pytest.raises(mw.UsageError, match="a stream takes no `show`"):
        index.ask_stream(QUESTION, show=print)


def test_streams_for_coroutines(open_with: Callable[..., mw.Index]) -> None:
    text = "Cats eat fish [1]."
    index = open_with(chat=ScriptedChat([text]))

    async def read() -> tuple[list[str], mw.Answer]:
        stream = index.aask_stream(QUESTION)
        pieces = [piece async for piece in stream]
        return pieces, await stream.answer()

    pieces, answer = asyncio.run(read())
    assert len(pieces) > 2 and "".join(pieces) == text == answer.text

    async def fail() -> None:
        async for _ in index.aask_stream(" "):
            pass

    with pytest.raises(mw.UsageError, match="empty"):
        asyncio.run(fail())


def test_leaving_an_async_stream_cancels_the_work(open_with: Callable[..., mw.Index]) -> None:
    chat = Gated()
    index = open_with(chat=chat)

    async def leave() -> None:
        async with index.aask_stream(QUESTION) as stream:
            assert await anext(stream) == "Cats"
        with pytest.raises(mw.UsageError, match="closed before its end"):
            await stream.answer()

    asyncio.run(leave())
    assert until(lambda: chat.ended == "cancelled")


def test_cancelling_a_reader_cancels_the_work(open_with: Callable[..., mw.Index]) -> None:
    chat = Gated()
    index = open_with(chat=chat)

    async def read() -> None:
        async for _ in index.aask_stream(QUESTION):
            pass

    asyncio.run(cancel_when(chat.begun.is_set, read()))
    assert until(lambda: chat.ended == "cancelled")


# -- many


def test_questions_that_failed_keep_their_errors() -> None:
    errors = [mw.UsageError(f"question {number} is empty") for number in range(20)]
    assert answer_together(errors, "r&b") == errors


def test_answers_are_in_order_and_failures_are_separate(open_with: Callable[..., mw.Index]) -> None:
    embedder = HashEmbedder()
    index = open_with(embedder=embedder)
    index.add(mw.Document(name, text) for name, text in TEXTS.items())
    embedder.asked.clear()
    questions = [QUESTION, " ", "When do dogs bark?", QUESTION]
    first, second, third, fourth = index.ask_many(questions, concurrency=2, budget=80)
    assert isinstance(second, mw.UsageError) and "empty" in str(second)
    assert first == fourth == index.ask(QUESTION, budget=80)
    assert isinstance(third, mw.Answer) and third.question == "When do dogs bark?"
    assert embedder.asked[:2] == [QUESTION, "When do dogs bark?"]
    assert asyncio.run(index.aask_many(questions, budget=80))[0] == first
    assert index.ask_many([]) == []


def test_concurrency_limit_is_kept(open_with: Callable[..., mw.Index]) -> None:
    chat = ScriptedChat(lambda messages: Turn("Fish [1].", together=3))
    answers = open_with(chat=chat).ask_many([f"What do cats eat, {i}?" for i in range(9)], concurrency=3)
    assert len(answers) == 9 and all(isinstance(answer, mw.Answer) for answer in answers)
    assert chat.transcript.most_at_once == 3


def test_cancelled_questions_stop(open_with: Callable[..., mw.Index]) -> None:
    chat = ScriptedChat([SLOW])
    index = open_with(chat=chat)

    asyncio.run(cancel_when(lambda: len(chat.asked) >= 2, index.aask_many([QUESTION] * 20, concurrency=2)))
    assert until(lambda: chat.transcript._under_way == 0)
    assert until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("mergewise-ask")])
    assert len(chat.asked) == 2


def test_any_error_takes_the_place_of_its_answer(open_with: Callable[..., mw.Index]) -> None:
    def script(messages: Sequence[Message]) -> str:
        if "dogs" in messages[-1].text.rpartition("Question:")[2]:
            raise KeyError("what a user's own model may raise")
        return "Fish [1]."

    first, second, third = open_with(chat=ScriptedChat(script)).ask_many([QUESTION, "Do dogs eat meat?", QUESTION])
    assert isinstance(second, KeyError)
    assert isinstance(first, mw.Answer) and first == third


def test_failed_batch_of_questions_is_embedded_one_by_one(open_with: Callable[..., mw.Index]) -> None:
    class Narrow(HashEmbedder):
        def embed_queries(self, texts: Sequence[str]) -> object:  # type: ignore[override]
            if len(texts) > 1:
                raise mw.ModelError("too many texts", "fewer")
            return super().embed_queries(texts)

    answers = open_with(embedder=Narrow()).ask_many([QUESTION, "When do dogs bark?"])
    assert all(isinstance(answer, mw.Answer) for answer in answers)


def test_ask_many_refuses_invalid_arguments(open_with: Callable[..., mw.Index]) -> None:
    index = open_with()
    for wrong in (0, True, 1.5):
        with pytest.raises(mw.UsageError, match="invalid concurrency"):
            index.ask_many([QUESTION], concurrency=wrong)  # type: ignore[arg-type]
    with pytest.raises(mw.UsageError, match="invalid questions: a text"):
        index.ask_many(QUESTION)
    with pytest.raises(mw.UsageError, match="needs a chat model"):
        index.ask_many([QUESTION], mode="r&b")


# -- models


class Plain:
    """A chat model that cannot stream."""

    spec = identity = "plain"
    window = 8192

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Mapping[str, object] | None = None
    ) -> Reply:
        return Reply("Fish [1].", Usage(1))


class Gated(Plain):
    """A chat model that gives one piece, and the rest on a signal. `ended` records how its stream ended."""

    def __init__(self) -> None:
        self.begun, self.go_on, self.ended = threading.Event(), threading.Event(), ""

    async def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024):  # type: ignore[no-untyped-def]
        try:
            yield "Cats"
            self.begun.set()
            while not self.go_on.is_set():
                await asyncio.sleep(0.002)
            yield " eat fish."
            yield Reply("Cats eat fish.", Usage(1))
            self.ended = "whole"
        except (asyncio.CancelledError, GeneratorExit):
            self.ended = "cancelled"
            raise


def test_every_form_of_a_question_takes_a_record(tmp_path: Path) -> None:
    """The streams add their callback to the record."""
    with mw.open(tmp_path / "records", embedder="none") as index:
        index.add(mw.Document("d", "The Lisk is 61 kilometres long."))
        query = mw.AnswerQuery("How long is the Lisk?", budget=60)
        expected = index.ask(query)
        assert expected.text and expected.context.budget == 60 and index.ask(query, budget=50).context.budget == 50
        assert asyncio.run(index.aask(query)).text == expected.text  # type: ignore[arg-type]
        assert index.ask_stream(query).answer().text == expected.text  # type: ignore[arg-type]
        assert index.prepare(query).answer().text == expected.text
