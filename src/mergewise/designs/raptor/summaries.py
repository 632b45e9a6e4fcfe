"""Summaries of clusters by a chat model (RAPTOR, section 3), with our own prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from mergewise.index.writing.calls import Calls, cost, write_each
from mergewise.models.cache import with_kept_answers
from mergewise.models.record import Models, chat_of
from mergewise.prompting.quoting import code_for, quotation, turn, warning
from mergewise.text.spans import one_line
from mergewise.types import Message, Prompts, PromptTemplate

INSTRUCTIONS = PromptTemplate(
    "clusters",
    "summarises a cluster of passages for the tree of the view raptor",
    """\
You write one node of a tree of summaries (instructions, version 1).
The passages are about related things. Say in at most $words words what they say, with as many of their names, numbers and
facts as fit. Add nothing that they do not say. Answer with the summary alone.""",
    needs=("words",),
)
_WORDS = 0.75  # words of a token, in English
_ROOM = 0.9  # share of the window to fill


def prompt(text: str, tokens: int, prompts: Prompts, again: str = "") -> list[Message]:
    code = code_for([text])
    task = f"{warning('passages')}\n\n{prompts.fill(INSTRUCTIONS, words=str(int(_WORDS * tokens)))}"
    return turn(task, [quotation("passages", text, code), *([again] if again else [])], code)


def summaries(groups: Sequence[Sequence[str]], tokens: int, models: Models, folder: Path | None) -> list[str | None]:
    """Return the summary of each group of texts, or None if the model returned nothing.

    Answers are cached in the folder, if given. Raises ModelError if the model keeps failing.
    """
    asking = replace(models, chat=with_kept_answers(chat_of(models), folder))
    most = min(4 * tokens, chat_of(asking).window // 4)
    room = (
        int(_ROOM * chat_of(asking).window)
        - most
        - sum(models.count_tokens([message.text for message in prompt("", tokens, models.prompts)]))
    )
    texts = [_beginning(group, room, models) for group in groups]
    asked = [(prompt(text, tokens, models.prompts), tokens) for text in texts]
    expected = cost(asked, most, chat_of(asking), models.count_tokens).usage

    async def summary(text: str, calls: Calls) -> str | None:
        made = await calls.summary(partial(prompt, text, tokens, models.prompts), text, code_for([text]))
        return made and one_line(made)

    return write_each(texts, asking, most, summary, expected)


def _beginning(group: Sequence[str], room: int, models: Models) -> str:
    """Join the first texts, as many as fit."""
    kept: list[str] = []
    for text, size in zip(group, models.count_tokens(group), strict=True):
        if size > room and kept:
            break
        kept.append(text.strip())
        room -= size + 2
    return "\n\n".join(kept)


PROMPTS = {INSTRUCTIONS.name: INSTRUCTIONS}
