"""From a context to an answer by a chat model: the seven modes of MacRAG (Table 4, A.1), and `closed-book`.

    mode          the answer reads                              calls
    r&b           the passages                                  1
    r&l           the documents of the passages                 1
    full-ext      passages, extract of the documents            e + 1
    fil           passages that pass the filter                 1 + n + 1
    full-e&f      filtered passages, extract of the documents   e + 1 + n + 1
    r&b-ext       passages, extract of the passages             e + 1
    r&b-e&f       filtered passages, extract of the passages    e + 1 + n + 1
    closed-book   nothing                                       1

n is the number of passages; e is 1 where all that is extracted from fits into the model's window, else the number of
windows that it fills. The filter thinks first (1 call) and judges each passage in the light of this (n calls at once).
Extraction and filter run at the same time.

Where this differs from LongRAG: a filter that would keep nothing keeps everything, and so does a judgement that cannot
be read. An extract is aligned to its sources sentence by sentence: what is supported gets a number by which the answer
can cite it, the rest is shown as unverified, and its share is reported. A document that is longer than the window is read
around its passages. Passages that do not fit are left out by rank, and never cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from operator import add
from typing import Literal

from mergewise.concurrency import run, together
from mergewise.defaults import MAX_TOKENS
from mergewise.errors import ModelError, UsageError
from mergewise.generate import prompts
from mergewise.generate.citations import MarkFilter, cite
from mergewise.generate.notes import Notes, take_notes
from mergewise.generate.sources import (
    DocumentLookup,
    Source,
    base_sources,
    batches,
    each_long_source,
    fit,
    long_sources,
)
from mergewise.prompting.quoting import code_for
from mergewise.prompting.replies import json_in
from mergewise.protocols import ChatModel, TokenCounter
from mergewise.types import Answer, Context, Message, Reply, Step, Usage

# What is kept free, since the tokens are seldom counted by the model's own tokenizer.
_MARGIN = 0.05

Text = Literal["none", "base", "long"]
Show = Callable[[str], None]
"""Called with each piece of an answer as it arrives, from the thread of the event loop."""


@dataclass(frozen=True, slots=True)
class Mode:
    """What the answer reads, what is extracted from, and whether the passages are filtered."""

    reads: Text
    extracts: Text = "none"
    filters: bool = False


MODES: dict[str, Mode] = {
    "closed-book": Mode("none"),
    "fil": Mode("base", filters=True),
    "full-e&f": Mode("base", extracts="long", filters=True),
    "full-ext": Mode("base", extracts="long"),
    "r&b": Mode("base"),
    "r&b-e&f": Mode("base", extracts="base", filters=True),
    "r&b-ext": Mode("base", extracts="base"),
    "r&l": Mode("long"),
}
DEFAULT_MODE = "r&b"


def mode_of(name: str) -> Mode:
    if name not in MODES:
        raise UsageError(f"unknown mode {name!r}", f"one of: {', '.join(MODES)}")
    return MODES[name]


def answer(
    context: Context,
    name: str,
    chat: ChatModel,
    count_tokens: TokenCounter,
    document: DocumentLookup,
    *,
    max_tokens: int = MAX_TOKENS,
    show: Show | None = None,
) -> Answer:
    """The answer to `context.question` in the mode of this name.

    `max_tokens` is what the model may write in one call. With `show` the answer arrives in pieces on the way.
    """
    mode = mode_of(name)
    if mode.reads != "none" and not context.passages:
        return Answer(context.question, prompts.NOT_FOUND, (), context, context.usage, found=False, mode=name)
    return run(_Writer(context, name, mode, chat, count_tokens, cache(document), max_tokens, show).write())


@dataclass(frozen=True, slots=True)
class _Kept:
    """What the filter let through."""

    sources: tuple[Source, ...]
    steps: tuple[Step, ...] = ()


@dataclass
class _Writer:
    """One answer on its way."""

    context: Context
    name: str
    mode: Mode
    chat: ChatModel
    count: TokenCounter
    document: DocumentLookup
    max_tokens: int
    show: Show | None
    code: str = field(init=False)
    base: list[Source] = field(init=False)
    usages: list[Usage] = field(init=False)

    def __post_init__(self) -> None:
        self.code = code_for([self.question, self.context.text])
        self.base = base_sources(self.context, self.document)
        self.usages = [self.context.usage]

    @property
    def question(self) -> str:
        return self.context.question

    async def write(self) -> Answer:
        if self.mode.reads == "none":
            return await self._finish(prompts.own_knowledge(self.question), [], Notes(), [])
        notes, kept = await together(self._extract(), self._filter())
        assert isinstance(notes, Notes) and isinstance(kept, _Kept)
        room = self._room(prompts.answer(self.question, [], notes.text, self.code))
        if self.mode.reads == "long":
            sources = long_sources(self.context, self.document, room, self._measure)
        else:
            sources = fit(kept.sources, room, self._measure)
        if not sources:
            raise UsageError(
                f"no passage fits into the window of {self.chat.spec}, {self.chat.window} tokens",
                "lower --budget, or give the model's true --window",
            )
        steps = [*notes.steps, *kept.steps, *_left_out(kept.sources if self.mode.reads == "base" else (), sources)]
        messages = prompts.answer(self.question, sources, notes.text, self.code)
        return await self._finish(messages, sources, notes, steps)

    # -- the steps of LongRAG

    async def _extract(self) -> Notes:
        """I_g: what the documents, or the passages, say on the question, and how far they do."""
        if self.mode.extracts == "none":
            return Notes()
        room = self._room(prompts.extract(self.question, [], self.code))
        if self.mode.extracts == "long":
            sources = each_long_source(self.context, self.document, room, self._measure)
        else:
            costs = self._measure(self.base)
            sources = [source for source, cost in zip(self.base, costs, strict=True) if cost <= room]
        calls = [
            self._ask(prompts.extract(self.question, group, self.code))
            for group in batches(sources, room, self._measure)
        ]
        replies = await together(*calls)
        texts = [reply.text for reply in replies]
        return take_notes(texts, sources, len(self.base) + 1, self._window() // 2, self.count)

    async def _filter(self) -> _Kept:
        """I_d: the passages that help, by a judgement on each in the light of one chain of thought."""
        if not self.mode.filters:
            return _Kept(tuple(self.base))
        room = self._room(prompts.think(self.question, [], self.code))
        read = fit(self.base, room, self._measure)
        thoughts = (await self._ask(prompts.think(self.question, read, self.code))).text
        verdicts = await together(*(self._judge(thoughts, source) for source in self.base))
        kept = tuple(source for source, helps in zip(self.base, verdicts, strict=True) if helps)
        if not kept:
            return _Kept(tuple(self.base), (Step("filter", "would keep nothing, so it keeps everything"),))
        dropped = [source for source in self.base if source not in kept]
        return _Kept(kept, tuple(_step("filter", "does not help", source) for source in dropped))

    async def _judge(self, thoughts: str, source: Source) -> bool:
        messages = prompts.judge(self.question, thoughts, source, self.code)
        if self._room(messages) < 0:
            return True  # it cannot be read as a whole, and half of it decides nothing
        reply = await self._ask(messages, prompts.RELEVANT)
        return verdict(reply.text)

    # -- the last call

    async def _finish(
        self, messages: Sequence[Message], sources: Sequence[Source], notes: Notes, steps: Sequence[Step]
    ) -> Answer:
        citable = [*sources, *notes.sources]
        reply = await self._last(messages, [source.number for source in citable])
        cited = cite(reply.text.strip(), citable, self.document)
        if not cited.text:
            raise ModelError(
                f"{self.chat.spec} answered with nothing",
                "a model that thinks first may need more tokens: raise --max-tokens",
            )
        found = not cited.text.startswith(prompts.NOT_FOUND.rstrip("."))
        return Answer(
            question=self.question,
            text=cited.text if found else prompts.NOT_FOUND,
            citations=cited.citations if found else (),
            context=self.context,
            usage=reduce(add, self.usages),
            found=found,
            mode=self.name,
            complete=reply.complete,
            removed_marks=cited.removed,
            unsupported=notes.unsupported,
            trace=tuple(steps),
        )

    async def _last(self, messages: Sequence[Message], marks: Sequence[int]) -> Reply:
        if self.show is None:
            return await self._ask(messages)
        shown = MarkFilter(frozenset(marks), self.show)
        reply = Reply("", Usage())
        async for piece in self.chat.stream(messages, max_tokens=self._limit()):
            if isinstance(piece, Reply):
                reply = piece
            else:
                shown.add(piece)
        shown.end()
        self.usages.append(reply.usage)
        return reply

    async def _ask(self, messages: Sequence[Message], schema: dict[str, object] | None = None) -> Reply:
        reply = await self.chat.complete(messages, max_tokens=self._limit(), schema=schema)
        self.usages.append(reply.usage)
        return reply

    # -- what fits

    def _window(self) -> int:
        return int(self.chat.window * (1 - _MARGIN))

    def _limit(self) -> int:
        """What is written takes a quarter of a small window at most."""
        return max(1, min(self.max_tokens, self._window() // 4))

    def _room(self, messages: Sequence[Message]) -> int:
        """Tokens that are left beside these messages and the answer to them."""
        used = sum(self.count([message.text for message in messages]))
        return self._window() - self._limit() - used

    def _measure(self, sources: Sequence[Source]) -> list[int]:
        return self.count([prompts.shown(source, self.code) + "\n\n" for source in sources]) if sources else []


def verdict(answer: str) -> bool:
    """Whether a judgement says that the passage helps. A judgement that cannot be read takes no passage away."""
    value = json_in(answer)
    if value is None:
        word = re.search(r"\b(true|yes|false|no)\b", answer, re.IGNORECASE)
        value = word[1] if word else True
    relevant = value.get("relevant") if isinstance(value, dict) else value
    if isinstance(relevant, str):
        return relevant.strip().lower() not in ("false", "no", "0")
    return relevant is None or relevant != 0


def _left_out(sources: Sequence[Source], kept: Sequence[Source]) -> list[Step]:
    return [_step("leave out", "no room in the model's window", source) for source in sources if source not in kept]


def _step(action: str, reason: str, source: Source) -> Step:
    return Step(action, reason, tuple(span for span, _ in source.parts), score=source.score)
