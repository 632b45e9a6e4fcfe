"""Algorithms 1 to 4 of MergeRAG (Guo et al., sections 3.2 to 3.4 and appendix A): merge chunks until all fit the budget.

This module is independent of text and models. Chunks have scores and lengths, one callable returns rows of the NLL matrix, and
another fuses.

Points that the paper leaves open:
- Of equal chunks the one that arrived earlier comes first. A fused chunk arrives after all chunks before it.
- In a symmetric pair the better chunk is called the host. A symmetric operator ignores the difference.
- The last round of a hierarchy may merge more pairs than the budget needs. With `guard`, pairs are fused weakest first,
  `at_once` at a time, and taken only while the sum of lengths exceeds the budget. Surplus fusions are discarded, so that the
  result does not depend on `at_once`. Without it, the rounds are exactly the paper's.

The bounds of section 3.4, with N chunks before and M after. The hierarchy's rounds, and so the depth of its tree, are exactly
ceil(log2(N / M)), in both forms. Its batches are at most N / B + ceil(log2(N / M)): the paper's sum, taken over the actual
rounds (as printed, it has no term for a single round). Fusions are N - M, and the guard may add B - 1. A fusion is one call of
a model. It is no call if a chunk is empty, and two if the answer needs a repair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

Schedule: TypeAlias = Literal["hierarchical", "sequential"]


class MergeChunk(NamedTuple):
    """A chunk as the algorithms see it: S(c; q), l(c) in tokens, and `content` for the fusion operator alone.

    `number` is the order of arrival. `depth` is the number of merges between the retrieved chunks and this one.
    """

    number: int
    score: float
    length: int
    content: Any
    depth: int = 0


class Pair(NamedTuple):
    """A pair to fuse: the weaker `source` into the `host`. `nll` is set if it chose the host."""

    source: MergeChunk
    host: MergeChunk
    nll: float | None = None


class Fused(NamedTuple):
    """The result of fusing a pair, with its score and length recomputed."""

    score: float
    length: int
    content: Any


class Merge(NamedTuple):
    """One fusion of a pair and the resulting chunk. `number` counts fusions from 0, `round` counts rounds from 1.

    `taken` is false if the guard discarded it.
    """

    number: int
    round: int
    pair: Pair
    result: MergeChunk
    taken: bool = True


class MergeResult(NamedTuple):
    """The remaining chunks and the merges that led to them. `batches` is the paper's number of sequential inference steps."""

    chunks: tuple[MergeChunk, ...]
    merges: tuple[Merge, ...]
    rounds: int
    batches: int


Pairing: TypeAlias = Callable[[Sequence[MergeChunk], int], Iterator[Pair]]
"""A function that yields up to this many disjoint pairs of the chunks, weakest first and lazily."""

Fuse: TypeAlias = Callable[[Sequence[Pair]], Sequence[Fused]]
"""The fusion operator M(ci, cj; q), for pairs that may be fused at the same time."""

Rows: TypeAlias = Callable[[MergeChunk, Sequence[MergeChunk]], Sequence[float]]
"""A function that returns one row of the NLL matrix: the source given each of the anchors."""


def merge(
    chunks: Sequence[MergeChunk],
    budget: int,
    pairing: Pairing,
    fuse: Fuse,
    schedule: Schedule = "hierarchical",
    at_once: int = 8,
    guard: bool = True,
) -> MergeResult:
    """Merge until the sum of l(c) is at most L, the budget: Algorithms 1 and 2 (sequential), 3 and 4 (hierarchical)."""
    current, merges, rounds, batches = list(chunks), list[Merge](), 0, 0
    numbers = iter(range(max((c.number for c in current), default=0) + 1, 2**62))
    total = sum(chunk.length for chunk in current)
    while total > budget and len(current) > 1:
        rounds += 1
        remaining, fresh = {chunk.number: chunk for chunk in current}, []
        pairs = pairing(current, len(current) // 2 if schedule == "hierarchical" else 1)
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
        current = [*remaining.values(), *fresh]
    return MergeResult(tuple(current), tuple(merges), rounds, batches)


def symmetric(chunks: Sequence[MergeChunk], count: int) -> Iterator[Pair]:
    """Yield the pairs of least S(ci; q) + S(cj; q): the two weakest, then the next two, and so on (section 3.2)."""
    ranked = sorted(chunks, key=_weakest)
    for weaker, stronger in islice(zip(ranked[::2], ranked[1::2], strict=False), count):
        yield Pair(weaker, stronger)


def asymmetric(nll: Rows) -> Pairing:
    """Pair the weakest chunk with the anchor of least L_NLL(ci | cj), one pair after another (section 3.3).

    A row is requested only when its pair is, and only for the anchors that are still free.
    """

    def pairs(chunks: Sequence[MergeChunk], count: int) -> Iterator[Pair]:
        remaining = sorted(chunks, key=_weakest)
        for _ in range(count):
            source, *anchors = remaining
            values = nll(source, anchors)
            best = min(range(len(anchors)), key=lambda j: (values[j], anchors[j].number))
            yield Pair(source, anchors[best], float(values[best]))
            remaining = anchors[:best] + anchors[best + 1 :]

    return pairs


def _weakest(chunk: MergeChunk) -> tuple[float, int]:
    return chunk.score, chunk.number
