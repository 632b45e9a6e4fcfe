"""The modes that belong to no design."""

from __future__ import annotations

from typing import Any

from mergewise.generate import extractive, prompts
from mergewise.generate.mode import CHAT, NO_MODEL, Mode, Request
from mergewise.generate.writer import AnswerWriter
from mergewise.protocols import ChatModel
from mergewise.types import Answer


async def answer_closed_book(request: Request, chat: ChatModel) -> Answer:
    """The question alone, answered from what the chat model knows."""
    messages = prompts.own_knowledge(request.context.question, request.models.prompts)
    return await AnswerWriter(request, chat).finish(messages, [])


MODES: dict[str, Mode[Any]] = {
    "closed-book": Mode(answer_closed_book, "what the model knows", CHAT, reads_context=False),
    "extractive": Mode(
        lambda request, models: extractive.answer(request),
        "sentences of the passages, quoted",
        NO_MODEL,
        reads_evidence=True,
    ),
}
