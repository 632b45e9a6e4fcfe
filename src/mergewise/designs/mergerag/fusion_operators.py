"""The fusion operators M(ci, cj; q) of MergeRAG: what a pair of chunks becomes.

- `Extractive` needs no model: the sentences above the floor of Eq. 1, without those that say nothing new.
- `point` shows a model the pair as numbered sentences, and the model returns the numbers to keep.
- `copy` lets a model repeat what it keeps word for word, as in the paper, and checks each sentence of it against the pair.

Whatever a model answers, a chunk consists of sentences of the two it was made of. Where it fails, `Extractive` decides.
Symmetric fusion puts sentences in the order of their documents. Asymmetric fusion keeps the host's flow: what the source adds
stands where the document has it if the host has sentences of the same section, else after the host.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from mergewise.assemble.pointing import Unusable, ask
from mergewise.concurrency import run, together
from mergewise.designs.mergerag import fusion_prompts as prompts
from mergewise.designs.mergerag.merging import Pair
from mergewise.designs.mergerag.pieces import ChunkSentence, Content
from mergewise.errors import MergewiseError
from mergewise.protocols import ChatModel
from mergewise.types import Usage

SAME = 0.8  # a sentence says nothing new where one that is kept holds this share of its terms


@dataclass(frozen=True, slots=True)
class Fusion:
    """What an operator kept of a pair. `unsupported` counts sentences of a model that stand in neither chunk."""

    kept: Content
    how: str
    usage: Usage = field(default_factory=Usage)
    unsupported: int = 0
    problem: str = ""


class Operator(Protocol):
    def __call__(self, pairs: Sequence[Pair[Content]]) -> list[Fusion]:
        """Fuses each pair by itself; pairs that are given together may run at the same time."""
        ...


@dataclass(frozen=True, slots=True)
class Extractive:
    """Sentences by relevance, novelty and coverage. `floor` gives the least relevance at a depth of the tree."""

    relevance: dict[ChunkSentence, float]
    floor: Callable[[int], float]
    directional: bool

    def __call__(self, pairs: Sequence[Pair[Content]]) -> list[Fusion]:
        return [self.fuse(pair) for pair in pairs]

    def fuse(self, pair: Pair[Content]) -> Fusion:
        """Of two sentences that say the same, the host's stays if the merge has a direction, else the more relevant one."""
        floor = self.floor(1 + max(pair.source.depth, pair.host.depth))
        ranked = sorted([*pair.host.content, *pair.source.content], key=lambda s: -self.relevance[s])
        if self.directional:
            host = set(pair.host.content)
            ranked.sort(key=lambda s: s not in host)
        kept: list[ChunkSentence] = []
        for sentence in ranked:
            if self.relevance[sentence] >= floor and _says_something_new(sentence, kept):
                kept.append(sentence)
        return Fusion(in_reading_order(kept, pair, self.directional), "extractive")


def _says_something_new(sentence: ChunkSentence, kept: Sequence[ChunkSentence]) -> bool:
    needed = SAME * len(sentence.terms)
    return not any(
        other is sentence or (sentence.terms and len(sentence.terms & other.terms) >= needed) for other in kept
    )


def in_reading_order(kept: Sequence[ChunkSentence], pair: Pair[Content], directional: bool) -> Content:
    """The sentences that were kept, in reading order, each once."""
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


Ask: TypeAlias = Callable[[str, ChatModel, Pair[Content], bool], Coroutine[Any, Any, Fusion]]
"""One pair, put to a model: the question, the model, the pair, and whether the merge has a direction."""


@dataclass(frozen=True, slots=True)
class Modelled:
    """A model decides about all pairs at the same time, and `fallback` about those where it fails."""

    ask: Ask
    question: str
    chat: ChatModel
    fallback: Extractive

    def __call__(self, pairs: Sequence[Pair[Content]]) -> list[Fusion]:
        return run(together(*map(self._safely, pairs)))

    async def _safely(self, pair: Pair[Content]) -> Fusion:
        """The fusion of a pair, by the fallback where the model fails. No model is asked about an empty chunk."""
        if not pair.host.content or not pair.source.content:
            return Fusion(pair.host.content or pair.source.content, "empty")
        try:
            return await self.ask(self.question, self.chat, pair, self.fallback.directional)
        except Unusable as error:
            fusion = self.fallback.fuse(pair)
            return replace(fusion, usage=error.usage, unsupported=error.unsupported, problem=error.message)
        except MergewiseError as error:
            return replace(self.fallback.fuse(pair), problem=error.message)


async def point(question: str, chat: ChatModel, pair: Pair[Content], directional: bool) -> Fusion:
    """The model answers with numbers: some tens of tokens, and nothing can be invented. A wrong answer may be repaired once."""
    sentences = [*pair.host.content, *pair.source.content]
    messages = prompts.point(question, pair, directional=directional)
    numbers, usage = await ask(chat, messages, prompts.point_form(len(sentences)))
    return Fusion(in_reading_order([sentences[n - 1] for n in numbers], pair, directional), "point", usage)


async def copy(question: str, chat: ChatModel, pair: Pair[Content], directional: bool) -> Fusion:
    """The model answers with verbatim text, as in the paper. Only sentences that stand in the pair are kept."""
    sentences = [*pair.host.content, *pair.source.content]
    messages = prompts.copy(question, pair, directional=directional)
    reply = await chat.complete(messages, max_tokens=prompts.copy_tokens(sentences))
    numbers, unsupported = prompts.repeated_sentences(reply.text, sentences)
    if not numbers and (unsupported or not reply.text.strip()):
        raise Unusable("nothing of the answer stands in the chunks", reply.usage, unsupported)
    return Fusion(
        in_reading_order([sentences[i] for i in numbers], pair, directional), "copy", reply.usage, unsupported
    )


ASK: dict[str, Ask] = {"copy": copy, "point": point}
