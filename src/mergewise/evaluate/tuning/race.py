"""A race of points over questions: all that are still in it answer the same ones, and the worse ones leave it.

The questions come in blocks of 8, 16, 32 and so on. After each block those leave the race that are worse than the best, by a
one-sided paired sign-flip test at 0.05 over the number of blocks: so looking again and again costs no more than looking once. The
default never leaves. (The idea of irace, López-Ibáñez et al. 2016.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.statistics import standard_error
from mergewise.evaluate.tuning.measuring import Measure, PointScore
from mergewise.evaluate.tuning.space import Point

Numbers = npt.NDArray[np.float64]

FIRST_BLOCK = 8
ALPHA = 0.05
FLIPS = 10_000
_CELLS = 1 << 21
"""Signs that are drawn at once."""
_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class Departure:
    """When a point left the race: after how many questions, and the probability of being as bad by chance."""

    questions: int
    probability: float


@dataclass(slots=True)
class Race:
    """`rows` are what each point was measured at, question by question, as far as it went. The first point is the default."""

    points: Sequence[Point]
    rows: list[list[PointScore]]
    left: dict[int, Departure] = field(default_factory=dict)
    seen: int = 0

    @property
    def running(self) -> list[int]:
        return [i for i in range(len(self.points)) if i not in self.left]

    def scores(self, number: int) -> Numbers:
        return np.array([row.score for row in self.rows[number]])

    def mean(self, number: int) -> float:
        return float(self.scores(number).mean()) if self.rows[number] else 0.0

    def tokens(self, number: int) -> float:
        return float(np.mean([row.tokens for row in self.rows[number]])) if self.rows[number] else 0.0

    @property
    def best(self) -> int:
        return max(self.running, key=lambda i: (self.mean(i), -i))


def block_ends(count: int) -> list[int]:
    """After how many questions the points are compared."""
    ends = [0]
    while ends[-1] < count:
        ends.append(min(count, ends[-1] + FIRST_BLOCK * 2 ** (len(ends) - 1)))
    return ends[1:]


def run_race(
    points: Sequence[Point],
    questions: Sequence[Question],
    clusters: Sequence[int],
    measure: Measure,
    has_time: Callable[[], bool] = lambda: True,
    on_question: Callable[[int, int], None] = lambda seen, running: None,
) -> Race:
    """Ends after the last question, where the default is left alone, or where there is no time for the next question."""
    race = Race(points, [[] for _ in points])
    ends = block_ends(len(questions))
    for question in questions:
        if not has_time() or len(race.running) == 1:
            break
        for number in race.running:
            race.rows[number].append(measure(points[number], question))
        race.seen += 1
        on_question(race.seen, len(race.running))
        if race.seen in ends:
            _drop(race, clusters[: race.seen], ALPHA / len(ends))
    return race


def _drop(race: Race, clusters: Sequence[int], alpha: float) -> None:
    best = race.best
    others = [i for i in race.running if i not in (best, 0)]
    if others:
        differences = np.array([race.scores(best) - race.scores(i) for i in others]).T
        for number, probability in zip(others, chances(differences, clusters), strict=True):
            if probability < alpha:
                race.left[number] = Departure(race.seen, probability)


def chances(differences: Numbers, clusters: Sequence[int], seed: int = 0) -> list[float]:
    """For each column of differences, shape (questions, points), the probability of a sum as high as it is, were each cluster's
    sum as likely to have the other sign. One-sided; the same signs for all columns."""
    _, places = np.unique(np.asarray(clusters), return_inverse=True)
    sums = np.zeros((places.max() + 1, differences.shape[1]))
    np.add.at(sums, places, differences)
    least, hits = sums.sum(0) - _SAME, np.zeros(differences.shape[1])
    draw, portion = np.random.default_rng(seed), max(1, _CELLS // len(sums))
    for first in range(0, FLIPS, portion):
        signs = 2.0 * draw.integers(0, 2, (min(portion, FLIPS - first), len(sums))) - 1
        hits += (signs @ sums >= least).sum(0)
    found: list[float] = ((1 + hits) / (1 + FLIPS)).tolist()
    return found


def winner_of(race: Race, clusters: Sequence[int]) -> int:
    """Of the points that are not a standard error worse than the best, that with the fewest changes, then the fewest tokens."""
    best = race.best
    near = [i for i in race.running if _is_near(race.scores(best) - race.scores(i), clusters[: race.seen])]
    return min(near, key=lambda i: (race.points[i].size, race.tokens(i), i))


def _is_near(differences: Numbers, clusters: Sequence[int]) -> bool:
    """Whether the mean difference is within one standard error of itself."""
    if not differences.any():
        return True
    own = clusters if len(set(clusters)) > 1 else range(len(differences))
    error, _ = standard_error(differences.tolist(), list(own)) if len(differences) > 1 else (0.0, 1)
    return float(differences.mean()) <= error


def table(race: Race) -> list[Mapping[str, object]]:
    """The points, the best first, as JSON."""
    order = sorted(range(len(race.points)), key=lambda i: (i in race.left, -len(race.rows[i]), -race.mean(i), i))
    return [
        {
            "strategy": race.points[i].spec,
            "search": race.points[i].search,
            "weights": race.points[i].weights,
            "mean": race.mean(i),
            "tokens": race.tokens(i),
            "questions": len(race.rows[i]),
            "p": race.left[i].probability if i in race.left else None,
        }
        for i in order
    ]
