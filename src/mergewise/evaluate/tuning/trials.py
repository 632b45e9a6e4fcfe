"""Trials: measure points on the same questions, and choose the winner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.statistics import standard_error
from mergewise.evaluate.tuning.measuring import Measure, PointScore
from mergewise.evaluate.tuning.space import Point

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Trials:
    """The scores of points: `rows[j][i]` is the score of `points[i]` on question j. The first point is the default."""

    points: Sequence[Point]
    rows: Sequence[Sequence[PointScore]]

    @property
    def seen(self) -> int:
        """The number of questions that each point was measured on."""
        return len(self.rows)

    def scores(self, number: int) -> Numbers:
        return np.array([row[number].score for row in self.rows])

    def mean(self, number: int) -> float:
        return float(self.scores(number).mean()) if self.seen else 0.0

    def tokens(self, number: int) -> float:
        return float(np.mean([row[number].tokens for row in self.rows])) if self.seen else 0.0


def run_trials(
    points: Sequence[Point],
    questions: Sequence[Question],
    measure: Measure,
    has_time: Callable[[], bool] = lambda: True,
    on_question: Callable[[int], None] = lambda seen: None,
) -> Trials:
    """Measure every point on one question after another, until all are measured or the time is over."""
    rows: list[Sequence[PointScore]] = []
    for question in questions:
        if not has_time():
            break
        rows.append(measure(points, question))
        on_question(len(rows))
    return Trials(points, rows)


def winner_of(trials: Trials, clusters: Sequence[int]) -> int:
    """Choose among the points within one standard error of the best: fewest changes first, then fewest tokens."""
    numbers, own = range(len(trials.points)), clusters[: trials.seen]
    best = max(numbers, key=lambda i: (trials.mean(i), -i))
    near = [i for i in numbers if _is_near(trials.scores(best) - trials.scores(i), own)]
    return min(near, key=lambda i: (trials.points[i].size, trials.tokens(i), i))


def _is_near(differences: Numbers, clusters: Sequence[int]) -> bool:
    """Test that the mean difference is within one standard error of itself."""
    if not differences.any():
        return True
    own = clusters if len(set(clusters)) > 1 else range(len(differences))
    error, _ = standard_error(differences.tolist(), list(own)) if len(differences) > 1 else (0.0, 1)
    return float(differences.mean()) <= error


def table(trials: Trials) -> list[Mapping[str, object]]:
    """Return the points for JSON, best first."""
    return [
        {
            "strategy": trials.points[i].spec,
            "search": trials.points[i].search,
            "weights": trials.points[i].weights,
            "mean": trials.mean(i),
            "tokens": trials.tokens(i),
            "questions": trials.seen,
        }
        for i in sorted(range(len(trials.points)), key=lambda i: (-trials.mean(i), i))
    ]
