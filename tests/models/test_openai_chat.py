"""The chat adapter over real HTTP, against a scripted endpoint."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import pytest
from tests import chat_server
from tests.chat_server import ChatServer
from tests.support import patience

from mergewise.concurrency import run
from mergewise.errors import InputRefused, ModelError, UsageError
from mergewise.models import load_chat
from mergewise.models.endpoint import LONGEST_PAUSE, Endpoint
from mergewise.models.scripted import Turn
from mergewise.protocols import ChatModel
from mergewise.types import Message, Reply, Usage

openai_chat = pytest.importorskip("mergewise.models.openai_chat", exc_type=ImportError)
pytest.importorskip("openai")

AT_ONCE = {"Retry-After-Ms": "1"}
QUESTION = [Message("system", "Be brief."), Message("user", "What do cats eat?")]
SCHEMA = {"type": "object", "properties": {"keep": {"type": "boolean"}}, "required": ["keep"]}

NO_TEXT = {"choices": [{"message": {"content": 7}}]}

Connect = Callable[..., tuple[ChatServer, Any]]


def streamed(chat: ChatModel, messages: list[Message] = QUESTION) -> tuple[list[str], Reply]:
    async def collect() -> list[str | Reply]:
        return [piece async for piece in chat.stream(messages)]

    *pieces, reply = run(collect())
    assert isinstance(reply, Reply)
    return [piece for piece in pieces if isinstance(piece, str)], reply


def test_a_complete_answer(serve: Connect) -> None:
    server, chat = serve(["Cats eat fish."], api_key="secret", seed=7)
    reply = run(chat.complete(QUESTION, max_tokens=50))
    assert reply == Reply("Cats eat fish.", Usage(1, 8, 4))
    (asked,) = server.asked
    assert (asked.messages, asked.max_tokens, asked.streamed) == (tuple(QUESTION), 50, False)
    assert dict(asked.options) == {"model": "m", "temperature": 0.0, "seed": 7, "max_tokens": 50}
    assert chat.spec == "openai:m"


def test_a_streamed_answer_equals_the_complete_answer(serve: Connect) -> None:
    _, chat = serve(["Cats eat fish, and “milk” — every day, and cream on Sundays if they may."])
    pieces, reply = streamed(chat)
    assert len(pieces) > 5 and "".join(pieces) == reply.text
    assert reply == run(chat.complete(QUESTION))


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        ("<think>Is it yes or no? [1]</think>\n\nFish.", "Fish."),
        ("\n<think>No end", ""),
        ("<thinly sliced fish>", "<thinly sliced fish>"),
        ("<", "<"),
        ("It says <think>so</think>.", "It says <think>so</think>."),
    ],
)
def test_thoughts_before_the_answer_are_removed(serve: Connect, said: str, answered: str) -> None:
    _, chat = serve([said])
    assert run(chat.complete(QUESTION)).text == answered
    pieces, reply = streamed(chat)
    assert "".join(pieces) == reply.text == answered


def test_a_lone_surrogate_becomes_a_question_mark(serve: Connect) -> None:
    _, chat = serve(["a\ud800b"])
    assert run(chat.complete(QUESTION)).text == streamed(chat)[1].text == "a?b"


def test_an_answer_at_the_limit_of_tokens_is_incomplete(serve: Connect) -> None:
    _, chat = serve(["one two three four five"])
    reply = run(chat.complete(QUESTION, max_tokens=2))
    assert (reply.text, reply.complete, reply.usage.output_tokens) == ("one two ", False, 2)


@pytest.mark.parametrize(
    "turn", [Turn(status=429), Turn(status=500), Turn(status=503), Turn(fault="truncate", text="x")]
)
def test_temporary_failures_are_retried(serve: Connect, turn: Turn) -> None:
    turn = Turn(turn.text, turn.status, AT_ONCE, turn.fault)
    server, chat = serve([turn, "good"])
    assert run(chat.complete(QUESTION)).text == "good"
    assert server.requests == 2
    assert run(chat.complete(QUESTION)).text == "good"


def test_a_lost_connection_is_retried(serve: Connect) -> None:
    for ask in (lambda chat: run(chat.complete(QUESTION)).text, lambda chat: streamed(chat)[1].text):
        server, chat = serve([Turn(fault="disconnect"), "good"])
        assert ask(chat) == "good"
        assert server.requests == 2


@pytest.mark.parametrize(
    ("after", "told"), [(LONGEST_PAUSE, False), (LONGEST_PAUSE + 1, True), ("soon", False), ("9" * 20, False)]
)
def test_the_hint_names_a_long_pause(after: object, told: bool) -> None:
    openai = pytest.importorskip("openai")
    error = openai.OpenAIError("busy")
    error.response = SimpleNamespace(headers={"retry-after": str(after)})
    hint = Endpoint("openai:m", "chat completions", base_url="http://127.0.0.1:9").failure(error).hint
    assert (f"retry after {after} seconds" in hint) is told


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_the_client_waits_for_the_pause_that_the_endpoint_asks_for(serve: Connect, form: str) -> None:
    after = "1" if form == "seconds" else formatdate(time.time() + 2, usegmt=True)
    _, chat = serve([Turn(status=429, headers={"Retry-After": after}), "good"])
    started = time.monotonic()
    assert run(chat.complete(QUESTION)).text == "good"
    assert time.monotonic() - started > 0.9


@pytest.mark.parametrize(
    ("turn", "requests", "hint"),
    [
        (Turn(status=429), 3, "quota"),
        (Turn(status=500), 3, "OPENAI_BASE_URL"),
        (Turn(status=401), 1, "OPENAI_API_KEY"),
        (Turn(status=403), 1, "OPENAI_API_KEY"),
        (Turn(status=404), 1, "name"),
        (Turn(status=400), 1, "shorten"),
        (Turn(status=422), 1, "shorten"),
        (Turn("what", fault="nonsense"), 1, "serves chat completions"),
        (Turn("one two three four", fault="truncate"), 3, "OPENAI_BASE_URL"),
    ],
)
def test_failures_are_translated(serve: Connect, turn: Turn, requests: int, hint: str) -> None:
    server, chat = serve([Turn(turn.text, turn.status, AT_ONCE, turn.fault)])
    with pytest.raises(ModelError, match="openai:m") as caught:
        run(chat.complete(QUESTION))
    assert hint in caught.value.hint
    assert server.requests == requests


@pytest.mark.parametrize(
    "turn", [Turn(status=401), Turn("what", fault="nonsense"), Turn("a b c d " * 8, fault="truncate")]
)
def test_failures_of_streams_are_translated(serve: Connect, turn: Turn) -> None:
    """A stream is not retried after its first piece, because the reader has seen it."""
    server, chat = serve([turn])
    with pytest.raises(ModelError, match="openai:m"):
        streamed(chat)
    assert server.requests == 1


def test_a_stream_that_breaks_before_its_first_piece_is_retried(serve: Connect) -> None:
    server, chat = serve([Turn("one", fault="truncate"), "good"])
    assert streamed(chat)[1].text == "good"
    assert server.requests == 2
    server, chat = serve([Turn("one", fault="truncate")], retries=1)
    with pytest.raises(ModelError, match="openai:m"):
        streamed(chat)
    assert server.requests == 2


def test_a_broken_stream_yields_the_pieces_before_the_error(serve: Connect) -> None:
    words = "one two three four five six seven eight nine ten eleven twelve "
    _, chat = serve([Turn(words, fault="truncate")])
    seen: list[str | Reply] = []

    async def read() -> None:
        async for piece in chat.stream(QUESTION):
            seen.append(piece)

    with pytest.raises(ModelError):
        run(read())
    assert "".join(map(str, seen)) == "one two three four five six "


def test_an_invalid_answer_is_an_error(serve: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    without_choices: list[Any] = [{}, [], {"choices": []}, {"choices": None}, {"choices": [{"message": None}]}]
    for answer in (*without_choices, NO_TEXT, "text", 7, None):
        server, chat = serve(["x"])
        monkeypatch.setattr(
            chat_server._Handler,
            "_complete",
            lambda handler, *rest, answer=answer: handler._send(200, json.dumps(answer).encode(), {}),
        )
        with pytest.raises(ModelError, match="invalid answer from openai:m"):
            run(chat.complete(QUESTION))
        assert server.requests == 1


def test_a_slow_endpoint_runs_into_the_timeout(serve: Connect) -> None:
    _, chat = serve([Turn("late", pause=30)], timeout=0.1, retries=0)
    with pytest.raises(ModelError, match="openai:m") as caught:
        run(chat.complete(QUESTION))
    assert "in time" in caught.value.hint


def test_json_by_schema_and_its_fallbacks(serve: Connect) -> None:
    server, chat = serve(['{"keep": true}'])
    assert run(chat.complete(QUESTION, schema=SCHEMA)).text == '{"keep": true}'
    assert server.asked[0].schema == SCHEMA and server.asked[0].messages == tuple(QUESTION)

    server, chat = serve(['{"keep": true}'], ("json_schema",))
    for _ in range(2):
        run(chat.complete(QUESTION, schema=SCHEMA))
    assert server.asked[0].options["response_format"] == {"type": "json_object"}
    assert json.dumps(SCHEMA) in server.asked[0].messages[0].text
    assert server.requests == 3  # a refused option is not sent again

    server, chat = serve(['{"keep": true}'], ("response_format",))
    run(chat.complete(QUESTION, schema=SCHEMA))
    assert "response_format" not in server.asked[0].options
    assert json.dumps(SCHEMA) in server.asked[0].messages[0].text
    assert server.requests == 3
    run(chat.complete(QUESTION))
    assert server.asked[1].messages == tuple(QUESTION)


def test_refused_options_are_left_out(serve: Connect) -> None:
    server, chat = serve(["good"], ("temperature", "max_tokens", "stream_options"))
    assert streamed(chat)[1].text == "good"
    options = server.asked[0].options
    assert options["max_completion_tokens"] == 1024
    assert not {"temperature", "max_tokens", "stream_options"} & options.keys()
    assert server.requests == 4


def test_a_model_with_further_options_sends_them(serve: Connect) -> None:
    server, chat = serve(["yes"], retries=0)
    form = {"type": "json_object"}
    changed = chat.with_options({"temperature": 0.7, "stop": ["END"], "response_format": form})
    run(changed.complete([Message("user", "x")]))
    run(chat.complete([Message("user", "x")]))
    sent, usual = (asked.options for asked in server.asked)
    assert (sent["temperature"], sent["stop"], sent["response_format"]) == (0.7, ["END"], form)
    assert usual["temperature"] == 0.0 and "stop" not in usual and changed.identity != chat.identity
    server.refuses = ("json_object",)
    with pytest.raises(InputRefused):
        run(changed.complete([Message("user", "x")]))
    # another form of JSON would not be what the client asked for
    assert server.requests == 3


def test_a_server_that_fails_on_a_schema_is_asked_in_words(serve: Connect) -> None:
    """llama-cpp-python returns status 500 with a message that names `response_format`."""
    server, chat = serve(["{}"], ("response_format",), retries=0)
    server.refusal = 500
    for _ in range(2):
        assert run(chat.complete(QUESTION, schema=SCHEMA)).text == "{}"
    assert "response_format" not in server.asked[-1].options and "keep" in server.asked[-1].messages[0].text
    assert server.requests == 4


def test_a_refused_question_does_not_change_the_options(serve: Connect) -> None:
    """A text that is too long does not turn off JSON mode."""
    server, chat = serve([Turn(status=400), Turn(status=400), Turn(status=400), "{}"])
    with pytest.raises(ModelError):
        run(chat.complete(QUESTION, schema=SCHEMA))
    run(chat.complete(QUESTION, schema=SCHEMA))
    assert server.asked[-1].schema == SCHEMA


def test_calls_run_concurrently_up_to_the_limit(serve: Connect) -> None:
    async def ask(chat: ChatModel) -> list[Reply]:
        return await asyncio.gather(*(chat.complete([Message("user", str(i))]) for i in range(6)))

    for limit in (1, 3, 6):

        def echo(messages: Any, limit: int = limit) -> Turn:
            return Turn(messages[-1].text, pause=0.02, together=limit)

        server, chat = serve(echo, concurrency=limit)
        assert [reply.text for reply in run(ask(chat))] == list("012345")
        assert server.most_at_once == limit


def test_cancelling_frees_the_slot_at_once(serve: Connect) -> None:
    server, chat = serve([Turn("late", pause=3), "good"], concurrency=1)

    async def give_up() -> tuple[str, float]:
        task = asyncio.ensure_future(chat.complete(QUESTION))
        while server.requests == 0:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        cancelled = time.monotonic()
        return (await chat.complete(QUESTION)).text, time.monotonic() - cancelled

    text, waited = run(give_up())
    assert text == "good" and waited < 2.5, "the place is free long before the first answer comes"
    assert server.requests == 2


def test_the_same_model_in_several_event_loops(serve: Connect) -> None:
    _, chat = serve(["good"])

    async def ask() -> str:
        text = (await chat.complete(QUESTION)).text
        await chat.aclose()
        return str(text)

    assert asyncio.run(ask()) == asyncio.run(ask()) == run(ask()) == "good"


def test_an_unreachable_endpoint_raises_an_error() -> None:
    chat = openai_chat.OpenAIChat("m", base_url="http://127.0.0.1:9/v1", retries=1)
    with pytest.raises(ModelError, match="openai:m") as caught:
        run(chat.complete(QUESTION))
    assert "http://127.0.0.1:9/v1" in caught.value.hint
    started = time.monotonic()
    with pytest.raises(ModelError, match="openai:m"):
        streamed(chat)
    assert time.monotonic() - started < patience(3)
    run(chat.aclose())


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        load_chat("openai:m")
    with ChatServer(["good"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("MERGEWISE_WINDOW", "4096")
        chat: Any = load_chat("openai:m")
        assert chat.window == 4096 and run(chat.complete(QUESTION)).text == "good"
        other: Any = load_chat("openai:m", 512)
        assert other.window == 512
        run(chat.aclose())
    monkeypatch.setenv("MERGEWISE_WINDOW", "large")
    with pytest.raises(UsageError, match="MERGEWISE_WINDOW"):
        load_chat("openai:m")


def test_the_identity_holds_everything_that_changes_the_answer() -> None:
    def identity(model: str = "m", **options: Any) -> str:
        return str(openai_chat.OpenAIChat(model, **{"base_url": "http://a/v1", **options}).identity)

    others = [identity("n"), identity(base_url="http://b/v1"), identity(temperature=1.0), identity(seed=1)]
    assert len({identity(), *others}) == 5
    assert identity() == identity(retries=9, timeout=1, concurrency=1, api_key="other")
