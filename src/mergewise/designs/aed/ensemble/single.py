"""Modes with one stream, the baselines of AED-RAG. They use its answer prompt (Table 6) with ordinary decoding.

    short      all passages of the context in one prompt (standard RAG); without passages, only the question
    naive      only the question
    recomp     a summary of the passages that the model writes first; only the question if the model says that nothing helps

A causal model decodes many questions in one batch. Any other chat model answers them one after the other.

`recomp` is RECOMP's abstractive compressor with selective augmentation (Xu et al. 2023). The paper distils a small model for it.
We use the model that answers. RECOMP's extractive compressor is the strategy `recomp`, to be used with `short`.
"""

from __future__ import annotations

from collections.abc import Sequence

from mergewise.concurrency import run
from mergewise.designs.aed.ensemble import prompts
from mergewise.designs.aed.ensemble.answering import by_chat, decode_answers, usage_of, write_alone
from mergewise.designs.aed.ensemble.reading import ModelWindow, StreamedQuestion, StreamPrompt
from mergewise.designs.aed.streams import PASSAGES, Ensemble
from mergewise.generate.mode import Request
from mergewise.generate.sources import Source, base_sources
from mergewise.prompting.quoting import code_for
from mergewise.protocols import ChatModel
from mergewise.text.spans import one_line
from mergewise.types import Answer, Step, Usage

ALONE = "question"
SUMMARY = "summary"


def short_all(requests: Sequence[Request], chat: ChatModel) -> list[Answer]:
    asked = []
    for request in requests:
        question, sources, code = _question_and_sources(request, chat)
        messages = question.prompt(sources, code)
        question.read_alone(StreamPrompt(PASSAGES if sources else ALONE, messages, tuple(sources)))
        asked.append(question)
    return _answers(asked, chat)


def summary_all(requests: Sequence[Request], chat: ChatModel) -> list[Answer]:
    """Answer questions from summaries. A causal model writes all summaries in one batch, then all answers."""
    asked = [_question_and_sources(request, chat) for request in requests]
    causal, own = requests[0].models.causal, requests[0].models.prompts
    wanted = [prompts.summary(question.text, sources, code, own) for question, sources, code in asked if sources]
    if causal is None:
        replies = [run(chat.complete(messages, max_tokens=prompts.SUMMARY_TOKENS)) for messages in wanted]
        written = [(reply.text, reply.usage) for reply in replies]
    else:
        written = [(one.text, usage_of(one)) for one in write_alone(causal, wanted, prompts.SUMMARY_TOKENS)]
    summaries = iter(written)
    for question, sources, code in asked:
        text, question.spent = next(summaries) if sources else ("", Usage())
        if prompts.says_nothing(text):
            question.steps.append(Step("summary", "empty: nothing in the passages helps"))
            question.read_alone(StreamPrompt(ALONE, question.prompt([], code)))
            continue
        question.steps.append(Step("summary", one_line(text)))
        code = code_for([question.text, code, text])
        messages = question.prompt([text], code, "summary")
        question.read_alone(StreamPrompt(SUMMARY, messages, tuple(sources)))
    return _answers([question for question, _, _ in asked], chat)


def _question_and_sources(request: Request, chat: ChatModel) -> tuple[StreamedQuestion, list[Source], str]:
    """Return the question, the passages that fit (best first), and the code of the quotations."""
    causal = request.models.causal
    window = ModelWindow.of_chat(chat, request) if causal is None else ModelWindow.of_causal(causal, request.max_tokens)
    question = StreamedQuestion(request, Ensemble((), memory=False), window)
    code = code_for([question.text, request.context.text])
    sources = base_sources(request.context, request.document)
    kept = question.texts_that_fit(sources, code)
    if len(kept) < len(sources):
        question.steps.append(Step("skip", f"{len(sources) - len(kept)} passages do not fit into the window"))
    if sources and not kept:
        question.check_readings()
    return question, kept, code


def _answers(asked: Sequence[StreamedQuestion], chat: ChatModel) -> list[Answer]:
    """Answer in one batch by a causal model, or one question after the other."""
    causal = asked[0].request.models.causal
    return [by_chat(question, chat) for question in asked] if causal is None else decode_answers(asked, causal)
