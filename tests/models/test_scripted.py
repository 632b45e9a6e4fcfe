"""The scripted chat model in the process. The tests of the chat adapter cover it over HTTP."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mergewise.concurrency import run
from mergewise.errors import ModelError
from mergewise.models.scripted import ScriptedChat, Turn, pieces
from mergewise.protocols import ChatModel
from mergewise.types import Message, Reply, Usage


def ask(chat: ChatModel, text: str, max_tokens: int = 1024) -> Reply:
    return run(chat.complete([Message("user", text)], max_tokens=max_tokens))


def test_answers_come_in_turn_and_the_last_repeats() -> None:
    chat = ScriptedChat(["one", Turn("two")])
    assert [ask(chat, q).text for q in "abc"] == ["one", "two", "two"]
    assert [asked.text for asked in chat.asked] == ["a", "b", "c"]


def test_answers_may_depend_on_the_messages() -> None:
    def shout(messages: Sequence[Message]) -> str:
        return messages[-1].text.upper()

    chat = ScriptedChat(shout)
    assert ask(chat, "cats eat fish") == Reply("CATS EAT FISH", Usage(1, 3, 3))
    assert ask(chat, "cats eat fish", max_tokens=2) == Reply("CATS EAT ", Usage(1, 3, 2), complete=False)


def test_a_stream_yields_the_pieces_and_then_the_whole_reply() -> None:
    async def collect() -> list[str | Reply]:
        return [piece async for piece in ScriptedChat(["Cats eat “fish”."]).stream([Message("user", "q")])]

    *shown, reply = run(collect())
    assert isinstance(reply, Reply) and len(shown) > 3
    assert "".join(str(piece) for piece in shown) == reply.text == "Cats eat “fish”."


@pytest.mark.parametrize("text", ["", " ", "  a b ", "語は日本語 \n x", "a\ud800b", "\n"])
def test_pieces_join_to_the_text(text: str) -> None:
    assert "".join(pieces(text)) == text


def test_failures() -> None:
    for turn in (Turn(status=500), Turn(fault="disconnect")):
        with pytest.raises(ModelError, match="scripted"):
            ask(ScriptedChat([turn]), "q")
