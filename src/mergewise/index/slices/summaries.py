"""Summaries of chunks by a chat model (MacRAG section 3.1.2, the paper's default).

Calls run side by side. The chat model's cache keeps the answers by a hash of the whole prompt: as long as neither the prompt
nor the text of a chunk changes, its summary is paid for once, also when indexing was killed in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from mergewise.concurrency import run
from mergewise.errors import ModelError
from mergewise.prompting.quoting import code_for, quoted, turn, warning
from mergewise.protocols import ChatModel, TokenCounter
from mergewise.types import Message, Usage

log = logging.getLogger("mergewise")

AT_ONCE = 8
MAX_TOKENS = 320
PROMPT_VERSION = 2
"""Part of the prompt, and so of the cache's key: with a new version the model is asked again."""

INSTRUCTIONS = f"""You compress passages for a search index (instructions, version {PROMPT_VERSION}).
Write a summary of the passage in about three fifths of its length. Keep every name, date, number and relation that a
question could be about, say them in full sentences without pronouns that point outside the summary, and add nothing
that the passage does not say. Answer with the summary alone.

"""


def prompt(text: str, again: str = "") -> list[Message]:
    """What is asked for one text. `again` says what was wrong with the answer before."""
    code = code_for([text])
    return turn(
        INSTRUCTIONS + warning(code, "text"), [quoted("passage", text.strip(), code), *([again] if again else [])]
    )


def estimate(texts: Sequence[str], count_tokens: TokenCounter) -> Usage:
    """What summaries of these texts cost where every answer is used: calls, tokens read, and at most written."""
    asked = [message.text for text in texts for message in prompt(text)]
    return Usage(len(texts), sum(count_tokens(asked)), MAX_TOKENS * len(texts))


def summaries(texts: Sequence[str], chat: ChatModel, count_tokens: TokenCounter) -> list[str | None]:
    """s_i = Compress(c_i) for each text; None where the model gave nothing twice. Logs what it may cost before it starts.

    Raises ModelError when the model fails for good; the answers that came before are in its cache.
    """
    cost = estimate(texts, count_tokens)
    log.warning(
        "%d summaries by %s: about %d tokens to read, at most %d to write",
        cost.calls, chat.spec, cost.input_tokens, cost.output_tokens,
    )  # fmt: skip
    return run(_all(texts, chat))


async def _all(texts: Sequence[str], chat: ChatModel) -> list[str | None]:
    """After a failure no call is begun. Those on their way are waited for: they are paid for, and the cache keeps them."""
    gate = asyncio.Semaphore(AT_ONCE)
    failed: list[ModelError] = []

    async def one(text: str) -> str | None:
        async with gate:
            try:
                return None if failed else await _summary(text, chat)
            except ModelError as error:
                failed.append(error)
                return None

    written = await asyncio.gather(*map(one, texts))
    if failed:
        raise failed[0]
    return written


async def _summary(text: str, chat: ChatModel) -> str | None:
    for again in ("", "The last answer was empty or cut off: give a shorter summary."):
        reply = await chat.complete(prompt(text, again), max_tokens=MAX_TOKENS)
        if reply.text.strip() and reply.complete:
            return reply.text.strip()
    return None
