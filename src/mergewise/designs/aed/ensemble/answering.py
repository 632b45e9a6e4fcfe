"""Answers from prompts: decoded in a batch by a causal model, or one by one by a chat model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mergewise.concurrency import run
from mergewise.designs.aed.ensemble.reading import StreamedQuestion
from mergewise.designs.aed.streams import StreamToken, StreamWeights
from mergewise.errors import ModelError
from mergewise.generate.citations import Claims, Locator
from mergewise.generate.marks import MarkFilter, without_unknown
from mergewise.generate.mode import Show
from mergewise.generate.sources import DocumentLookup, Source
from mergewise.models.decoding import Decoded, Sampling, StreamPrompts, decode, decode_each
from mergewise.text.alignment import sentences_at
from mergewise.text.sentences import split_sentences
from mergewise.text.support.judge import ENOUGH
from mergewise.text.terms import content_terms
from mergewise.types import Answer, Citation, Message, Reply, Step, Usage

if TYPE_CHECKING:
    from typing import Any

    from mergewise.protocols import CausalModel, ChatModel


def by_chat(question: StreamedQuestion, chat: ChatModel) -> Answer:
    """Answer the question's only prompt by a chat model."""
    (reading,) = question.readings
    shown = ShownAnswer(question.request.show)
    reply = run(_complete(chat, reading.messages, question.window.limit, shown))
    return finish_answer(question, reply.text, reply.usage, reply.complete, (), shown)


async def _complete(chat: ChatModel, messages: Sequence[Message], limit: int, shown: ShownAnswer) -> Reply:
    if not shown.wanted:
        return await chat.complete(messages, max_tokens=limit)
    reply = Reply("", Usage())
    async for piece in chat.stream(messages, max_tokens=limit):
        if isinstance(piece, Reply):
            reply = piece
        else:
            shown.add(piece)
    return reply


def decode_answers(asked: Sequence[StreamedQuestion], causal: CausalModel[Any], mixture: bool = False) -> list[Answer]:
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
    shown = [ShownAnswer(question.request.show) for question in asked]
    wanted = asked[0].ensemble
    answers = decode(
        causal,
        streams,
        max_tokens=asked[0].window.limit,
        mixture=mixture,
        sampling=Sampling(wanted.temperature, wanted.seed),
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


def write_alone(causal: CausalModel[Any], asked: Sequence[Sequence[Message]], most: int) -> list[Decoded]:
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
    shown: ShownAnswer,
) -> Answer:
    """Build the answer with citations and trace. `usage` covers only the call that wrote `text`."""
    request = question.request
    text, removed = without_unknown(text, ())
    text = text.strip()
    if not text:
        raise ModelError(f"empty answer from {question.window.spec}", "raise max_tokens, or try another model")
    grounding = ground(text, question.text, question.sources, request.document)
    shown.end(grounding.marks)
    weights = ", ".join(
        f"{name} {weight:.2f}" + (f" (utility {question.utilities[name]:.2f})" if name in question.utilities else "")
        for name, weight in question.weights.items()
    )
    return Answer(
        question=question.text,
        text=text + grounding.marks,
        citations=grounding.citations,
        context=request.context,
        usage=request.context.usage + question.spent + usage,
        complete=complete,
        removed_marks=removed,
        unsupported=grounding.unsupported,
        unverified=grounding.unverified,
        trace=(*question.steps, Step("weights", weights)),
        streams=StreamWeights(dict(question.weights), dict(question.utilities), tokens) if question.utilities else None,
    )


class ShownAnswer:
    """Filter that shows an answer while it arrives. It removes the model's marks and appends ours."""

    def __init__(self, show: Show | None) -> None:
        self.wanted = show is not None
        self._show = show or (lambda piece: None)
        self._filter = MarkFilter((), self._show)
        self.add = self._filter.add

    def end(self, marks: str) -> None:
        self._filter.end()
        if marks:
            self._show(marks)


@dataclass(frozen=True, slots=True)
class AnswerGrounding:
    """Support of an answer: its citations, its sentences without support, and the number of sentences that were checked.

    Streams write no marks, so the answer is matched with the sentences of the sources. A sentence of the answer cites the source
    sentence with most of its words, at least half of them. Ties go to the sentence with most words of the question. The model's
    own background is never cited. The numbers are appended to the answer.
    """

    citations: tuple[Citation, ...]
    unverified: tuple[str, ...]
    judged: int

    @property
    def marks(self) -> str:
        """Marks to append to the answer."""
        numbers = dict.fromkeys(citation.number for citation in self.citations)
        return " " + "".join(f"[{number}]" for number in numbers) if numbers else ""

    @property
    def unsupported(self) -> float | None:
        return len(self.unverified) / self.judged if self.judged else None


def ground(text: str, question: str, sources: Sequence[Source], document: DocumentLookup) -> AnswerGrounding:
    claims, locator = Claims(sources), Locator(document)
    known = [
        (source.number, sentence, content_terms(sentence.text))
        for source in sources
        for span, part in source.parts
        for sentence in sentences_at(part, span)
    ]
    asked = content_terms(question)
    citations: dict[tuple[int, object], Citation] = {}
    unverified: list[str] = []
    judged = 0
    for start, end in split_sentences(text):
        stated = text[start:end]
        words = content_terms(stated)
        cited: tuple[int, ...] = ()
        if words and known:
            number, sentence, terms = max(known, key=lambda one: (len(words & one[2]), len(asked & one[2])))
            if len(words & terms) >= ENOUGH * len(words):
                cited = (number,)
                citations.setdefault((number, sentence.span), locator.citation(number, sentence.text, sentence.span))
        supported = claims.is_supported(stated, cited)
        judged += supported is not None
        if supported is False:
            unverified.append(stated)
    return AnswerGrounding(tuple(citations.values()), tuple(unverified), judged)
