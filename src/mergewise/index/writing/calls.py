"""Prompts that each get a text, side by side: what summaries are made by, of whatever a view summarises.

The chat model's cache keeps every answer under a hash of model, parameters and prompt: what came is paid for once, also when
indexing was killed in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from mergewise.concurrency import run
from mergewise.errors import ModelError, UsageError
from mergewise.models.record import Models
from mergewise.protocols import ChatModel, KeepsReplies, TokenCounter
from mergewise.store.views import Estimate, OnShare
from mergewise.types import Message, Reply, Usage

log = logging.getLogger("mergewise")

AT_ONCE = 8


class Calls:
    """Calls of a chat model, eight at a time.

    After one fails for good, none is begun; those on their way are waited for: they are paid for, and the cache keeps them.
    """

    def __init__(self, chat: ChatModel, max_tokens: int) -> None:
        self._chat, self._max_tokens = chat, max_tokens
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._failed: ModelError | None = None

    async def ask(self, messages: Sequence[Message]) -> Reply | None:
        """The answer; None after a failure."""
        async with self._gate:
            try:
                return None if self._failed else await self._chat.complete(messages, max_tokens=self._max_tokens)
            except ModelError as error:
                self._failed = self._failed or error
                return None

    async def all(self, works: Sequence[Awaitable[str | None]]) -> list[str | None]:
        """What each work gives. Raises the ModelError of the first call that failed, when all are through."""
        written = await asyncio.gather(*works)
        if self._failed is not None:
            raise self._failed
        return written


def write_each(
    texts: Sequence[str],
    models: Models,
    max_tokens: int,
    write: Callable[[str, Calls], Awaitable[str | None]],
    cost: Usage,
    on_share: OnShare | None = None,
) -> list[str | None]:
    """The summary that `write` makes of each text, by the chat model; texts that are the same are written about once.

    Logs the expected `cost` before it starts; `on_share` hears how far it is, in characters. Raises ModelError when the model
    fails for good; the answers that came before are in its cache.
    """
    chat = chat_of(models)
    if cost.calls:
        log.warning(
            "%d summaries by %s: about %d calls, %d tokens to read, %d to write",
            len(texts), chat.spec, cost.calls, cost.input_tokens, cost.output_tokens,
        )  # fmt: skip
    distinct = list(dict.fromkeys(texts))
    total = sum(map(len, distinct))

    async def one(text: str, calls: Calls) -> str | None:
        made = await write(text, calls)
        if on_share is not None and total:
            on_share(len(text) / total)
        return made

    async def all_() -> list[str | None]:
        calls = Calls(chat, max_tokens)
        return await calls.all([one(text, calls) for text in distinct])

    made = dict(zip(distinct, run(all_()), strict=True))
    return [made[text] for text in texts]


def chat_of(models: Models, what: str = "summaries") -> ChatModel:
    """The chat model that writes `what`. Raises UsageError where none is named."""
    if models.chat is None:
        raise UsageError(f"this index has {what} by a chat model", "name one: --chat openai:MODEL")
    return models.chat


def cost(
    prompts: Sequence[tuple[Sequence[Message], int]], max_tokens: int, chat: ChatModel, count_tokens: TokenCounter
) -> Estimate:
    """What these prompts cost, each given with the tokens that a good answer has. Those that are the same cost once."""
    fresh = {tuple(message.text for message in messages): (messages, size) for messages, size in prompts}
    due = [
        (messages, size)
        for messages, size in fresh.values()
        if not (isinstance(chat, KeepsReplies) and chat.has(messages, max_tokens=max_tokens))
    ]
    read = sum(count_tokens([message.text for messages, _ in due for message in messages]))
    return Estimate(0, Usage(len(due), read, sum(min(size, max_tokens) for _, size in due)), len(fresh) - len(due))
