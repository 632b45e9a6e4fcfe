"""Answers from prompts: decoded in a batch by a causal model, or one by one by a chat model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mergewise.concurrency import run
from mergewise.designs.aed.ensemble.reading import StreamedQuestion
from mergewise.designs.aed.streams import StreamToken, StreamWeights
from mergewise.errors import ModelError
from mergewise.generate.citations import Claims, Locator
from mergewise.generate.marks import MarkFilter, without_unknown
from mergewise.generate.writer import complete
from mergewise.models.decoding import Decoded, StreamPrompts, decode, decode_each
from mergewise.text.alignment import sentences_at
from mergewise.text.sentences import split_sentences
from mergewise.text.support.judge import ENOUGH
from mergewise.text.terms import content_terms
from mergewise.types import Answer, Citation, Message, Span, Step, Usage

if TYPE_CHECKING:
    from mergewise.protocols import CausalModel, ChatModel


def by_chat(question: StreamedQuestion, chat: ChatModel) -> Answer:
    """Answer the question's only prompt by a chat model."""
    (reading,) = question.readings
    show, limit = question.request.show, question.window.limit
    shown = MarkFilter((), show or _hide)
    reply = run(complete(chat, reading.messages, limit, None if show is None else shown.add))
    return finish_answer(question, reply.text, reply.usage, reply.complete, (), shown)


def _hide(piece: str) -> None:
    """Show nothing."""


def decode_answers(asked: Sequence[StreamedQuestion], causal: CausalModel, mixture: bool = False) -> list[Answer]:
    """Decode all questions by Eq. 14 in one batch."""
    if not asked:
        return []
    streams = [
        StreamPrompts(
            tuple(causal.prompt(reading.messages) for reading in question.readings),
            tuple(question.weights[reading.name] for reading in question.readings),
        )
        for question in asked
    ]
    shown = [MarkFilter((), question.request.show or _hide) for question in asked]
    answers = decode(
        causal,
        streams,
        max_tokens=asked[0].window.limit,
        mixture=mixture,
        show=lambda number, piece: shown[number].add(piece),
    )
    finished = []
    for question, decoded, pieces in zip(asked, answers, shown, strict=True):
        names = [reading.name for reading in question.readings]
        rows = zip(decoded.pieces, decoded.carried, decoded.agreement, decoded.log_probs, strict=True)
        tokens = []
        for piece, carried, agreement, values in rows:
            known = {name: value for name, value in zip(names, values, strict=True) if value is not None}
            tokens.append(StreamToken(piece, names[carried], agreement, known))
        finished.append(
            finish_answer(question, decoded.text, usage_of(decoded), decoded.complete, tuple(tokens), pieces)
        )
    return finished


def write_alone(causal: CausalModel, asked: Sequence[Sequence[Message]], most: int) -> list[Decoded]:
    """Decode a text of at most `most` tokens for each prompt, in one batch."""
    return decode_each(causal, asked, max(1, min(most, causal.window // 4)))


def usage_of(decoded: Decoded) -> Usage:
    return Usage(1, decoded.input_tokens, len(decoded.tokens))


def finish_answer(
    question: StreamedQuestion,
    text: str,
    usage: Usage,
    complete: bool,
    tokens: tuple[StreamToken, ...],
    shown: MarkFilter,
) -> Answer:
    """Build the answer with citations and trace. `usage` covers only the call that wrote `text`.

    Streams write no marks, so the answer is matched with the sentences of the sources. A sentence of the answer cites the source
    sentence with most of its words, at least half of them. Ties go to the sentence with most words of the question. The model's
    own background is never cited. `shown` removes the model's marks, and the numbers are appended to the answer.
    """
    request = question.request
    text, removed = without_unknown(text, ())
    text = text.strip()
    if not text:
        raise ModelError(f"empty answer from {question.window.spec}", "raise max_tokens, or try another model")
    claims, locator = Claims(question.sources), Locator(request.document, request.context)
    known = [
        (source.number, sentence, content_terms(sentence.text))
        for source in question.sources
        for span, part in source.parts
        for sentence in sentences_at(part, span)
    ]
    wanted = content_terms(question.text)
    citations: dict[tuple[int, Span], Citation] = {}
    unverified: list[str] = []
    judged = 0
    for start, end in split_sentences(text):
        stated = text[start:end]
        words = content_terms(stated)
        cited: tuple[int, ...] = ()
        if words and known:
            number, sentence, terms = max(known, key=lambda one: (len(words & one[2]), len(wanted & one[2])))
            if len(words & terms) >= ENOUGH * len(words):
                cited = (number,)
                citations.setdefault((number, sentence.span), locator.citation(number, sentence.text, sentence.span))
        supported = claims.is_supported(stated, cited)
        judged += supported is not None
        if supported is False:
            unverified.append(stated)
    numbers = dict.fromkeys(number for number, _ in citations)
    marks = " " + "".join(f"[{number}]" for number in numbers) if numbers else ""
    shown.end()
    if marks and request.show is not None:
        request.show(marks)
    weights = ", ".join(
        f"{name} {weight:.2f}" + (f" (utility {question.utilities[name]:.2f})" if name in question.utilities else "")
        for name, weight in question.weights.items()
    )
    return Answer(
        question=question.text,
        text=text + marks,
        citations=tuple(citations.values()),
        context=request.context,
        usage=request.context.usage + question.spent + usage,
        complete=complete,
        removed_marks=removed,
        unsupported=len(unverified) / judged if judged else None,
        unverified=tuple(unverified),
        trace=(*question.steps, Step("weights", weights)),
        streams=StreamWeights(dict(question.weights), dict(question.utilities), tokens) if question.utilities else None,
    )
