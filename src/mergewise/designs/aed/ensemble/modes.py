"""Modes with several streams. They share prompts, weights, decoding and citations.

    aed        streams of passages, triplets (if any) and the model's own background: Eq. 12 to 14, by a causal model
    aed-best   only the stream with the highest utility, by any chat model (the paper's "w/o AED")
    replug     a stream per passage, weighted by its score, with summed probabilities

A context of another strategy than `aed` has a single stream of passages. Utilities come from the request's predictor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mergewise.concurrency import run
from mergewise.designs.aed.ensemble import prompts
from mergewise.designs.aed.ensemble.answering import by_chat, decode_answers, usage_of, write_alone
from mergewise.designs.aed.ensemble.reading import ModelWindow, StreamedQuestion, StreamPrompt
from mergewise.designs.aed.streams import Ensemble, ensemble_of, one_stream, weights_of
from mergewise.generate.mode import Request
from mergewise.generate.sources import base_sources
from mergewise.prompting.quoting import code_for
from mergewise.types import Answer, Step
from mergewise.types.answers import best_first

if TYPE_CHECKING:
    from mergewise.protocols import CausalModel, ChatModel

MOST_STREAMS = 10


def aed_all(requests: Sequence[Request], causal: CausalModel) -> list[Answer]:
    """Answer questions by AED: all backgrounds in one batch, then all streams of all questions in another."""
    window = ModelWindow.of_causal(causal, requests[0].max_tokens)
    asked = [StreamedQuestion(request, _ensemble(request), window) for request in requests]
    # Each distinct question's background is written by the model, or reused from its request.
    remembering = [question for question in asked if question.ensemble.memory]
    backgrounds = {q.text: kept[q.text] for q in remembering if (kept := q.request.backgrounds) and q.text in kept}
    new = {
        question.text: prompts.background(question.text, question.request.models.prompts)
        for question in remembering
        if question.text not in backgrounds
    }
    written = write_alone(causal, list(new.values()), prompts.BACKGROUND_TOKENS)
    backgrounds |= zip(new, written, strict=True)
    for question in remembering:
        if question.request.backgrounds is not None:
            question.request.backgrounds[question.text] = backgrounds[question.text]
    for question in asked:
        background = backgrounds[question.text] if question.ensemble.memory else None
        if background is not None:
            question.spent = usage_of(background)
        question.read(None if background is None else background.text)
    return decode_answers(asked, causal)


def replug_all(requests: Sequence[Request], causal: CausalModel) -> list[Answer]:
    """Answer by REPLUG: p(y) = sum over d of p(y | d, q) lambda(d, q), where lambda is the softmax of the passages' scores."""
    window = ModelWindow.of_causal(causal, requests[0].max_tokens)
    return decode_answers([_one_stream_a_passage(request, window) for request in requests], causal, mixture=True)


def answer_by_best(request: Request, chat: ChatModel) -> Answer:
    """Answer from the stream with the highest utility by a chat model."""
    question = StreamedQuestion(request, _ensemble(request), ModelWindow.of_chat(chat, request))
    background = None
    if question.ensemble.memory:
        asked = prompts.background(question.text, request.models.prompts)
        reply = run(chat.complete(asked, max_tokens=prompts.BACKGROUND_TOKENS))
        question.spent, background = reply.usage, reply.text
    question.read(background)
    best = max(question.readings, key=lambda reading: question.utilities[reading.name])
    question.steps.append(Step("best", f"{chat.spec} answers from the stream with the highest utility: {best.name}"))
    question.weights = {name: float(name == best.name) for name in question.weights}
    question.readings = [best]
    return by_chat(question, chat)


def _ensemble(request: Request) -> Ensemble:
    """Return the context's own streams, or a single stream of all its passages."""
    context = request.context
    if (ensemble := ensemble_of(context)) is not None:
        return ensemble
    texts = [passage.text for passage in context.passages]
    return one_stream(context, request.models.utilities.utilities(context.question, texts))


def _one_stream_a_passage(request: Request, window: ModelWindow) -> StreamedQuestion:
    drawn = ensemble_of(request.context) or Ensemble(())
    question = StreamedQuestion(request, replace(drawn, streams=(), memory=False), window)
    sources = base_sources(request.context, request.document)
    code = code_for([question.text, request.context.text])
    for source in best_first(sources)[:MOST_STREAMS]:
        if question.texts_that_fit([source], code):
            name = f"[{source.number}]"
            question.readings.append(StreamPrompt(name, question.prompt([source], code), (source,)))
            question.utilities[name] = source.score
        else:
            question.steps.append(Step("skip", f"passage {source.number} does not fit into the window"))
    question.check_readings()
    if len(sources) > MOST_STREAMS:
        question.steps.append(
            Step("skip", f"{len(sources) - MOST_STREAMS} passages over the maximum of {MOST_STREAMS} streams")
        )
    question.weights = weights_of(question.utilities)
    return question
