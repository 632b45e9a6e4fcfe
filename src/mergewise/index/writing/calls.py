"""Concurrent calls of a chat model that write one text each, such as the summaries of a view.

The chat model's cache keeps every answer under a hash of model, parameters and prompt. So an answer is paid for only once, even
if indexing is killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mergewise.concurrency import run
from mergewise.errors import ModelError
from mergewise.log import log
from mergewise.models.record import Models, chat_of
from mergewise.prompting.quoting import code_for, quotation, turn, warning
from mergewise.protocols import ChatModel, KeepsReplies, TokenCounter
from mergewise.store.views import Estimate, OnShare
from mergewise.text.terms import content_terms
from mergewise.types import Message, Reply, Usage

AT_ONCE = 8
ATTEMPTS = 2
"""Calls about one text, each with the fault of the last answer. Then the text's own sentences take its place."""
SHARED = 0.4
"""Minimum share of a summary's terms that are terms of its text."""


def task_about(name: str, text: str, task: str, again: str = "") -> list[Message]:
    """Return the messages of a task about a quoted text. `again` describes the problem of the previous answer."""
    code = code_for([text])
    return turn(
        f"{warning('text')}\n\n{task}", [quotation(name, text.strip(), code), *([again] if again else [])], code
    )


class Calls:
    """Calls of a chat model, `AT_ONCE` at a time.

    After a permanent failure, no call begins. Running calls are awaited, because they are paid for and the cache keeps them.
    """

    def __init__(self, chat: ChatModel, max_tokens: int) -> None:
        self._chat, self._max_tokens = chat, max_tokens
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._failed: ModelError | None = None

    async def ask(self, messages: Sequence[Message]) -> Reply | None:
        """Return the answer, or None after a failure."""
        async with self._gate:
            try:
                return None if self._failed else await self._chat.complete(messages, max_tokens=self._max_tokens)
            except ModelError as error:
                self._failed = self._failed or error
                return None

    async def summary(
        self, prompt: Callable[[str], list[Message]], source: str, code: str, *, is_whole: bool = False
    ) -> str | None:
        """Return a usable summary of the `source`, or None after `ATTEMPTS`.

        `prompt` returns the messages, with a request for another answer if it gets one. `code` is the code of the quotation. With
        `is_whole`, an answer at the limit of tokens is unusable.
        """
        again = ""
        for _ in range(ATTEMPTS):
            reply = await self.ask(prompt(again))
            if reply is None:
                return None
            text = reply.text.strip()
            fault = (
                "it was cut off: write a shorter one"
                if is_whole and not reply.complete
                else fault_of(text, source, code)
            )
            # an estimate has no real reply to judge
            if not fault or getattr(self._chat, "is_estimate", False):
                return text
            again = f"The last answer was of no use: {fault}. Write it again, from the text alone."
        return None

    async def all(self, works: Sequence[Awaitable[str | None]]) -> list[str | None]:
        """Await all works and return their results. Then raise the ModelError of the first failed call, if any."""
        written = await asyncio.gather(*works)
        if self._failed is not None:
            raise self._failed
        return written


def fault_of(summary: str, source: str, code: str) -> str:
    """Say why a summary of the `source` is unusable, or return an empty text. `code` is that of the source's quotation."""
    terms = frozenset(content_terms(summary))
    if not terms:
        return "it was empty"
    if code in summary:
        return "it repeated the lines around the text, or what was said about them"
    if len(terms & frozenset(content_terms(source))) < SHARED * len(terms):
        return "most of its words are not in the text"
    return ""


def write_each(
    texts: Sequence[str],
    models: Models,
    max_tokens: int,
    write: Callable[[str, Calls], Awaitable[str | None]],
    cost: Usage,
    on_share: OnShare | None = None,
) -> list[str | None]:
    """Return the summary of each text, written by `write` with the chat model. Equal texts are summarised once.

    The expected `cost` is logged first. `on_share` gets the progress as shares of all characters.

    Raises:
        ModelError: if the model fails permanently. Earlier answers are in its cache.
    """
    chat = chat_of(models)
    if cost.calls:
        log.warning(
            "%d summaries by %s: about %d calls, %d input tokens, %d output tokens",
            len(texts),
            chat.spec,
            cost.calls,
            cost.input_tokens,
            cost.output_tokens,
        )
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
    if lost := sum(text is None for text in made.values()):
        log.warning("%d of %d summaries by %s were unusable, and extracts take their place", lost, len(made), chat.spec)
    return [made[text] for text in texts]


def cost(
    prompts: Sequence[tuple[Sequence[Message], int]], max_tokens: int, chat: ChatModel, count_tokens: TokenCounter
) -> Estimate:
    """Estimate the cost of prompts, each given with the tokens of a good answer. Equal prompts cost once."""
    fresh = {tuple(message.text for message in messages): (messages, size) for messages, size in prompts}
    calls = [(messages, max_tokens, min(size, max_tokens)) for messages, size in fresh.values()]
    return cost_of_calls(calls, chat, count_tokens)


def cost_of_calls(
    calls: Sequence[tuple[Sequence[Message], int, int]], chat: ChatModel, count_tokens: TokenCounter, **options: Any
) -> Estimate:
    """Estimate the cost of different calls, each given with its token limit and the tokens of its answer."""
    due = calls
    if isinstance(chat, KeepsReplies):
        due = [call for call in calls if not chat.has(call[0], max_tokens=call[1], **options)]
    read = sum(count_tokens([message.text for messages, *_ in due for message in messages]))
    return Estimate(0, Usage(len(due), read, sum(size for *_, size in due)), len(calls) - len(due))
