"""The modes that read several streams, on one core: prompts, weights, decoding, citations.

    aed        passages, triplets where there are some, and the model's own background: Eq. 12 to 14, by a causal model
    aed-best   the stream of the highest utility alone: what any chat model can do (the paper's "w/o AED")
    replug     one stream a passage, weighed by its score, probabilities added up

A context of another strategy than `aed` is one stream of passages. Utilities come from the request's predictor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mergewise.concurrency import run
from mergewise.errors import ModelError, UsageError
from mergewise.generate.ensemble import prompts
from mergewise.generate.ensemble.citing import ground
from mergewise.generate.ensemble.reading import Question, Reading, fitting
from mergewise.generate.ensemble.weighing import ensemble_of, weights_of
from mergewise.generate.marks import MarkFilter, without_unknown
from mergewise.generate.mode import Request, Show
from mergewise.generate.sources import base_sources
from mergewise.models.decoding import Decoded, Sampling, decode
from mergewise.models.decoding import Streams as Prompts
from mergewise.prompting.quoting import code_for
from mergewise.types import Answer, Ensemble, Message, Reply, Step, Streams, StreamToken, Usage

if TYPE_CHECKING:
    from typing import Any

    from mergewise.protocols import CausalModel, ChatModel

_MARGIN = 0.05  # of a chat model's window, whose tokens are counted by another tokenizer
MOST_STREAMS = 10


def answer(request: Request) -> Answer:
    return answer_all([request])[0]


def answer_all(requests: Sequence[Request]) -> list[Answer]:
    """AED for many questions: all backgrounds in one batch, then all streams of all questions in another."""
    causal, limit = _causal(requests), _limit(requests)
    asked = [Question(request, _ensemble(request)) for request in requests]
    remembering = [question for question in asked if question.ensemble.memory]
    own = [Prompts((causal.prompt(prompts.background(question.text)),), (1.0,)) for question in remembering]
    written = decode(causal, own, max_tokens=min(prompts.BACKGROUND_TOKENS, limit)) if own else []
    backgrounds = {id(question): said for question, said in zip(remembering, written, strict=True)}
    for question in asked:
        background = backgrounds.get(id(question))
        question.read(None if background is None else background.text, causal.window - limit, _measure(causal))
        _demand_streams(question, causal.spec)
    return _decoded(asked, causal, limit, [backgrounds.get(id(question)) for question in asked])


def answer_by_replug(request: Request) -> Answer:
    return replug_all([request])[0]


def replug_all(requests: Sequence[Request]) -> list[Answer]:
    """REPLUG: p(y) = sum over d of p(y | d, q) lambda(d, q), with lambda the softmax of the passages' scores."""
    causal, limit = _causal(requests), _limit(requests)
    asked = [_one_stream_a_passage(request, causal, limit) for request in requests]
    return _decoded(asked, causal, limit, [None] * len(asked), mixture=True)


