"""Rank correlation and gain of the first candidate; the split and presets of a training."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.designs.aed.training.candidates import Example, TrainCandidate
from mergewise.designs.aed.training.distilling import divergence
from mergewise.designs.aed.training.judging import judge, ranks, spearman
from mergewise.designs.aed.training.labels import Label, LabelledQuestion
from mergewise.designs.aed.training.trainer import PRESETS, History, TrainSettings, pace, split_questions
from mergewise.errors import UsageError

VALUES = st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=12)


def question(*cppl: float, text: str = "Who?", alone: float = 3.0, name: str = "a") -> LabelledQuestion:
    units = tuple(Label(TrainCandidate("passages", "", (), f"text {i}", 0.5), value) for i, value in enumerate(cppl))
    return LabelledQuestion(Example(name, text, ("x",), name), units, alone)


@given(VALUES)
def test_equal_values_share_their_mean_rank(values: list[float]) -> None:
    expected = [
        sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2 for value in values
    ]
    np.testing.assert_allclose(ranks(np.array(values)), expected)


@given(st.permutations(range(9)))
def test_rho_without_ties_matches_the_textbook_formula(order: list[int]) -> None:
    n = len(order)
    squares = sum((i - rank) ** 2 for i, rank in enumerate(order))
    assert spearman(list(range(n)), order) == pytest.approx(1 - 6 * squares / (n * (n * n - 1)))


def test_rho_of_constant_values_is_none() -> None:
    assert spearman([1, 1, 1], [1, 2, 3]) is None and spearman([1], [2]) is None


def test_ranking_is_judged_by_its_first_candidate() -> None:
    asked = [question(7.0, 1.0, 3.0), question(1.0, 7.0)]
    found = judge(asked, [[0.0, 2.0, 1.0], [0.0, 1.0]])
    assert found["first"] == pytest.approx((np.log(4 / 2) + np.log(4 / 8)) / 2)
    assert (found["best"], found["rho"]) == pytest.approx((np.log(2), 0.0))
    assert found["kl"] == (divergence([7.0, 1.0, 3.0], [0.0, 2.0, 1.0]) + divergence([1.0, 7.0], [0.0, 1.0])) / 2
    assert judge(asked[:1], [[0.0, 2.0, 1.0]])["rho"] == pytest.approx(1.0)
    # equal candidates have no rank correlation
    assert judge([question(2.0, 2.0)], [[1.0, 1.0]])["rho"] == 0.0


def test_learning_rate_rises_and_falls() -> None:
    paces = [pace(step, 20, 0.1) for step in range(20)]
    assert paces[:3] == [0.5, 1.0, 1.0] and paces == sorted(paces[:2]) + sorted(paces[2:], reverse=True)
    assert 0 < paces[-1] < 0.1 and pace(0, 1, 0.1) == 1.0


def test_split_depends_on_the_seed_and_keeps_copies_of_a_question_together() -> None:
    asked = [question(1.0, 2.0 + i, text=f"Q{i % 10}", name=str(i // 10)) for i in range(20)] + [question(1.0, 1.0)]
    one, again = split_questions(asked, TrainSettings()), split_questions(asked, TrainSettings())
    assert one == again and one.dropped == 1 and len(one.held_out) == 4 and len(one.learnt) == 16
    assert not {q.example.text for q in one.learnt} & {q.example.text for q in one.held_out}
    assert split_questions(asked, TrainSettings(seed=1)) != one
    assert split_questions(asked, TrainSettings(held_out=0)).held_out == []
    with pytest.raises(UsageError, match="no question to learn from"):
        split_questions([question(1.0, 1.0)], TrainSettings())


def test_presets_match_the_papers() -> None:
    for one in PRESETS.values():
        assert (one.best, one.batch, one.rate, one.warmup) == (32, 8, 6e-5, 0.1)  # appendix C
    paper = PRESETS["paper"]
    assert (paper.level, paper.patience, paper.held_out, paper.epochs, paper.tokens) == ("free", 0, 0.0, 2, 512)
    with pytest.raises(UsageError, match="level"):
        TrainSettings(level="other")  # type: ignore[arg-type]


def test_early_stopping() -> None:
    assert not History(held_out=[3.0, 1.0, 2.0]).ends(2) and History(held_out=[3.0, 1.0, 2.0, 2.0]).ends(2)
    assert not History(held_out=[3.0, 4.0, 5.0]).ends(0) and not History().ends(2)
    assert History(held_out=[3.0, 1.0, 2.0]).best == 1
