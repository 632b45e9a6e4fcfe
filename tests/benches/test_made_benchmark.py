"""Kendall's tau between two rankings of the same points."""

from __future__ import annotations

import pytest
from benchmarks.made import POINTS, kendall


def test_tau_of_rankings_that_agree_that_do_not_and_that_tie() -> None:
    assert kendall([1, 2, 3, 4], [2, 4, 6, 8]) == 1
    assert kendall([1, 2, 3, 4], [4, 3, 2, 1]) == -1
    # five pairs agree, one does not
    assert kendall([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(4 / 6)
    # of six pairs one ties in the first, and the five others agree
    assert kendall([1, 1, 2, 3], [1, 2, 3, 4]) == pytest.approx(5 / (5 * 6) ** 0.5)
    assert kendall([1, 1, 1], [1, 2, 3]) == 0


def test_twenty_points_are_compared() -> None:
    assert len(POINTS) == 20
