"""Rank correlation, gain of the first candidate, and intervals; the split, presets and learning curve of a training."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.designs.aed.training.candidates import Example, TrainCandidate
from mergewise.designs.aed.training.distilling import divergence
from mergewise.designs.aed.training.judging import interval, judge, ranks, spearman
from mergewise.designs.aed.training.labels import Label, LabelledQuestion
from mergewise.designs.aed.training.trainer import PRESETS, History, TrainSettings, digest, pace, split_questions
from mergewise.designs.aed.training.utility import svg
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
    assert found.first == pytest.approx((np.log(4 / 2), np.log(4 / 8)))
    assert found.best == pytest.approx((np.log(2), np.log(2)))
    assert found.rho == pytest.approx((1.0, -1.0))
    assert found.kl[0] == divergence([7.0, 1.0, 3.0], [0.0, 2.0, 1.0])
    assert found.means()["rho"] == pytest.approx(0.0)


def test_interval_contains_the_mean_and_grows_with_the_spread() -> None:
    mean, low, high = interval([1.0, None, 3.0, 2.0] * 10)
    assert mean == 2.0 and low < 2.0 < high
    wider = interval([-10.0, 14.0] * 15)
    assert wider[2] - wider[1] > high - low
    assert interval([None]) == (0.0, 0.0, 0.0)


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


def test_questions_are_filtered_by_differing_candidates_or_by_solved() -> None:
    asked = [
        replace(question(*cppl, text=text, name=text), solved=solved)
        for text, solved, cppl in (("a", True, (1.5, 2.0)), ("b", False, (1.5, 2.0)), ("c", True, (1.0, 1.0)))
    ]
    differing, solved = (TrainSettings(questions=kept, held_out=0) for kept in ("differing", "solved"))
    assert [one.example.id for one in split_questions(asked, differing).learnt] == ["a", "b"]
    assert [one.example.id for one in split_questions(asked, solved).learnt] == ["a"]
    assert split_questions(asked, PRESETS["paper"]).dropped == 2
    with pytest.raises(UsageError, match="labels without the reader's answers"):
        split_questions([*asked, question(1.5, 2.0)], PRESETS["gainrag"])
    assert digest(asked) != digest([replace(asked[0], solved=False), *asked[1:]])


def test_presets_match_the_papers() -> None:
    aed, paper, gainrag = (PRESETS[name] for name in ("aed", "paper", "gainrag"))
    for one in (aed, paper):
        assert (one.best, one.drawn, one.batch, one.rate, one.warmup) == (32, 0, 8, 6e-5, 0.1)  # appendix C
    assert (paper.level, paper.patience, paper.held_out) == ("free", 0, 0.0)
    assert (gainrag.best, gainrag.drawn, gainrag.batch, gainrag.rate, gainrag.warmup) == (1, 15, 8, 6e-5, 0.1)
    assert {(one.epochs, one.tokens, one.questions) for one in (paper, gainrag)} == {(2, 512, "solved")}
    with pytest.raises(UsageError, match="level"):
        TrainSettings(level="other")  # type: ignore[arg-type]


def test_early_stopping() -> None:
    assert not History(held_out=[3.0, 1.0, 2.0]).ends(2) and History(held_out=[3.0, 1.0, 2.0, 2.0]).ends(2)
    assert not History(held_out=[3.0, 4.0, 5.0]).ends(0) and not History().ends(2)
    assert History(held_out=[3.0, 1.0, 2.0]).best == 1


def test_learning_curve_has_both_lines() -> None:
    drawn = svg(History([0.5, 0.4, 0.3, 0.2], [0.4, 0.3], 0.6), "minilm <1>")
    root = ElementTree.fromstring(drawn)
    lines = [(line.get("points") or "").split() for line in root.iter("{http://www.w3.org/2000/svg}polyline")]
    points = {len(line): [tuple(map(float, point.split(","))) for point in line] for line in lines}
    assert sorted(points) == [3, 4]
    heights = [y for _, y in points[3]]
    assert heights == sorted(heights)  # lower values are drawn lower
    assert "minilm <1>: KL in nats" in [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    ElementTree.fromstring(svg(History(), "nothing yet"))
