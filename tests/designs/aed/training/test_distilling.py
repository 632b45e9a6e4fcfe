"""Eq. 7 to 9 against literal transcriptions of the formulas; the filter."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, fsum, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.designs.aed.training.distilling import CERTAIN, divergence, gains, teacher, teaches

PERPLEXITIES = st.lists(st.floats(1, 1e9), min_size=1, max_size=41)
PAIRS = st.lists(st.tuples(st.floats(1, 1e6), st.floats(-30, 30)), min_size=1, max_size=41)


def shares(values: Sequence[float]) -> list[float]:
    return [exp(value) / fsum(exp(other) for other in values) for value in values]


@given(PERPLEXITIES)
def test_teacher_matches_equation_7(cppl: list[float]) -> None:
    expected = shares([-log(c + 1) for c in cppl])
    np.testing.assert_allclose(teacher(cppl), expected, rtol=1e-9)
    assert teacher(cppl)[np.argmin(cppl)] == teacher(cppl).max()


@given(PAIRS)
def test_loss_matches_equations_8_and_9(pairs: list[tuple[float, float]]) -> None:
    cppl, utilities = zip(*pairs, strict=True)
    wanted, own = shares([-log(c + 1) for c in cppl]), shares(utilities)
    expected = fsum(p * log(p / q) for p, q in zip(wanted, own, strict=True))
    assert divergence(cppl, utilities) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert divergence(cppl, utilities) >= -1e-12


@given(PAIRS, st.floats(-10, 10))
def test_loss_does_not_depend_on_the_level(pairs: list[tuple[float, float]], level: float) -> None:
    cppl, utilities = zip(*pairs, strict=True)
    moved = [value + level for value in utilities]
    assert divergence(cppl, moved) == pytest.approx(divergence(cppl, utilities), abs=1e-9)


@given(PERPLEXITIES, st.floats(1, 1e6))
def test_gains_are_utilities_without_loss(cppl: list[float], alone: float) -> None:
    """At our level the student can equal the teacher, and no context has the gain 0."""
    assert divergence(cppl, gains(cppl, alone).tolist()) == pytest.approx(0, abs=1e-9)
    assert gains([alone], alone)[0] == 0
    assert all((gain > 0) == (c < alone) for gain, c in zip(gains(cppl, alone), cppl, strict=True) if abs(gain) > 1e-9)


def test_the_filter() -> None:
    assert not teaches([1.0, 1.0, CERTAIN - 5e-11])
    assert teaches([1.0, 1.0 + 3e-10])
    assert not teaches([5.0]) and not teaches([])
