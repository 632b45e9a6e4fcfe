"""Modes that belong to no design."""

from __future__ import annotations

from mergewise.generate import extractive, prompts
from mergewise.generate.mode import CHAT, NO_MODEL, Mode, Request
from mergewise.generate.writer import AnswerWriter
from mergewise.protocols import ChatModel
from mergewise.types import Answer


async def answer_closed_book(request: Request, chat: ChatModel) -> Answer:
    """Answer the question from the chat model's own knowledge, without a context."""
    messages = prompts.own_knowledge(request.context.question, request.models.prompts, request.reply)
    return await AnswerWriter(request, chat).finish(messages, [])


MODES = {
    "closed-book": Mode(
        answer_closed_book, "the model's own knowledge", CHAT, reads_context=False, takes_reply_options=True
    ),
    "extractive": Mode(
        extractive.answer, "quoted sentences of the passages", NO_MODEL, alone=True, reads_evidence=True
    ),
}
