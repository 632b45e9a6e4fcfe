"""The mode `closed-book`: the question alone, answered from what the chat model knows."""

from __future__ import annotations

from mergewise.generate import prompts
from mergewise.generate.mode import Request
from mergewise.generate.writer import Writer
from mergewise.types import Answer


async def answer(request: Request) -> Answer:
    return await Writer(request).finish(prompts.own_knowledge(request.context.question), [])
