"""Summaries of whole documents by a chat model: PIC's pseudo-instructions.

What is longer than the model's window is summarised in parts, and the summaries of the parts are summarised in turn. Calls run
side by side, and the chat model's cache keeps the answers, so that after a kill none is paid for again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from mergewise.concurrency import run
from mergewise.errors import ModelError
from mergewise.prompting.quoting import code_for, quoted, turn, warning
from mergewise.protocols import ChatModel, TokenCounter
from mergewise.text.sentences import split_long
from mergewise.types import Message

log = logging.getLogger("mergewise")

AT_ONCE = 8
MAX_TOKENS = 200  # of a summary: an embedder should see all of it
MOST_ROUNDS = 6  # of summaries of summaries
PROMPT_TOKENS = 200
LEAST_READ = 256  # tokens of a text that a window has to hold
PROMPT_VERSION = 1
"""Part of the prompt, and so of the cache's key: with a new version the model is asked again."""

INSTRUCTIONS = f"""You say what documents are about (instructions, version {PROMPT_VERSION}).
Summarise the text in at most six full sentences, one for each of its main points, in its own language and its own words. Name
the people, things and events that it deals with. Answer with these sentences alone.

"""


def prompt(text: str) -> list[Message]:
    """What is asked for one text."""
    code = code_for([text])
    return turn(INSTRUCTIONS + warning(code, "text"), [quoted("text", text.strip(), code)])


def summaries(texts: Sequence[str], chat: ChatModel, count_tokens: TokenCounter) -> list[str | None]:
    """A summary of each text; None where the model gave nothing. Logs what it may cost before it starts.

    Raises ModelError when the model fails for good; the answers that came before are in its cache.
    """
    parts = [_parts(text, chat, count_tokens) for text in texts]
    calls = sum(len(own) + (len(own) > 1) for own in parts)
    log.warning(
        "%d summaries by %s: about %d calls, %d tokens to read, at most %d to write",
        len(texts), chat.spec, calls, sum(count_tokens(texts)) + calls * PROMPT_TOKENS, calls * MAX_TOKENS,
    )  # fmt: skip
    return run(_all(texts, chat, count_tokens))


def _parts(text: str, chat: ChatModel, count_tokens: TokenCounter) -> list[str]:
    """The text, in as many parts as the model's window asks for."""
    room = max(LEAST_READ, (chat.window - MAX_TOKENS - PROMPT_TOKENS) // 2)  # half: the model's tokens may be smaller
    return [text[a:b] for a, b in split_long(text, 0, len(text), room, lambda piece: count_tokens([piece])[0])]


async def _all(texts: Sequence[str], chat: ChatModel, count_tokens: TokenCounter) -> list[str | None]:
    """After a failure no call is begun. Those on their way are waited for: they are paid for, and the cache keeps them."""
    gate = asyncio.Semaphore(AT_ONCE)
    failed: list[ModelError] = []

    async def ask(text: str) -> str | None:
        async with gate:
            try:
                reply = None if failed else await chat.complete(prompt(text), max_tokens=MAX_TOKENS)
            except ModelError as error:
                failed.append(error)
                return None
        return reply.text.strip() or None if reply is not None else None  # one that was cut off says enough here

    async def one(text: str) -> str | None:
        for _ in range(MOST_ROUNDS):
            parts = _parts(text, chat, count_tokens)
            answers = [answer for answer in await asyncio.gather(*map(ask, parts)) if answer is not None]
            if len(parts) == 1 or not answers:
                return answers[0] if answers else None
            text = "\n".join(answers)
        return text

    written = await asyncio.gather(*map(one, texts))
    if failed:
        raise failed[0]
    return written
