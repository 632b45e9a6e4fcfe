"""Kendall's tau between two rankings of the same points."""

from __future__ import annotations

import pytest
from benchmarks.made import POINTS, kendall


def test_tau_of_rankings_that_agree_disagree_or_tie() -> None:
    assert kendall([1, 2, 3, 4], [2, 4, 6, 8]) == 1
    assert kendall([1, 2, 3, 4], [4, 3, 2, 1]) == -1
    # Five pairs agree, one does not.
    assert kendall([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(4 / 6)
    # One of six pairs ties in the first ranking, and the other five agree.
    assert kendall([1, 1, 2, 3], [1, 2, 3, 4]) == pytest.approx(5 / (5 * 6) ** 0.5)
    assert kendall([1, 1, 1], [1, 2, 3]) == 0


def test_twenty_points_are_compared() -> None:
    assert len(POINTS) == 20