def answer_by_best(request: Request) -> Answer:
    """The stream of the highest utility, read by a chat model."""
    chat = request.chat
    assert chat is not None  # what `mode_for` made sure of
    question = Question(request, _ensemble(request))
    limit = max(1, min(request.max_tokens, chat.window // 4))
    usage, background = Usage(), None
    if question.ensemble.memory:
        reply = run(chat.complete(prompts.background(question.text), max_tokens=prompts.BACKGROUND_TOKENS))
        usage, background = reply.usage, reply.text

    def measure(messages: Sequence[Message]) -> int:
        return sum(request.count_tokens([message.text for message in messages]))

    question.read(background, int(chat.window * (1 - _MARGIN)) - limit, measure)
    _demand_streams(question, chat.spec)
    best = max(question.readings, key=lambda reading: question.utilities[reading.name])
    question.steps.append(
        Step("best", f"{chat.spec} answers from the stream of the highest utility, {best.name}", score=None)
    )
    question.weights = {name: float(name == best.name) for name in question.weights}
    question.readings = [best]
    shown = _Shown(request.show)
    reply = run(_completed(chat, best.messages, limit, shown))
    return _finished(question, reply.text, usage + reply.usage, reply.complete, (), shown)


async def _completed(chat: ChatModel, messages: Sequence[Message], limit: int, shown: _Shown) -> Reply:
    if not shown.wanted:
        return await chat.complete(messages, max_tokens=limit)
    reply = Reply("", Usage())
    async for piece in chat.stream(messages, max_tokens=limit):
        if isinstance(piece, Reply):
            reply = piece
        else:
            shown.add(piece)
    return reply


def _causal(requests: Sequence[Request]) -> CausalModel[Any]:
    causal = requests[0].causal
    assert causal is not None  # what `mode_for` made sure of
    return causal


def _limit(requests: Sequence[Request]) -> int:
    """What an answer may take: a quarter of the window at most."""
    return max(1, min(requests[0].max_tokens, _causal(requests).window // 4))


def _measure(causal: CausalModel[Any]) -> Callable[[Sequence[Message]], int]:
    return lambda messages: len(causal.prompt(messages))


def _ensemble(request: Request) -> Ensemble:
    """The context's own streams, or one of all its passages."""
    context = request.context
    if context.ensemble is not None:
        return context.ensemble
    assert request.predictor is not None
    texts = [passage.text for passage in context.passages]
    return ensemble_of(context, request.predictor.utilities(context.question, texts))


def _one_stream_a_passage(request: Request, causal: CausalModel[Any], limit: int) -> Question:
    drawn = request.context.ensemble or Ensemble(())
    question = Question(request, replace(drawn, streams=(), memory=False))
    sources = base_sources(request.context, request.document)
    code = code_for([question.text, request.context.text])
    for source in sorted(sources, key=lambda source: -source.score)[:MOST_STREAMS]:
        if fitting(question.text, [source], code, causal.window - limit, _measure(causal)):
            name = f"[{source.number}]"
            question.readings.append(Reading(name, prompts.answer(question.text, [source], code), (source,)))
            question.utilities[name] = source.score
        else:
            question.steps.append(Step("skip", f"passage {source.number} does not fit into the window"))
    _demand_streams(question, causal.spec)
    if len(sources) > MOST_STREAMS:
        question.steps.append(Step("skip", f"{len(sources) - MOST_STREAMS} passages: {MOST_STREAMS} streams at most"))
    question.weights = weights_of(question.utilities)
    return question


def _demand_streams(question: Question, spec: str) -> None:
    if not question.readings:
        raise UsageError(
            f"no passage fits into the window of {spec}, and there is no background", "lower --budget or --max-tokens"
        )


def _decoded(
    asked: Sequence[Question],
    causal: CausalModel[Any],
    limit: int,
    backgrounds: Sequence[Decoded | None],
    mixture: bool = False,
) -> list[Answer]:
    """Eq. 14 for all questions in one batch, and their answers."""
    if not asked:
        return []
    streams = [
        Prompts(
            tuple(causal.prompt(reading.messages) for reading in question.readings),
            tuple(question.weights[reading.name] for reading in question.readings),
        )
        for question in asked
    ]
    shown = [_Shown(question.request.show) for question in asked]
    wanted = asked[0].ensemble
    said = decode(
        causal,
        streams,
        max_tokens=limit,
        mixture=mixture,
        sampling=Sampling(wanted.temperature, wanted.seed),
        show=lambda number, piece: shown[number].add(piece),
    )
    return [
        _answered(question, one, background, shown)
        for question, one, background, shown in zip(asked, said, backgrounds, shown, strict=True)
    ]


def _answered(question: Question, said: Decoded, background: Decoded | None, shown: _Shown) -> Answer:
    spent = Usage(1, said.input_tokens, len(said.tokens))
    if background is not None:
        spent += Usage(1, background.input_tokens, len(background.tokens))
    names = [reading.name for reading in question.readings]
    tokens = tuple(
        StreamToken(
            piece,
            names[carried],
            agreement,
            {name: value for name, value in zip(names, values, strict=True) if value is not None},
        )
        for piece, carried, agreement, values in zip(
            said.pieces, said.carried, said.agreement, said.log_probs, strict=True
        )
    )
    return _finished(question, said.text, spent, said.complete, tokens, shown)


def _finished(
    question: Question, text: str, spent: Usage, complete: bool, tokens: tuple[StreamToken, ...], shown: _Shown
) -> Answer:
    request = question.request
    text, removed = without_unknown(text, ())
    text = text.strip()
    if not text:
        spec = request.chat.spec if request.causal is None and request.chat is not None else _causal([request]).spec
        raise ModelError(f"{spec} answered with nothing", "raise --max-tokens, or try another model")
    found = ground(text, question.text, question.sources, request.document)
    shown.end(found.marks)
    told = ", ".join(
        f"{name} {weight:.2f}" + (f" (utility {question.utilities[name]:.2f})" if name in question.utilities else "")
        for name, weight in question.weights.items()
    )
    return Answer(
        question=question.text,
        text=text + found.marks,
        citations=found.citations,
        context=request.context,
        usage=request.context.usage + spent,
        complete=complete,
        removed_marks=removed,
        unsupported=found.unsupported,
        unverified=found.unverified,
        trace=(*question.steps, Step("weights", told)),
        streams=Streams(dict(question.weights), dict(question.utilities), tokens),
    )


class _Shown:
    """Shows an answer as it arrives, as its text will be in the end: without marks of the model, and with ours behind it."""

    def __init__(self, show: Show | None) -> None:
        self.wanted = show is not None
        self._show = show or _unheard
        self._held = ""
        self._filter = MarkFilter((), self._trimmed)

    def add(self, piece: str) -> None:
        self._filter.add(piece)

    def end(self, marks: str) -> None:
        self._filter.end()
        if marks:
            self._show(marks)

    def _trimmed(self, text: str) -> None:
        """What stands before white space at the end; that is held back until more comes."""
        text = self._held + text
        kept = text.rstrip()
        self._held = text[len(kept) :]
        if kept:
            self._show(kept)


def _unheard(piece: str) -> None:
    return None
