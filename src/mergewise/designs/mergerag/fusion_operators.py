"""The fusion operators M(ci, cj; q) of MergeRAG, which fuse a pair of chunks into one.

- `Extractive` needs no model: it keeps the sentences above the floor of Eq. 1 and drops near-duplicates.
- `point` shows a model the pair as numbered sentences, and the model returns the numbers to keep.
- `copy` lets a model repeat the sentences to keep word for word, as in the paper, and checks each against the pair.

A fused chunk always consists of sentences of its two inputs. If the model fails, `Extractive` decides. Symmetric fusion sorts
sentences in the order of their documents. Asymmetric fusion keeps the host's order: a sentence of the source goes to its
position in the document if the host has sentences of the same section, else after the host.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, TypeAlias

from mergewise.assemble.pointing import TRIES, ReplyForm, Unusable, ask, number_tokens
from mergewise.concurrency import run, together
from mergewise.designs.mergerag import fusion_prompts as prompts
from mergewise.designs.mergerag.merging import Pair
from mergewise.designs.mergerag.pieces import ChunkSentence, Content
from mergewise.errors import MergewiseError
from mergewise.models.record import Models, chat_of
from mergewise.types import Message, Usage, frozen

# Share of a sentence's terms in a kept sentence from which it is a near-duplicate.
SAME = 0.8


@frozen
class Fusion:
    """The sentences that an operator kept of a pair. `unsupported` counts sentences of a model that are in neither chunk."""

    kept: Content
    how: str
    usage: Usage = field(default_factory=Usage)
    unsupported: int = 0
    problem: str = ""


Operator: TypeAlias = Callable[[Sequence[Pair]], list[Fusion]]
"""A function that fuses each pair by itself. Pairs of one call may be fused at the same time."""


@frozen
class Extractive:
    """Selection of sentences by relevance, novelty and coverage. `floor` returns the minimum relevance at a depth of the tree."""

    relevance: dict[ChunkSentence, float]
    floor: Callable[[int], float]
    directional: bool

    def __call__(self, pairs: Sequence[Pair]) -> list[Fusion]:
        return [self.fuse(pair) for pair in pairs]

    def fuse(self, pair: Pair) -> Fusion:
        """Fuse a pair. Of near-duplicates, the host's stays if the merge has a direction, else the more relevant one."""
        floor = self.floor(1 + max(pair.source.depth, pair.host.depth))
        ranked = sorted([*pair.host.content, *pair.source.content], key=lambda s: -self.relevance[s])
        if self.directional:
            host = set(pair.host.content)
            ranked.sort(key=lambda s: s not in host)
        kept: list[ChunkSentence] = []
        for sentence in ranked:
            terms = sentence.terms
            repeated = any(
                other is sentence or (terms and len(terms & other.terms) >= SAME * len(terms)) for other in kept
            )
            if self.relevance[sentence] >= floor and not repeated:
                kept.append(sentence)
        return Fusion(in_reading_order(kept, pair, self.directional), "extractive")


def in_reading_order(kept: Sequence[ChunkSentence], pair: Pair, directional: bool) -> Content:
    """Return the kept sentences in reading order, each once."""
    chosen = set(kept)
    host = [s for s in pair.host.content if s in chosen]
    rest = [s for s in pair.source.content if s in chosen and s not in set(host)]
    if directional:
        for sentence in rest:
            near = [i for i, s in enumerate(host) if s.section == sentence.section]
            before = [i for i in near if host[i].fragment.start < sentence.fragment.start]
            host.insert(before[-1] + 1 if before else near[0] if near else len(host), sentence)
        return tuple(host)
    documents = list(dict.fromkeys(s.fragment.doc_id for s in [*host, *rest]))
    return tuple(sorted([*host, *rest], key=lambda s: (documents.index(s.fragment.doc_id), s.fragment.start)))


Ask: TypeAlias = Callable[[str, Models, Pair, bool], Coroutine[Any, Any, Fusion]]
"""A call of a chat model for one pair: the question, the models, the pair, and whether the merge has a direction."""


@frozen
class Modelled:
    """Fusion by a model, for all pairs at the same time. `fallback` decides if the model fails."""

    ask: Ask
    question: str
    models: Models
    fallback: Extractive

    def __call__(self, pairs: Sequence[Pair]) -> list[Fusion]:
        return run(together(*map(self._safely, pairs)))

    async def _safely(self, pair: Pair) -> Fusion:
        """Fuse a pair, by the fallback if the model fails. An empty chunk needs no call."""
        if not pair.host.content or not pair.source.content:
            return Fusion(pair.host.content or pair.source.content, "empty")
        try:
            return await self.ask(self.question, self.models, pair, self.fallback.directional)
        except Unusable as error:
            fusion = self.fallback.fuse(pair)
            return replace(fusion, usage=error.usage, unsupported=error.unsupported, problem=error.message)
        except MergewiseError as error:
            return replace(self.fallback.fuse(pair), problem=error.message)


async def point(question: str, models: Models, pair: Pair, directional: bool) -> Fusion:
    """Fuse a pair by numbers, so that a model cannot invent text. A wrong answer may be repaired once."""
    sentences = [*pair.host.content, *pair.source.content]
    messages = prompts.point(question, pair, directional, models.prompts)
    count = len(sentences)
    shape, schema = f'{{"keep":"..."}}, numbers from 1 to {count}', prompts.POINT_SCHEMA
    form = ReplyForm(schema, shape, number_tokens(count), partial(prompts.numbers_in, count=count))
    numbers, usage = await ask(chat_of(models, "fusions"), messages, form)
    return Fusion(in_reading_order([sentences[n - 1] for n in numbers], pair, directional), "point", usage)


async def copy(question: str, models: Models, pair: Pair, directional: bool) -> Fusion:
    """Fuse a pair by verbatim text, as in the paper. Only sentences of the pair are kept."""
    sentences = [*pair.host.content, *pair.source.content]
    messages = prompts.copy(question, pair, directional, models.prompts)
    # enough for every sentence, even if the model's tokens are shorter than ours
    most = 64 + 2 * sum(sentence.tokens for sentence in sentences)
    asked, usage, unsupported = messages, Usage(), 0
    for _ in range(TRIES):
        try:
            reply = await chat_of(models, "fusions").complete(asked, max_tokens=most)
        except MergewiseError as error:
            raise Unusable(error.message, usage, unsupported) from error
        usage += reply.usage
        numbers, unsupported = prompts.repeated_sentences(reply.text, sentences)
        if numbers or (reply.text.strip() and not unsupported):
            kept = in_reading_order([sentences[i] for i in numbers], pair, directional)
            return Fusion(kept, "copy", usage, unsupported)
        said = [Message("assistant", reply.text)] if reply.text.strip() else []
        asked = [*messages, *said, Message("user", prompts.AGAIN)]
    raise Unusable("the answer repeats no sentence of the chunks", usage, unsupported)


ASK = {"copy": copy, "point": point}
