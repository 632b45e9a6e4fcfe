"""From the prompts of questions to their answers: decoded in one batch by a causal model, or one by one by a chat model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mergewise.concurrency import run
from mergewise.designs.aed.ensemble.citing import ground
from mergewise.designs.aed.ensemble.reading import StreamedQuestion
from mergewise.designs.aed.streams import StreamToken, StreamWeights
from mergewise.errors import ModelError, UsageError
from mergewise.generate.marks import MarkFilter, without_unknown
from mergewise.generate.mode import Request, Show
from mergewise.models.decoding import Decoded, Sampling, StreamPrompts, decode
from mergewise.types import Answer, Message, Reply, Step, Usage

if TYPE_CHECKING:
    from typing import Any

    from mergewise.protocols import CausalModel, ChatModel

_MARGIN = 0.05  # of a chat model's window, whose tokens are counted by another tokenizer


def limit_of(requests: Sequence[Request], causal: CausalModel[Any]) -> int:
    """What an answer may take: a quarter of the window at most."""
    return max(1, min(requests[0].max_tokens, causal.window // 4))


def prompt_length(causal: CausalModel[Any]) -> Callable[[Sequence[Message]], int]:
    return lambda messages: len(causal.prompt(messages))


def check_streams(question: StreamedQuestion, spec: str) -> None:
    if not question.readings:
        problem = f"no passage fits into the window of {spec}, and there is no background"
        raise UsageError(problem, "lower --budget or --max-tokens")


def chat_prompt_length(request: Request) -> Callable[[Sequence[Message]], int]:
    return lambda messages: sum(request.models.count_tokens([message.text for message in messages]))


def room_of(chat: ChatModel, max_tokens: int) -> tuple[int, int]:
    """Tokens that a prompt may have, and that an answer may have: a quarter of the window at most."""
    limit = max(1, min(max_tokens, chat.window // 4))
    return int(chat.window * (1 - _MARGIN)) - limit, limit


def by_chat(question: StreamedQuestion, chat: ChatModel, spent: Usage) -> Answer:
    """The answer of a chat model to the question's only reading; `spent` is what was paid on the way."""
    (reading,), (_, limit) = question.readings, room_of(chat, question.request.max_tokens)
    shown = ShownAnswer(question.request.show)
    reply = run(_complete(chat, reading.messages, limit, shown))
    return finish_answer(question, chat.spec, reply.text, spent + reply.usage, reply.complete, (), shown)


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


def decode_answers(
    asked: Sequence[StreamedQuestion],
    causal: CausalModel[Any],
    limit: int,
    before: Sequence[Decoded | None],
    mixture: bool = False,
) -> list[Answer]:
    """Eq. 14 for all questions in one batch, and their answers. `before` is what was written for them on the way."""
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
        max_tokens=limit,
        mixture=mixture,
        sampling=Sampling(wanted.temperature, wanted.seed),
        show=lambda number, piece: shown[number].add(piece),
    )
    return [_answer_of(causal.spec, *one) for one in zip(asked, answers, before, shown, strict=True)]


def _answer_of(
    spec: str, question: StreamedQuestion, decoded: Decoded, written: Decoded | None, shown: ShownAnswer
) -> Answer:
    parts = (decoded,) if written is None else (decoded, written)
    spent = Usage(len(parts), sum(one.input_tokens for one in parts), sum(len(one.tokens) for one in parts))
    names = [reading.name for reading in question.readings]
    tokens = tuple(
        StreamToken(
            piece, names[carried], agreement, {n: v for n, v in zip(names, values, strict=True) if v is not None}
        )
        for piece, carried, agreement, values in zip(
            decoded.pieces, decoded.carried, decoded.agreement, decoded.log_probs, strict=True
        )
    )
    return finish_answer(question, spec, decoded.text, spent, decoded.complete, tokens, shown)


def finish_answer(
    question: StreamedQuestion,
    spec: str,
    text: str,
    spent: Usage,
    complete: bool,
    tokens: tuple[StreamToken, ...],
    shown: ShownAnswer,
) -> Answer:
    """The answer of the model `spec`, with its citations and its steps."""
    request = question.request
    text, removed = without_unknown(text, ())
    text = text.strip()
    if not text:
        raise ModelError(f"{spec} answered with nothing", "raise --max-tokens, or try another model")
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
        usage=request.context.usage + spent,
        complete=complete,
        removed_marks=removed,
        unsupported=grounding.unsupported,
        unverified=grounding.unverified,
        trace=(*question.steps, Step("weights", weights)),
        streams=StreamWeights(dict(question.weights), dict(question.utilities), tokens) if question.utilities else None,
    )


class ShownAnswer:
    """Shows an answer as it arrives, as its text will be in the end: without marks of the model, and with ours behind it."""

    def __init__(self, show: Show | None) -> None:
        self.wanted = show is not None
        self._show = show or (lambda piece: None)
        self._filter = MarkFilter((), self._show)
        self.add = self._filter.add

    def end(self, marks: str) -> None:
        self._filter.end()
        if marks:
            self._show(marks)
