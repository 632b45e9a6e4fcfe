"""Summaries of chunks by a chat model (MacRAG section 3.1.2, the paper's default).

Calls run side by side. What is kept, and by what key, is the business of the chat model's cache: its key is a hash of the
whole prompt, so that a chunk whose text and whose prompt stand is never paid for twice, after a kill neither.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from mergewise.concurrency import run
from mergewise.errors import ModelError
from mergewise.protocols import ChatModel, TokenCounter
from mergewise.types import Message, Usage

log = logging.getLogger("mergewise")

AT_ONCE = 8
MAX_TOKENS = 320
PROMPT_VERSION = 1
"""Part of the prompt, and so of the cache's key: a new version asks again."""

INSTRUCTIONS = f"""You compress passages for a search index (instructions, version {PROMPT_VERSION}).
Write a summary of the passage in about three fifths of its length. Keep every name, date, number and relation that a
question could be about, say them in full sentences without pronouns that point outside the summary, and add nothing
that the passage does not say. Answer with the summary alone."""


def estimate(texts: Sequence[str], count_tokens: TokenCounter) -> Usage:
    """What summaries of these texts cost at most: calls, tokens read, tokens written."""
    instructions = count_tokens([INSTRUCTIONS])[0]
    return Usage(len(texts), sum(count_tokens(texts)) + instructions * len(texts), MAX_TOKENS * len(texts))


def summaries(texts: Sequence[str], chat: ChatModel, count_tokens: TokenCounter) -> list[str | None]:
    """s_i = Compress(c_i) for each text, None where the model twice gave nothing. Says what it may cost before it starts.

    Raises ModelError when the model fails for good; the answers that came before are in its cache.
    """
    cost = estimate(texts, count_tokens)
    log.warning(
        "%d summaries by %s: about %d tokens to read, at most %d to write",
        cost.calls, chat.spec, cost.input_tokens, cost.output_tokens,
    )  # fmt: skip
    return run(_all(texts, chat))


async def _all(texts: Sequence[str], chat: ChatModel) -> list[str | None]:
    """After a failure no call is begun, and those on their way are waited for: they are paid, and the cache keeps them."""
    gate = asyncio.Semaphore(AT_ONCE)
    failed: list[ModelError] = []

    async def one(text: str) -> str | None:
        async with gate:
            try:
                return None if failed else await _summary(text, chat)
            except ModelError as error:
                failed.append(error)
                return None

    found = await asyncio.gather(*map(one, texts))
    if failed:
        raise failed[0]
    return found


async def _summary(text: str, chat: ChatModel) -> str | None:
    for attempt in range(2):
        again = "" if attempt == 0 else "\n\nThe last answer was empty or cut off: give a shorter summary."
        messages = [Message("system", INSTRUCTIONS), Message("user", text.strip() + again)]
        reply = await chat.complete(messages, max_tokens=MAX_TOKENS)
        if reply.text.strip() and reply.complete:
            return reply.text.strip()
    return None
