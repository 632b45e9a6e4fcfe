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
    causal_of,
    chat_prompt_length,
    decode_answers,
    demand_streams,
    limit_of,
    prompt_length,
    room_of,
)
from mergewise.designs.aed.ensemble.reading import Measure, StreamedQuestion, StreamPrompt, fitting
from mergewise.designs.aed.streams import PASSAGES, Ensemble
from mergewise.generate.mode import Request
from mergewise.generate.sources import Source, base_sources
from mergewise.models.decoding import Decoded, decode
from mergewise.models.decoding import Streams as Prompts
from mergewise.prompting.quoting import code_for
from mergewise.types import Answer, Message, Step, Usage

ALONE = "question"
SUMMARY = "summary"


def answer_short(request: Request) -> Answer:
    if request.causal is not None:
        return short_all([request])[0]
    assert request.chat is not None  # what `mode_for` made sure of
    return by_chat(_short(request, room_of(request.chat, request.max_tokens)[0], chat_prompt_length(request)), Usage())


def short_all(requests: Sequence[Request]) -> list[Answer]:
    if requests[0].causal is None:
        return [answer_short(request) for request in requests]
    causal, limit = causal_of(requests), limit_of(requests)
    asked = [_short(request, causal.window - limit, prompt_length(causal)) for request in requests]
    return decode_answers(asked, causal, limit, [None] * len(asked))


def answer_from_summary(request: Request) -> Answer:
    if request.causal is not None:
        return summary_all([request])[0]
    assert request.chat is not None
    question, sources, code = _question_and_sources(
        request, room_of(request.chat, request.max_tokens)[0], chat_prompt_length(request)
    )
    usage, text = Usage(), ""
    if sources:
        asked = prompts.summary(question.text, sources, code)
        reply = run(request.chat.complete(asked, max_tokens=prompts.SUMMARY_TOKENS))
        usage, text = reply.usage, reply.text
    _read_summary(question, sources, text, code)
    return by_chat(question, usage)


def summary_all(requests: Sequence[Request]) -> list[Answer]:
    """All summaries in one batch, then all answers."""
    if requests[0].causal is None:
        return [answer_from_summary(request) for request in requests]
    causal, limit = causal_of(requests), limit_of(requests)
    given = [_question_and_sources(request, causal.window - limit, prompt_length(causal)) for request in requests]
    asked = [number for number, (_, sources, _) in enumerate(given) if sources]
    own = [Prompts((causal.prompt(_summary_prompt(*given[number])),), (1.0,)) for number in asked]
    most = max(1, min(prompts.SUMMARY_TOKENS, causal.window // 4))
    written: list[Decoded | None] = [None] * len(given)
    for number, said in zip(asked, decode(causal, own, max_tokens=most), strict=True):
        written[number] = said
    for (question, sources, code), summary in zip(given, written, strict=True):
        _read_summary(question, sources, "" if summary is None else summary.text, code)
    return decode_answers([question for question, _, _ in given], causal, limit, written)


def _short(request: Request, room: int, measure: Measure) -> StreamedQuestion:
    question, sources, code = _question_and_sources(request, room, measure)
    name = PASSAGES if sources else ALONE
    return _reads(question, StreamPrompt(name, prompts.answer(question.text, sources, code), tuple(sources)))


def _question_and_sources(request: Request, room: int, measure: Measure) -> tuple[StreamedQuestion, list[Source], str]:
    """The question, the passages that fit, the best ones first, and the code of quotations."""
    question = StreamedQuestion(request, Ensemble((), memory=False))
    code = code_for([question.text, request.context.text])
    sources = base_sources(request.context, request.document)
    kept = fitting(question.text, sources, code, room, measure)
    if len(kept) < len(sources):
        question.steps.append(Step("skip", f"{len(sources) - len(kept)} passages do not fit into the window"))
    if sources and not kept:
        demand_streams(question, (request.causal or request.chat).spec)  # type: ignore[union-attr]
    return question, kept, code


def _summary_prompt(question: StreamedQuestion, sources: Sequence[Source], code: str) -> list[Message]:
    return prompts.summary(question.text, sources, code)


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
