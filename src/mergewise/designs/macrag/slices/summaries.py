"""Summaries of chunks by a chat model (MacRAG section 3.1.2, the paper's default)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil

from mergewise.index.writing.calls import Calls, cost, task_about, write_each
from mergewise.models.record import Models, chat_of
from mergewise.prompting.quoting import code_for
from mergewise.store.views import Estimate, OnShare
from mergewise.types import SHIPPED, Message, Prompts, PromptTemplate

MAX_TOKENS = 320
# Requested length, as a share of the chunk's.
SHARE = 0.6
INSTRUCTIONS = PromptTemplate(
    "summaries",
    "summarises a chunk for the view slice",
    """\
You compress passages for a search index (instructions, version 2).
Write a summary of the passage in about three fifths of its length. Keep every name, date, number and relation that a
question could be about, say them in full sentences without pronouns that point outside the summary, and add nothing
that the passage does not say. Answer with the summary alone.""",
)


def prompt(text: str, again: str = "", prompts: Prompts = SHIPPED) -> list[Message]:
    """Return the prompt for one text. `again` describes the problem of the previous answer."""
    return task_about("passage", text, prompts.fill(INSTRUCTIONS), again)


def estimate(texts: Sequence[str], models: Models) -> Estimate:
    """Return the cost of summaries of these texts if every answer is usable."""
    sizes = models.count_tokens(texts)
    asked = [
        (prompt(text, prompts=models.prompts), ceil(SHARE * size)) for text, size in zip(texts, sizes, strict=True)
    ]
    return cost(asked, MAX_TOKENS, chat_of(models), models.count_tokens)


def summaries(texts: Sequence[str], models: Models, on_share: OnShare | None = None) -> list[str | None]:
    """Return s_i = Compress(c_i) for each text, or None if the model returned no usable answer."""

    async def summary(text: str, calls: Calls) -> str | None:
        asked = partial(prompt, text, prompts=models.prompts)
        return await calls.summary(asked, text, code_for([text]), is_whole=True)

    return write_each(texts, models, MAX_TOKENS, summary, estimate(texts, models).usage, on_share)
