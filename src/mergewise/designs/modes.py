"""Answering a question from its context, in one of the modes of the dictionary `MODES`."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

from mergewise.concurrency import run
from mergewise.designs import MODES
from mergewise.errors import UsageError, check_known
from mergewise.generate.mode import Request
from mergewise.generate.prompts import REFUSAL
from mergewise.models.record import Models
from mergewise.types import Answer


def mode_for(name: str | None, models: Models, preferred: str = "") -> str:
    """Return the name of the mode to answer in.

    This is `name` if given. Otherwise it is the `preferred` mode, or the first of its fallbacks whose model is available. The
    default is "r&b" with a chat model and "extractive" without one.

    Raises UsageError if `name` is unknown, or if the model that it needs is missing.
    """
    if name is None:
        while preferred and MODES[preferred].needs.of(models) is None:
            preferred = MODES[preferred].otherwise
        return preferred or ("extractive" if models.chat is None else "r&b")
    check_known("mode", name, MODES)
    _needed_model(name, models)
    return name


def answer(name: str, request: Request) -> Answer:
    """Answer in the mode `name`. No model is called if the mode reads the context and the context has no passages."""
    mode = MODES[name]
    if mode.reads_context and not mode.alone and not request.context.passages:
        context, refusal = request.context, request.models.prompts.fill(REFUSAL)
        return Answer(context.question, refusal, (), context, context.usage, found=False, sure=False, mode=name)
    answered = mode.answer(request, _needed_model(name, request.models))
    return replace(run(answered) if isinstance(answered, Coroutine) else answered, mode=name)


def answer_all(name: str, requests: Sequence[Request]) -> list[Answer]:
    """Answer many questions with the same models, in one batch if the mode supports it."""
    mode = MODES[name]
    if mode.answer_all is None:
        return [answer(name, request) for request in requests]
    needs_passages = mode.reads_context and not mode.alone
    asked = [request for request in requests if request.context.passages or not needs_passages]
    answers = iter(mode.answer_all(asked, _needed_model(name, asked[0].models)) if asked else [])
    return [
        replace(next(answers), mode=name) if one.context.passages or not needs_passages else answer(name, one)
        for one in requests
    ]


def _needed_model(name: str, models: Models) -> Any:
    needs = MODES[name].needs
    model = needs.of(models)
    if model is None:
        raise UsageError(f"mode {name!r} needs {needs.what}", needs.hint)
    return model
