"""Modes of one stream, which AED-RAG is measured against: its answers' prompt (Table 6), decoded the ordinary way.

    short      all passages of the context in one prompt (standard RAG); without any, the question alone
    naive      the question alone
    recomp     a summary of the passages that the model writes first, or the question alone where it says that nothing helps

By a causal model many questions are decoded in one batch; any other chat model is asked one question after the other.

`recomp` is RECOMP's abstractive compressor with selective augmentation (Xu et al. 2023). Where we differ: the paper distils a
small model for it, we ask the model that answers. Its extractive compressor is the strategy `recomp`, to be read by `short`.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from mergewise.designs.aed.ensemble.reading import Measure, StreamedQuestion, StreamPrompt, sources_that_fit
from mergewise.designs.aed.streams import PASSAGES, Ensemble
from mergewise.generate.mode import Request
from mergewise.generate.sources import Source, base_sources
from mergewise.models.decoding import Decoded, StreamPrompts, decode
from mergewise.prompting.quoting import code_for
from mergewise.protocols import ChatModel
from mergewise.types import Answer, Step, Usage

ALONE = "question"
SUMMARY = "summary"


def short_all(requests: Sequence[Request], chat: ChatModel) -> list[Answer]:
    causal = requests[0].models.causal
    if causal is None:
        return [_short_by_chat(request, chat) for request in requests]
    limit = limit_of(requests, causal)
    asked = [_short(request, causal.spec, causal.window - limit, prompt_length(causal)) for request in requests]
    return decode_answers(asked, causal, limit, [None] * len(asked))


def summary_all(requests: Sequence[Request], chat: ChatModel) -> list[Answer]:
    """By a causal model, all summaries in one batch, then all answers."""
    causal = requests[0].models.causal
    if causal is None:
        return [_from_summary_by_chat(request, chat) for request in requests]
    limit = limit_of(requests, causal)
    room, measure = causal.window - limit, prompt_length(causal)
    asked = [_question_and_sources(request, causal.spec, room, measure) for request in requests]
    asking = [prompts.summary(question.text, sources, code) for question, sources, code in asked if sources]
    own = [StreamPrompts((causal.prompt(messages),), (1.0,)) for messages in asking]
    most = max(1, min(prompts.SUMMARY_TOKENS, causal.window // 4))
    decoded = iter(decode(causal, own, max_tokens=most))
    written: list[Decoded | None] = [next(decoded) if sources else None for _, sources, _ in asked]
    for (question, sources, code), summary in zip(asked, written, strict=True):
        _read_summary(question, sources, "" if summary is None else summary.text, code)
    return decode_answers([question for question, _, _ in asked], causal, limit, written)


def _short_by_chat(request: Request, chat: ChatModel) -> Answer:
    room, _ = room_of(chat, request.max_tokens)
    return by_chat(_short(request, chat.spec, room, chat_prompt_length(request)), chat, Usage())


def _from_summary_by_chat(request: Request, chat: ChatModel) -> Answer:
    room, _ = room_of(chat, request.max_tokens)
    question, sources, code = _question_and_sources(request, chat.spec, room, chat_prompt_length(request))
    usage, text = Usage(), ""
    if sources:
        asked = prompts.summary(question.text, sources, code)
        reply = run(chat.complete(asked, max_tokens=prompts.SUMMARY_TOKENS))
        usage, text = reply.usage, reply.text
    _read_summary(question, sources, text, code)
    return by_chat(question, chat, usage)


def _short(request: Request, spec: str, room: int, measure: Measure) -> StreamedQuestion:
    question, sources, code = _question_and_sources(request, spec, room, measure)
    name = PASSAGES if sources else ALONE
    return _reads(question, StreamPrompt(name, prompts.answer(question.text, sources, code), tuple(sources)))


def _question_and_sources(
    request: Request, spec: str, room: int, measure: Measure
) -> tuple[StreamedQuestion, list[Source], str]:
    """The question, the passages that fit, the best ones first, and the code of quotations."""
    question = StreamedQuestion(request, Ensemble((), memory=False))
    code = code_for([question.text, request.context.text])
    sources = base_sources(request.context, request.document)
    kept = sources_that_fit(question.text, sources, code, room, measure)
    if len(kept) < len(sources):
        question.steps.append(Step("skip", f"{len(sources) - len(kept)} passages do not fit into the window"))
    if sources and not kept:
        check_streams(question, spec)
    return question, kept, code


def _read_summary(question: StreamedQuestion, sources: Sequence[Source], summary: str, code: str) -> None:
    if prompts.says_nothing(summary):
        question.steps.append(Step("summary", "empty: nothing in the passages helps"))
        _reads(question, StreamPrompt(ALONE, prompts.answer(question.text, [], code)))
        return
    question.steps.append(Step("summary", " ".join(summary.split())))
    asked = prompts.answer_from_summary(question.text, summary, code_for([question.text, code, summary]))
    _reads(question, StreamPrompt(SUMMARY, asked, tuple(sources)))


def _reads(question: StreamedQuestion, reading: StreamPrompt) -> StreamedQuestion:
    question.readings, question.weights = [reading], {reading.name: 1.0}
    return question
