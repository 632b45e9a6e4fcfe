"""Summaries of whole documents by a chat model: PIC's pseudo-instructions.

A document longer than the model's window is summarised in parts, and the summaries of the parts are summarised again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from mergewise.index.writing.calls import Calls, cost, task_about, write_each
from mergewise.models.record import Models, chat_of
from mergewise.prompting.quoting import code_for
from mergewise.protocols import ChatModel, TokenCounter
from mergewise.store.views import Estimate, OnShare
from mergewise.text.sentences import split_long
from mergewise.text.spans import texts_at
from mergewise.types import SHIPPED, Message, Prompts, PromptTemplate, Usage

MAX_TOKENS = 200  # maximum tokens of a summary, to fit into an embedder's window
EXPECTED = 120  # expected tokens of a summary (six sentences)
MOST_ROUNDS = 6  # maximum rounds of summaries of summaries
PROMPT_TOKENS = 200
LEAST_READ = 256  # minimum tokens of a part
INSTRUCTIONS = PromptTemplate(
    "document-summaries",
    "summarises a document for the view pic",
    """\
You say what documents are about (instructions, version 1).
Summarise the text in at most six full sentences, one for each of its main points, in its own language and its own words. Name
the people, things and events that it deals with. Answer with these sentences alone.""",
)


def prompt(text: str, again: str = "", prompts: Prompts = SHIPPED) -> list[Message]:
    """Build the prompt for a text. `again` describes the problem of the previous answer."""
    return task_about("text", text, prompts.fill(INSTRUCTIONS), again)


def estimate(texts: Sequence[str], models: Models) -> Estimate:
    """Estimate the cost of the summaries. A text of several parts counts a further call, which reads their summaries."""
    chat = chat_of(models)
    parts = [_parts(text, chat, models.count_tokens) for text in texts]
    asked = [(prompt(part, prompts=models.prompts), EXPECTED) for own in parts for part in own]
    first = cost(asked, MAX_TOKENS, chat, models.count_tokens)
    joined = [len(own) for own in parts if len(own) > 1] if first.usage.calls else []
    read = sum(PROMPT_TOKENS + EXPECTED * count for count in joined)
    return first + Estimate(0, Usage(len(joined), read, EXPECTED * len(joined)))


def summaries(texts: Sequence[str], models: Models, on_share: OnShare | None = None) -> list[str | None]:
    """Summarise each text. Returns None for an empty answer of the model."""
    chat = chat_of(models)

    async def summary(text: str, calls: Calls) -> str | None:
        for _ in range(MOST_ROUNDS):
            parts = _parts(text, chat, models.count_tokens)
            asked = (partial(prompt, part, prompts=models.prompts) for part in parts)
            # a truncated summary is good enough here
            works = (calls.summary(ask, part, code_for([part])) for ask, part in zip(asked, parts, strict=True))
            answers = list(filter(None, await asyncio.gather(*works)))
            if len(parts) == 1 or not answers:
                return answers[0] if answers else None
            text = "\n".join(answers)
        return text

    return write_each(texts, models, MAX_TOKENS, summary, estimate(texts, models).usage, on_share)


def _parts(text: str, chat: ChatModel, count_tokens: TokenCounter) -> list[str]:
    """Split the text into parts that fit into the model's window."""
    # half of the window, because the model's tokens may be smaller than ours
    room = max(LEAST_READ, (chat.window - MAX_TOKENS - PROMPT_TOKENS) // 2)
    return texts_at(text, split_long(text, 0, len(text), room, lambda piece: count_tokens([piece])[0]))
