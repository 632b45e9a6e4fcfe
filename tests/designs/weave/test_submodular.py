"""The objective against its literal form, its two properties, and greedy selection against every possible one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mergewise.designs.weave.submodular import GrowingSelection, Objective, maximise
from tests.conftest import examples

SHARES = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])


@st.composite
def objectives(draw: st.DrawFn) -> Objective:
    count, aspects = draw(st.integers(1, 7)), draw(st.integers(0, 4))
    similarity = np.array([[draw(SHARES) for _ in range(count)] for _ in range(count)], np.float32)
    np.fill_diagonal(similarity, 1)
    covers = np.array([[draw(SHARES) for _ in range(count)] for _ in range(aspects)], np.float32)
    return Objective(
        worth=np.array([draw(st.floats(0, 3, width=32)) for _ in range(count)], np.float32),
        similarity=similarity,
        aspects=covers.reshape(aspects, count),
        weights=np.array([draw(st.floats(0, 3, width=32)) for _ in range(aspects)], np.float32),
    )


def literal(o: Objective, chosen: Iterable[int]) -> float:
    chosen = list(chosen)
    if not chosen:
        return 0.0
    said = sum(float(r) * max(float(o.similarity[k][j]) for j in chosen) for k, r in enumerate(o.worth))
    covered = sum(
        float(w) * (1 - math.prod(1 - float(o.aspects[a][j]) for j in chosen)) for a, w in enumerate(o.weights)
    )
    return said + covered


def subsets(count: int) -> list[tuple[int, ...]]:
    return [chosen for size in range(count + 1) for chosen in combinations(range(count), size)]


@given(objectives())
def test_the_value_is_the_formula(objective: Objective) -> None:
    for chosen in subsets(len(objective.worth)):
        state = GrowingSelection(objective)
        for candidate in chosen:
            state.take((candidate,))
        assert state.value == pytest.approx(literal(objective, chosen), rel=1e-4, abs=1e-4)
    singles = objective.singles()
    for i in range(len(objective.worth)):
        assert float(singles[i]) == pytest.approx(literal(objective, [i]), rel=1e-4, abs=1e-4)


@settings(max_examples=examples(40))
@given(objectives())
def test_it_is_monotone_and_submodular(objective: Objective) -> None:
    everything = range(len(objective.worth))
    for small in subsets(len(everything)):
        for extra in everything:
            gain = literal(objective, {*small, extra}) - literal(objective, small)
            assert gain >= -1e-9
            for further in everything:
                larger = {*small, further}
                assert literal(objective, {*larger, extra}) - literal(objective, larger) <= gain + 1e-6


@given(objectives(), st.data())
def test_greedy_holds_the_budget_and_its_bound(objective: Objective, data: st.DataObject) -> None:
    count = len(objective.worth)
    costs = [data.draw(st.integers(1, 6)) for _ in range(count)]
    budget = data.draw(st.integers(1, 15))

    def cost(new: Sequence[int], taken: frozenset[int]) -> int:
        return sum(costs[i] for i in new)

    found = maximise(objective, [(i,) for i in range(count)], cost, budget)
    assert len(set(found.order)) == len(found.order) and cost(found.order, frozenset()) <= budget
    assert found.value == pytest.approx(literal(objective, found.order), rel=1e-3, abs=1e-3)
    best = max(literal(objective, chosen) for chosen in subsets(count) if cost(chosen, frozenset()) <= budget)
    assert found.value >= (1 - 1 / math.e) / 2 * best - 1e-4


@settings(max_examples=examples(40))
@given(objectives(), st.integers(1, 15))
def test_laziness_changes_nothing(objective: Objective, budget: int) -> None:
    count = len(objective.worth)
    costs = [1 + i % 4 for i in range(count)]
    found = maximise(objective, [(i,) for i in range(count)], lambda new, _: sum(costs[i] for i in new), budget)
    state, left, gains = GrowingSelection(objective), budget, []
    rest = set(range(count))
    while True:
        ratios = {i: state.gain((i,)) / costs[i] for i in rest if costs[i] <= left}
        ratios = {i: ratio for i, ratio in ratios.items() if ratio > 1e-6}
        if not ratios:
            break
        best = max(ratios, key=ratios.__getitem__)
        state.take((best,))
        left -= costs[best]
        rest.remove(best)
        gains.append(ratios[best])
    assert found.value == pytest.approx(max(state.value, found.value), rel=1e-3, abs=1e-3)
    if len(found.order) > 1:
        assert list(found.gains)[: len(gains)] == pytest.approx(gains, rel=1e-3, abs=1e-3)


def plain(worth: Sequence[float]) -> Objective:
    count = len(worth)
    return Objective(
        np.array(worth, np.float32), np.eye(count, dtype=np.float32), np.zeros((0, count), np.float32), np.zeros(0, np.float32)
    )  # fmt: skip


def test_a_repetition_gains_nothing_and_stays_out() -> None:
    same = Objective(
        np.ones(2, np.float32), np.ones((2, 2), np.float32), np.zeros((0, 2), np.float32), np.zeros(0, np.float32)
    )
    assert maximise(same, [(0,), (1,)], lambda new, _: len(new), 10).order == (0,)


def test_the_best_single_bundle_can_beat_several_small_ones() -> None:
    found = maximise(plain([1.1, 10.0]), [(0,), (1,)], lambda new, _: sum((1, 10)[i] for i in new), 10)
    assert found.order == (1,)


def test_a_cheaper_bundle_is_evaluated_again() -> None:
    """Candidates 0 and 1 share a heading of 5 tokens. Once 0 is taken, 1 costs 1 and precedes 2."""

    def cost(new: Sequence[int], taken: frozenset[int]) -> int:
        heading = 5 if {0, 1} & set(new) and not {0, 1} & taken else 0
        return heading + sum((1, 1, 3)[i] for i in new)

    found = maximise(plain([9.0, 2.0, 3.0]), [(0,), (1,), (2,)], cost, 100, lambda new, taken: {0, 1} - taken)
    assert found.order == (0, 1, 2)


def test_gains_are_divided_by_another_cost_than_the_budget_is_spent_on() -> None:
    """Candidate 1 is small for the budget, but counts as large."""
    whole = lambda new, _: sum((2, 8)[i] for i in new)  # noqa: E731
    both = maximise(plain([3.0, 4.0]), [(0,), (1,)], lambda new, _: len(new), 2, divisor=whole)
    assert both.order == (0, 1) and both.gains == (1.5, 0.5)


def test_a_bundle_comes_whole_and_at_its_price() -> None:
    cost = lambda new, taken: 4 * len(new)  # noqa: E731
    assert maximise(plain([0.1, 5.0]), [(0,), (0, 1)], cost, 8).order == (0, 1)
    assert maximise(plain([0.1, 5.0]), [(0,), (0, 1)], cost, 7).order == (0,)


def test_each_step_has_its_gain_candidates_and_tokens() -> None:
    cost = lambda new, taken: 2 * len(new)  # noqa: E731
    found = maximise(plain([1.0, 8.0, 4.0]), [(0,), (1,), (0, 2)], cost, 10)
    assert found.order == (1, 0, 2) and found.sizes == (1, 3) and found.costs == (2, 6)
    assert found.gains == pytest.approx((4.0, 1.25))
    first = maximise(plain([1.0, 8.0]), [(0,), (1,)], cost, 10, first=[0])
    assert (first.order, first.sizes, first.costs) == ((0, 1), (1, 2), (2, 4))
    nothing = maximise(plain([1.0]), [(0,)], cost, 1)
    assert nothing.order == nothing.gains == nothing.sizes == nothing.costs == ()
