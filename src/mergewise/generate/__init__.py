"""From a context to an answer, in one of the modes of the dictionary `MODES`."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from mergewise.concurrency import run
from mergewise.errors import UsageError
from mergewise.generate import closed_book, extractive, longrag
from mergewise.generate.mode import Mode, Needs, Request, Show
from mergewise.generate.prompts import NOT_FOUND
from mergewise.protocols import CausalModel, ChatModel
from mergewise.types import Answer

__all__ = ["MODES", "Mode", "Request", "Show", "answer", "mode_for"]


def _longrag(summary: str, reads: longrag.Text, extracts: longrag.Text | None = None, filters: bool = False) -> Mode:
    return Mode(partial(longrag.answer, reads=reads, extracts=extracts, filters=filters), summary, needs="chat")


MODES: dict[str, Mode] = {
    "closed-book": Mode(closed_book.answer, "what the model knows", needs="chat", reads_context=False),
    "extractive": Mode(extractive.answer, "sentences of the passages, quoted", reads_evidence=True),
    "fil": _longrag("the passages that pass a filter", "base", filters=True),
    "full-e&f": _longrag("filtered passages, and an extract of the documents", "base", extracts="long", filters=True),
    "full-ext": _longrag("the passages, and an extract of the documents", "base", extracts="long"),
    "r&b": _longrag("the passages", "base"),
    "r&b-e&f": _longrag("filtered passages, and an extract of the passages", "base", extracts="base", filters=True),
    "r&b-ext": _longrag("the passages, and an extract of the passages", "base", extracts="base"),
    "r&l": _longrag("the documents of the passages", "long"),
}
_MODELS: dict[Needs, tuple[str, str]] = {
    "chat": ("a chat model", "name one: --chat openai:MODEL"),
    "causal": ("a causal model", "give one whose next-token probabilities can be read"),
}


def mode_for(name: str | None, chat: ChatModel | None, causal: CausalModel[Any] | None = None) -> str:
    """The name of the mode to answer in: `name`, or by default "r&b" with a chat model and "extractive" without one.

    Raises UsageError for a name that no mode has, and where the model that the mode needs is not at hand.
    """
    if name is None:
        return "extractive" if chat is None else "r&b"
    if name not in MODES:
        raise UsageError(f"unknown mode {name!r}", f"one of: {', '.join(MODES)}")
    needs = MODES[name].needs
    if needs != "none" and {"chat": chat, "causal": causal}[needs] is None:
        model, hint = _MODELS[needs]
        raise UsageError(f"mode {name!r} needs {model}", hint)
    return name


def answer(name: str, request: Request) -> Answer:
    """The answer in the mode of this name. Where a mode reads the context and it has no passages, no model is asked."""
    mode, context = MODES[name], request.context
    if mode.reads_context and not context.passages:
        return Answer(context.question, NOT_FOUND, (), context, context.usage, found=False, sure=False, mode=name)
    made = mode.answer(request)
    return replace(run(made) if isinstance(made, Coroutine) else made, mode=name)
