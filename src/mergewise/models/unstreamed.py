"""Chat models that cannot stream, and yet are asked to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol, cast

from mergewise.protocols import ChatModel
from mergewise.types import Message, Reply


class Completes(Protocol):
    """What such a model has: a `ChatModel` without `stream`."""

    @property
    def spec(self) -> str: ...

    @property
    def identity(self) -> str: ...

    @property
    def window(self) -> int: ...

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Mapping[str, object] | None = None
    ) -> Reply: ...


class Unstreamed:
    """A `ChatModel` whose stream is the whole answer in one piece."""

    def __init__(self, chat: Completes) -> None:
        self.chat = chat
        self.complete = chat.complete

    @property
    def spec(self) -> str:
        return self.chat.spec

    @property
    def identity(self) -> str:
        return self.chat.identity

    @property
    def window(self) -> int:
        return self.chat.window

    async def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        reply = await self.complete(messages, max_tokens=max_tokens)
        yield reply.text
        yield reply


def streaming(chat: ChatModel | Completes) -> ChatModel:
    """The model itself where it can stream."""
    return cast(ChatModel, chat) if hasattr(chat, "stream") else Unstreamed(chat)
