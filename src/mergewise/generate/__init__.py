"""From a context to an answer, in one of the modes of the dictionary `MODES`."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mergewise.concurrency import run
from mergewise.errors import UsageError
from mergewise.generate import closed_book, ensemble, extractive, longrag
from mergewise.generate.mode import Mode, Needs, Request, Show
from mergewise.generate.prompts import NOT_FOUND
from mergewise.protocols import CausalModel, ChatModel
from mergewise.types import Answer

__all__ = ["MODES", "Mode", "Request", "Show", "answer", "answer_all", "mode_for"]


def _longrag(summary: str, reads: longrag.Text, extracts: longrag.Text | None = None, filters: bool = False) -> Mode:
    return Mode(partial(longrag.answer, reads=reads, extracts=extracts, filters=filters), summary, needs="chat")


MODES: dict[str, Mode] = {
    "aed": Mode(
        ensemble.answer,
        "the passages and the model's own background, decoded together",
        needs="causal",
        answer_all=ensemble.answer_all,
        otherwise="aed-best",
    ),
    "aed-best": Mode(ensemble.answer_by_best, "the most useful of the streams of `aed`", needs="chat"),
    "closed-book": Mode(closed_book.answer, "what the model knows", needs="chat", reads_context=False),
    "extractive": Mode(extractive.answer, "sentences of the passages, quoted", reads_evidence=True),
    "fil": _longrag("the passages that pass a filter", "base", filters=True),
    "full-e&f": _longrag("filtered passages, and an extract of the documents", "base", extracts="long", filters=True),
    "full-ext": _longrag("the passages, and an extract of the documents", "base", extracts="long"),
    "naive": Mode(
        ensemble.answer_short,
        "what the model knows, in a few words",
        needs="chat",
        reads_context=False,
        answer_all=ensemble.short_all,
    ),
    "r&b": _longrag("the passages", "base"),
    "r&b-e&f": _longrag("filtered passages, and an extract of the passages", "base", extracts="base", filters=True),
    "r&b-ext": _longrag("the passages, and an extract of the passages", "base", extracts="base"),
    "r&l": _longrag("the documents of the passages", "long"),
    "recomp": Mode(
        ensemble.answer_from_summary,
        "a summary of the passages, which may be empty, in a few words",
        needs="chat",
        alone=True,
        answer_all=ensemble.summary_all,
    ),
    "replug": Mode(
        ensemble.answer_by_replug,
        "each passage by itself, probabilities added up",
        needs="causal",
        answer_all=ensemble.replug_all,
    ),
    "short": Mode(
        ensemble.answer_short,
        "the passages, in a few words; without any what the model knows",
        needs="chat",
        alone=True,
        answer_all=ensemble.short_all,
    ),
}
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
