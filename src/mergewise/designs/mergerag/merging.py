"""Algorithms 1 to 4 of MergeRAG (Guo et al., sections 3.2 to 3.4 and appendix A): which chunks merge, until all fit the budget.

Nothing here knows of text or models: chunks have scores and lengths; one callable gives rows of the NLL matrix, another fuses.

What the paper leaves open, and how it is settled:
- of equal chunks the one that arrived earlier comes first; a fused chunk arrives after all chunks before it;
- of a symmetric pair the better chunk is called the host; an operator that treats both alike does not care;
- the last round of a hierarchy may merge more pairs than the budget needs. With `guard`, pairs are fused weakest first,
  `at_once` at a time, and taken only while the sum of lengths is over the budget: what was fused beyond that is
  discarded, so that the outcome does not depend on `at_once`. Without it, the rounds are exactly the paper's.

The bounds of section 3.4, with N chunks before and M after. The hierarchy's rounds, and so the depth of its tree, are
exactly ceil(log2(N / M)), in both forms. Its batches are at most N / B + ceil(log2(N / M)): the paper's sum, read as going
over the rounds that happen (as printed, it would have no term for a single round). Fusions are N - M; the guard may add B - 1.
A fusion is one call of a model, none where a chunk is empty, and two where the answer has to be asked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, Literal, TypeAlias, TypeVar

T = TypeVar("T")

Schedule: TypeAlias = Literal["hierarchical", "sequential"]


@dataclass(frozen=True, slots=True)
class MergeChunk(Generic[T]):
    """A chunk as the algorithms see it: S(c; q), l(c) in tokens, and `content` for the fusion operator alone.

    `number` is the order of arrival, `depth` how many merges lie between the chunk and what was retrieved."""

    number: int
    score: float
    length: int
    content: T
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Pair(Generic[T]):
    """What is fused: the weaker `source` into the `host`; `nll` where that chose the host."""

    source: MergeChunk[T]
    host: MergeChunk[T]
    nll: float | None = None


@dataclass(frozen=True, slots=True)
class Fused(Generic[T]):
    """What a fusion operator makes of a pair, with its score and length recomputed."""

    score: float
    length: int
    content: T


@dataclass(frozen=True, slots=True)
class Merge(Generic[T]):
    """One fusion of a pair, and the chunk that came of it. `number` counts fusions from 0, `round` counts rounds from 1.

    `taken` is False where the guard discarded it.
    """

    number: int
    round: int
    pair: Pair[T]
    result: MergeChunk[T]
    taken: bool = True


@dataclass(frozen=True, slots=True)
class MergeResult(Generic[T]):
    """The chunks that are left, and the merges that led to them. `batches`: the paper's number of sequential inference steps."""

    chunks: tuple[MergeChunk[T], ...]
    merges: tuple[Merge[T], ...]
    rounds: int
    batches: int


Pairing: TypeAlias = Callable[[Sequence[MergeChunk[T]], int], Iterator[Pair[T]]]
"""At most this many disjoint pairs of the chunks, weakest first. A pair is worked out only when it is asked for."""

Fuse: TypeAlias = Callable[[Sequence[Pair[T]]], Sequence[Fused[T]]]
"""The fusion operator M(ci, cj; q), for pairs that may be fused at the same time."""

Rows: TypeAlias = Callable[[MergeChunk[T], Sequence[MergeChunk[T]]], Sequence[float]]
"""One row of the NLL matrix: of the source given each of the anchors."""


def merge(
    chunks: Sequence[MergeChunk[T]],
    budget: int,
    pairing: Pairing[T],
    fuse: Fuse[T],
    schedule: Schedule = "hierarchical",
    at_once: int = 8,
    guard: bool = True,
) -> MergeResult[T]:
    """Algorithms 1 and 2 (sequential), 3 and 4 (hierarchical): merge until the sum of l(c) is at most L, the budget."""
    standing, merges, rounds, batches = list(chunks), list[Merge[T]](), 0, 0
    numbers = iter(range(max((c.number for c in standing), default=0) + 1, 2**62))
    total = sum(chunk.length for chunk in standing)
    while total > budget and len(standing) > 1:
        rounds += 1
        remaining, fresh = {chunk.number: chunk for chunk in standing}, []
        pairs = pairing(standing, len(standing) // 2 if schedule == "hierarchical" else 1)
        while not (guard and total <= budget) and (batch := list(islice(pairs, max(1, at_once)))):
            batches += 1
            for pair, fused in zip(batch, fuse(batch), strict=True):
                taken = not (guard and total <= budget)
                depth = 1 + max(pair.source.depth, pair.host.depth)
                result = MergeChunk(next(numbers), fused.score, fused.length, fused.content, depth)
                merges.append(Merge(len(merges), rounds, pair, result, taken))
                if taken:
                    del remaining[pair.source.number], remaining[pair.host.number]
                    fresh.append(result)
                    total += result.length - pair.source.length - pair.host.length
        standing = [*remaining.values(), *fresh]
    return MergeResult(tuple(standing), tuple(merges), rounds, batches)


def symmetric(chunks: Sequence[MergeChunk[T]], count: int) -> Iterator[Pair[T]]:
    """The pairs of least S(ci; q) + S(cj; q), one after another: the two weakest, the next two ... (section 3.2)."""
    ranked = sorted(chunks, key=_weakest)
    for weaker, stronger in islice(zip(ranked[::2], ranked[1::2], strict=False), count):
        yield Pair(weaker, stronger)


def asymmetric(nll: Rows[T]) -> Pairing[T]:
    """The weakest chunk and, of the other chunks, the anchor of least L_NLL(ci | cj), one pair after another (section 3.3).

    A row is asked for only when its pair is, and only for the anchors that no pair has taken yet."""

    def pairs(chunks: Sequence[MergeChunk[T]], count: int) -> Iterator[Pair[T]]:
        remaining = sorted(chunks, key=_weakest)
        for _ in range(count):
            source, *anchors = remaining
            values = nll(source, anchors)
            best = min(range(len(anchors)), key=lambda j: (values[j], anchors[j].number))
            yield Pair(source, anchors[best], float(values[best]))
            remaining = anchors[:best] + anchors[best + 1 :]

    return pairs


def _weakest(chunk: MergeChunk[T]) -> tuple[float, int]:
    return chunk.score, chunk.number
