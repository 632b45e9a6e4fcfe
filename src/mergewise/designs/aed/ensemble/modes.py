"""The modes that read several streams, on one core: prompts, weights, decoding, citations.

    aed        passages, triplets where there are some, and the model's own background: Eq. 12 to 14, by a causal model
    aed-best   the stream of the highest utility alone: what any chat model can do (the paper's "w/o AED")
    replug     one stream a passage, weighed by its score, probabilities added up

A context of another strategy than `aed` is one stream of passages. Utilities come from the request's predictor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mergewise.concurrency import run
from mergewise.designs.aed.ensemble import prompts
from mergewise.designs.aed.ensemble.answering import (
    by_chat,
    chat_prompt_length,
    check_streams,
    decode_answers,
    limit_of,
    prompt_length,
    room_of,
)
from mergewise.designs.aed.ensemble.reading import StreamedQuestion, StreamPrompt, sources_that_fit
from mergewise.designs.aed.streams import Ensemble, ensemble_of, one_stream, weights_of
from mergewise.generate.mode import Request
from mergewise.generate.sources import base_sources
from mergewise.models.decoding import Decoded, StreamPrompts, decode
from mergewise.prompting.quoting import code_for
from mergewise.types import Answer, Step, Usage

if TYPE_CHECKING:
    from typing import Any

    from mergewise.protocols import CausalModel, ChatModel

MOST_STREAMS = 10


def aed_all(requests: Sequence[Request], causal: CausalModel[Any]) -> list[Answer]:
    """AED for many questions: all backgrounds in one batch, then all streams of all questions in another."""
    limit = limit_of(requests, causal)
    asked = [StreamedQuestion(request, _ensemble(request)) for request in requests]
    backgrounds = _backgrounds([question for question in asked if question.ensemble.memory], causal)
    before = [backgrounds.get(question.text) if question.ensemble.memory else None for question in asked]
    for question, background in zip(asked, before, strict=True):
        question.read(None if background is None else background.text, causal.window - limit, prompt_length(causal))
        check_streams(question, causal.spec)
    return decode_answers(asked, causal, limit, before)


def _backgrounds(asked: Sequence[StreamedQuestion], causal: CausalModel[Any]) -> dict[str, Decoded]:
    """What the model writes by itself, for each question once."""
    known = {q.text: kept[q.text] for q in asked if (kept := q.request.backgrounds) and q.text in kept}
    new = list(dict.fromkeys(question.text for question in asked if question.text not in known))
    own = [StreamPrompts((causal.prompt(prompts.background(text)),), (1.0,)) for text in new]
    limit = max(1, min(prompts.BACKGROUND_TOKENS, causal.window // 4))
    known |= zip(new, decode(causal, own, max_tokens=limit), strict=True)
    for question in asked:
        if question.request.backgrounds is not None:
            question.request.backgrounds[question.text] = known[question.text]
    return known


def replug_all(requests: Sequence[Request], causal: CausalModel[Any]) -> list[Answer]:
    """REPLUG: p(y) = sum over d of p(y | d, q) lambda(d, q), with lambda the softmax of the passages' scores."""
    limit = limit_of(requests, causal)
    asked = [_one_stream_a_passage(request, causal, limit) for request in requests]
    return decode_answers(asked, causal, limit, [None] * len(asked), mixture=True)


def answer_by_best(request: Request, chat: ChatModel) -> Answer:
    """The stream of the highest utility, read by a chat model."""
    question = StreamedQuestion(request, _ensemble(request))
    usage, background = Usage(), None
    if question.ensemble.memory:
        reply = run(chat.complete(prompts.background(question.text), max_tokens=prompts.BACKGROUND_TOKENS))
        usage, background = reply.usage, reply.text
    question.read(background, room_of(chat, request.max_tokens)[0], chat_prompt_length(request))
    check_streams(question, chat.spec)
    best = max(question.readings, key=lambda reading: question.utilities[reading.name])
    question.steps.append(Step("best", f"{chat.spec} answers from the stream of the highest utility, {best.name}"))
    question.weights = {name: float(name == best.name) for name in question.weights}
    question.readings = [best]
    return by_chat(question, chat, usage)


def _ensemble(request: Request) -> Ensemble:
    """The context's own streams, or one of all its passages."""
    context = request.context
    if (ensemble := ensemble_of(context)) is not None:
        return ensemble
    texts = [passage.text for passage in context.passages]
    return one_stream(context, request.models.utilities.utilities(context.question, texts))


def _one_stream_a_passage(request: Request, causal: CausalModel[Any], limit: int) -> StreamedQuestion:
    drawn = ensemble_of(request.context) or Ensemble(())
    question = StreamedQuestion(request, replace(drawn, streams=(), memory=False))
    sources = base_sources(request.context, request.document)
    code = code_for([question.text, request.context.text])
    for source in sorted(sources, key=lambda source: -source.score)[:MOST_STREAMS]:
        if sources_that_fit(question.text, [source], code, causal.window - limit, prompt_length(causal)):
            name = f"[{source.number}]"
            question.readings.append(StreamPrompt(name, prompts.answer(question.text, [source], code), (source,)))
            question.utilities[name] = source.score
        else:
            question.steps.append(Step("skip", f"passage {source.number} does not fit into the window"))
    check_streams(question, causal.spec)
    if len(sources) > MOST_STREAMS:
        question.steps.append(Step("skip", f"{len(sources) - MOST_STREAMS} passages: {MOST_STREAMS} streams at most"))
    question.weights = weights_of(question.utilities)
    return question
