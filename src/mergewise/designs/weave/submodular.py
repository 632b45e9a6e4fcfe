"""Budgeted maximisation of a monotone submodular objective, weave's selection.

    F(S) = sum_k r_k max_{j in S} s_kj  +  sum_a w_a (1 - prod_{j in S} (1 - c_aj))

The first sum is facility location: every candidate k adds r_k to the extent that a selected one says the same (s_kj is 1 for k
= j, and otherwise above 0 for near-duplicates only). The second is coverage of aspects, which saturates: the second sentence
that covers an aspect gains less than the first. Both are monotone and submodular. So greedy selection by gain per token,
compared with the best single candidate, reaches (1 - 1/e) / 2 of the best value if costs add up (Leskovec et al. 2007, Lin and
Bilmes 2010).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from mergewise.protocols import FloatArray


class Objective(NamedTuple):
    """`worth` r, shape (n,); `similarity` s, (n, n); `aspects` c, (aspects, n); `weights` w, (aspects,)."""

    worth: FloatArray
    similarity: FloatArray
    aspects: FloatArray
    weights: FloatArray

    def singles(self) -> FloatArray:
        """Return F of each candidate alone, shape (n,)."""
        return self.worth @ self.similarity + self.weights @ self.aspects


@dataclass(slots=True)
class GrowingSelection:
    """A growing selection, with its coverage of the candidates and the uncovered part of each aspect."""

    objective: Objective
    value: float = 0.0
    covered: FloatArray = field(init=False)
    uncovered: FloatArray = field(init=False)
    # For each candidate: its similarity to all others, and the share of each aspect that it leaves uncovered.
    _says: FloatArray = field(init=False)
    _leaves: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self._says = np.ascontiguousarray(self.objective.similarity.T)
        self._leaves = np.ascontiguousarray(1 - self.objective.aspects.T)
        self.covered = np.zeros(len(self.objective.worth), np.float32)
        self.uncovered = np.ones(len(self.objective.weights), np.float32)

    def gain(self, candidates: Sequence[int]) -> float:
        """Return F(S + candidates) - F(S)."""
        return self._gain(*self._after(candidates))

    def take(self, candidates: Sequence[int]) -> None:
        covered, uncovered = self._after(candidates)
        self.value += self._gain(covered, uncovered)
        self.covered, self.uncovered = covered, uncovered

    def _gain(self, covered: FloatArray, uncovered: FloatArray) -> float:
        objective = self.objective
        return float(objective.worth.dot(covered - self.covered) + objective.weights.dot(self.uncovered - uncovered))

    def _after(self, candidates: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        covered, uncovered = self.covered, self.uncovered
        for candidate in candidates:
            covered = np.maximum(covered, self._says[candidate])
            uncovered = uncovered * self._leaves[candidate]
        return covered, uncovered


Cost = Callable[[Sequence[int], frozenset[int]], int]
"""A function that returns the tokens that these candidates add to a selection. A heading line already selected costs nothing.
"""


class Selection(NamedTuple):
    """The candidates in `order` of selection, and after each step: its gain per token, and the candidates and tokens so far."""

    order: tuple[int, ...]
    gains: tuple[float, ...]
    value: float
    sizes: tuple[int, ...]
    costs: tuple[int, ...]


def maximise(
    objective: Objective,
    bundles: Sequence[tuple[int, ...]],
    cost: Cost,
    budget: int,
    cheaper: Callable[[Sequence[int], frozenset[int]], Set[int]] = lambda new, taken: frozenset(),
    first: Sequence[int] = (),
    divisor: Cost | None = None,
) -> Selection:
    """Select by lazy greedy gain per token under the budget, or return the best single bundle if it is worth more.

    Bundle i holds candidate i and what must be selected with it. A gain can only fall as the selection grows, so a bundle is
    evaluated again only when it leads. `cheaper(new, taken)` returns the bundles whose cost may fall when `new` is selected.
    The bundles `first` are selected before all others, in their order and whatever they gain, as far as they fit. Gains are
    divided by `divisor` instead of the cost, if given.
    """
    divisor = divisor or cost
    state, left = GrowingSelection(objective), budget
    chosen: list[int] = []
    steps: list[tuple[float, int, int]] = []  # gain, candidates and tokens so far
    taken: frozenset[int] = frozenset()
    singles = objective.singles().tolist()
    values = [singles[b[0]] if len(b) == 1 else state.gain(b) for b in bundles]
    costs = [max(1, cost(bundle, taken)) for bundle in bundles]
    lowest = [max(1, divisor(bundle, taken)) for bundle in bundles]  # the last known divisor of each bundle
    ratios = [value / price for value, price in zip(values, lowest, strict=True)]
    best_single = max((i for i in range(len(bundles)) if costs[i] <= budget), key=values.__getitem__, default=None)
    for bundle in first:
        new = tuple(j for j in bundles[bundle] if j not in taken)
        if new and cost(new, taken) <= left:
            gain = _ratio(state, new, divisor, taken)
            left -= cost(new, taken)
            state.take(new)
            chosen += new
            steps.append((gain, len(chosen), budget - left))
            taken |= set(new)
    if chosen:
        best_single = None  # it would replace the bundles that must come first
        ratios = [_ratio(state, bundle, divisor, taken) for bundle in bundles]
    # the highest gain per token first, negative, with its bundle and the round when it was computed
    heap = [(-ratio, i, 0) for i, ratio in enumerate(ratios)]
    heapq.heapify(heap)
    rounds = 0
    while heap:
        negative, bundle, computed = heapq.heappop(heap)
        if bundle in taken:
            continue
        new = bundles[bundle]
        if not taken.isdisjoint(new):
            new = tuple(j for j in new if j not in taken)
        price = cost(new, taken)
        if price > left:
            continue
        if negative >= 0:
            break  # no bundle left adds anything
        if computed != rounds:
            heapq.heappush(heap, (-_ratio(state, new, divisor, taken), bundle, rounds))
            continue
        left -= price
        state.take(new)
        chosen += new
        steps.append((-negative, len(chosen), budget - left))
        before, taken = taken, taken.union(new)
        rounds += 1
        for i in cheaper(new, before) - taken:
            rest = [j for j in bundles[i] if j not in taken]
            price = divisor(rest, taken)
            if price < lowest[i]:  # otherwise its entry is still an upper bound
                lowest[i] = price
                heapq.heappush(heap, (-state.gain(rest) / max(1, price), i, rounds))
    if best_single is not None and state.value < values[best_single]:
        chosen, price = list(bundles[best_single]), costs[best_single]
        steps, state.value = [(values[best_single] / price, len(chosen), price)], values[best_single]
    gains, sizes, tokens = zip(*steps, strict=True) if steps else ((), (), ())
    return Selection(tuple(chosen), gains, state.value, sizes, tokens)


def _ratio(state: GrowingSelection, bundle: Sequence[int], cost: Cost, taken: frozenset[int]) -> float:
    new = [j for j in bundle if j not in taken]
    return state.gain(new) / max(1, cost(new, taken))
