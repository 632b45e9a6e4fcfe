"""From a context to an answer, in one of the modes of the dictionary `MODES`."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

from mergewise.concurrency import run
from mergewise.designs import MODES
from mergewise.errors import UsageError
from mergewise.generate.mode import Mode, Needs, Request
from mergewise.generate.prompts import NOT_FOUND
from mergewise.protocols import CausalModel, ChatModel
from mergewise.types import Answer

_MODELS: dict[Needs, tuple[str, str]] = {
    "chat": ("a chat model", "name one: --chat openai:MODEL"),
    "causal": (
        "a causal model, whose next-token probabilities can be read",
        "name one: --chat hf:PATH or --causal hf:PATH; with any chat model --mode aed-best takes the best stream alone",
    ),
}


def mode_for(
    name: str | None, chat: ChatModel | None, causal: CausalModel[Any] | None = None, preferred: str = ""
) -> str:
    """The name of the mode to answer in: `name`, or by default the `preferred` one, if its model is at hand, or the one that it
    names for other models; else "r&b" with a chat model and "extractive" without one.

    Raises UsageError for a name that no mode has, and where the model that the mode needs is not at hand.
    """
    if name is None:
        while preferred and not _has_model(MODES[preferred], chat, causal):
            preferred = MODES[preferred].otherwise
        return preferred or ("extractive" if chat is None else "r&b")
    if name not in MODES:
        raise UsageError(f"unknown mode {name!r}", f"one of: {', '.join(MODES)}")
    needs = MODES[name].needs
    if not _has_model(MODES[name], chat, causal):
        model, hint = _MODELS[needs]
        raise UsageError(f"mode {name!r} needs {model}", hint)
    return name


def _has_model(mode: Mode, chat: ChatModel | None, causal: CausalModel[Any] | None) -> bool:
    return {"none": True, "chat": chat is not None, "causal": causal is not None}[mode.needs]


def answer(name: str, request: Request) -> Answer:
    """The answer in the mode of this name. Where a mode reads the context and it has no passages, no model is asked."""
    mode = MODES[name]
    if _lacks_passages(mode, request):
        return _nothing(name, request)
    made = mode.answer(request)
    return replace(run(made) if isinstance(made, Coroutine) else made, mode=name)


def answer_all(name: str, requests: Sequence[Request]) -> list[Answer]:
    """`answer` for many questions, in one go where the mode can do that."""
    mode = MODES[name]
    if mode.answer_all is None:
        return [answer(name, request) for request in requests]
    asked = [request for request in requests if not _lacks_passages(mode, request)]
    made = iter(mode.answer_all(asked) if asked else [])
    return [
        _nothing(name, request) if _lacks_passages(mode, request) else replace(next(made), mode=name)
        for request in requests
    ]


def _lacks_passages(mode: Mode, request: Request) -> bool:
    return mode.reads_context and not mode.alone and not request.context.passages


def _nothing(name: str, request: Request) -> Answer:
    context = request.context
    return Answer(context.question, NOT_FOUND, (), context, context.usage, found=False, sure=False, mode=name)
