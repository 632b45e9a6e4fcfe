"""Algorithms 1 to 4 against literal, slow transcriptions of the paper's pseudo-code."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mergewise.designs.mergerag.merging import (
    Fused,
    MergeChunk,
    MergeResult,
    Pair,
    Pairing,
    Schedule,
    asymmetric,
    merge,
    symmetric,
)
from tests.conftest import examples

T = TypeVar("T")
Set = frozenset[int]  # the content of a test's chunk: which of the first chunks are in it
ReplyForm = tuple[str, Schedule]
FORMS: list[ReplyForm] = [(kind, schedule) for kind in ("sym", "asym") for schedule in ("sequential", "hierarchical")]


class World:
    """The random parts of a case, as pure functions of a chunk's content: scores, lengths, NLL and the results of fusions.

    There are few distinct values, so that ties are frequent.
    """

    def __init__(self, seed: int, n: int, levels: int) -> None:
        self.seed, self.n, self.levels = seed, n, levels

    def _random(self, *parts: object) -> int:
        return int(np.random.default_rng(abs(hash((self.seed, *parts)))).integers(0, self.levels))

    def score(self, content: Set) -> float:
        return self._random("score", content) / self.levels

    def length(self, content: Set) -> int:
        return (
            1 + self._random("length", content) if len(content) == 1 else self._random("length", content) * len(content)
        )

    def nll(self, source: Set, anchor: Set) -> float:
        return float(self._random("nll", source, anchor))

    def chunks(self) -> list[MergeChunk]:
        sets = [frozenset([i]) for i in range(self.n)]
        return [MergeChunk(i, self.score(s), self.length(s), s) for i, s in enumerate(sets)]

    def fuse(self, pairs: Sequence[Pair]) -> list[Fused]:
        contents = [pair.source.content | pair.host.content for pair in pairs]
        return [Fused(self.score(c), self.length(c), c) for c in contents]

    def merged(self, form: ReplyForm, budget: int, at_once: int = 8, guard: bool = False) -> MergeResult:
        kind, schedule = form
        pairing: Pairing = symmetric
        if kind == "asym":
            pairing = asymmetric(lambda source, anchors: [self.nll(source.content, a.content) for a in anchors])
        return merge(self.chunks(), budget, pairing, self.fuse, schedule, at_once, guard)


def argmin(items: list[T], key: Callable[[T], float]) -> T:
    best = items[0]
    for item in items:
        if key(item) < key(best):
            best = item
    return best


def algorithm_1_and_3(world: World, budget: int, batched: bool) -> list[Set]:
    """Run the algorithm literally: argmin over all pairs of R, remove the pair from R, append the fused chunk."""
    c = [frozenset([i]) for i in range(world.n)]
    while sum(world.length(x) for x in c) > budget and len(c) > 1:
        r, p = list(c), []
        for _ in range(len(c) // 2 if batched else 1):
            order = sorted(r, key=lambda x: (world.score(x), c.index(x)))
            pairs = [(x, y) for x, y in combinations(order, 2)]
            x, y = argmin(pairs, lambda pair: world.score(pair[0]) + world.score(pair[1]))
            p.append((x, y))
            r = [z for z in r if z not in (x, y)]
        c = r + [x | y for x, y in p]
    return c


def algorithm_2_and_4(world: World, budget: int, batched: bool) -> list[Set]:
    c = [frozenset([i]) for i in range(world.n)]
    while sum(world.length(x) for x in c) > budget and len(c) > 1:
        r, p = list(c), []
        for _ in range(len(c) // 2 if batched else 1):
            ci = argmin(r, world.score)
            cj = argmin([z for z in r if z != ci], partial(world.nll, ci))
            p.append((ci, cj))
            r = [z for z in r if z not in (ci, cj)]
        c = r + [x | y for x, y in p]
    return c


@settings(max_examples=examples(300))
@given(st.integers(0, 10**6), st.integers(0, 13), st.sampled_from([2, 5, 1000]), st.integers(0, 60), st.integers(1, 9))
@pytest.mark.parametrize("form", FORMS)
def test_the_algorithms_match_the_paper(
    form: ReplyForm, seed: int, n: int, levels: int, budget: int, at_once: int
) -> None:
    world = World(seed, n, levels)
    literal = algorithm_1_and_3 if form[0] == "sym" else algorithm_2_and_4
    wanted = literal(world, budget, form[1] == "hierarchical")
    assert [chunk.content for chunk in world.merged(form, budget, at_once).chunks] == wanted


@settings(max_examples=examples(200))
@given(
    st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([2, 1000]), st.integers(0, 9000), st.integers(1, 9),
    st.booleans(),
)  # fmt: skip
@pytest.mark.parametrize("form", FORMS)
def test_rounds_depth_and_calls_keep_the_bounds_of_section_3_4(
    form: ReplyForm, seed: int, n: int, levels: int, budget: int, at_once: int, guard: bool
) -> None:
    found = World(seed, n, levels).merged(form, budget, at_once, guard)
    m = len(found.chunks)
    taken = [x for x in found.merges if x.taken]
    assert len(taken) == n - m and len(found.merges) - len(taken) <= (at_once - 1 if guard else 0)
    depth = max(chunk.depth for chunk in found.chunks)
    assert depth <= found.rounds
    heights = dict.fromkeys(range(n), 0)
    for x in found.merges:
        heights[x.result.number] = 1 + max(heights[x.pair.source.number], heights[x.pair.host.number])
    assert {x.result.number: x.result.depth for x in found.merges}.items() <= heights.items()
    if form[1] == "sequential":
        assert found.rounds == found.batches == n - m
    else:
        assert found.rounds == math.ceil(math.log2(n / m))
        assert found.batches <= n / at_once + found.rounds
        if n <= 2 * at_once:
            assert found.batches == found.rounds
    # Nothing is lost or doubled.
    assert sorted(i for chunk in found.chunks for i in chunk.content) == list(range(n))
    assert m == 1 or sum(chunk.length for chunk in found.chunks) <= budget


@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(0, 9000), st.integers(1, 9))
@pytest.mark.parametrize("form", FORMS)
def test_the_guard_takes_no_more_pairs_than_the_budget_needs(
    form: ReplyForm, seed: int, n: int, budget: int, at_once: int
) -> None:
    world = World(seed, n, 1000)
    guarded, plain = world.merged(form, budget, at_once, True), world.merged(form, budget, at_once, False)
    assert [c.content for c in guarded.chunks] == [c.content for c in world.merged(form, budget, 1, True).chunks]
    total = sum(chunk.length for chunk in world.chunks())
    for step in guarded.merges:
        assert step.taken == (total > budget)
        if step.taken:
            total += step.result.length - step.pair.source.length - step.pair.host.length
    firsts = [x.result.content for x in guarded.merges if x.round < guarded.rounds]
    assert firsts == [x.result.content for x in plain.merges if x.round < guarded.rounds]


def test_rows_are_requested_for_sources_and_free_anchors_only() -> None:
    asked: list[tuple[int, list[int]]] = []

    def rows(source: MergeChunk, anchors: Sequence[MergeChunk]) -> list[float]:
        asked.append((source.number, [anchor.number for anchor in anchors]))
        return [float(anchor.number) for anchor in anchors]

    chunks = [MergeChunk(i, i / 10, 10, frozenset([i])) for i in range(6)]
    merge(chunks, 30, asymmetric(rows), lambda pairs: [Fused(0.0, 10, frozenset()) for _ in pairs])
    assert asked == [(0, [1, 2, 3, 4, 5]), (2, [3, 4, 5]), (4, [5])]
