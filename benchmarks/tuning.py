"""How often does `mergewise tune` find a planted gain, and how often does it report a gain that does not exist?

python -m benchmarks.tuning [--runs 120] [--only GAIN]

Scores are simulated (`tests/evaluate/tuning/simulated.py`): 48 points, five of them better by the planted gain. A row gives the
share of runs whose report says "better" and names one of the five points. Without a planted gain, each such report is a false
alarm. Two procedures are compared on the same scores: a single split with 40 % held out, at a
level of 5 %, and five folds at 0.5 %, as in `tune`.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from tests.evaluate.tuning.simulated import POINTS, matrix, question_list

from benchmarks.cells import markdown
from mergewise.evaluate.tuning.keeping import ALPHA, HoldoutAccess
from mergewise.evaluate.tuning.measuring import PointScore
from mergewise.evaluate.tuning.tune import Trials, cross_fitted, folded_questions, held_out_of, winner_of

PLANTED = 5
HELD_OUT = 0.4
Scores = npt.NDArray[np.float64]
CASES = {
    "250 questions": (250, 0.04, 1),
    "250 questions, two pieces": (250, 0.04, 2),
    "100 questions": (100, 0.04, 1),
    "250 questions, other strategies": (250, 0.5, 1),
    "1000 questions, other strategies": (1000, 0.5, 1),
}
"""Number of questions, share of pieces that a point draws again, and pieces per question.

On 2wiki, settings of one strategy change the score of 3 % of the questions, and other strategies that of 60 %: the variance of
drawing half of the pieces again.
"""


def trials_of(scores: Scores, order: Sequence[int]) -> Trials:
    return Trials(POINTS, [[PointScore(float(score), 100) for score in scores[:, i]] for i in order])


def by_split(scores: Scores, seed: int) -> tuple[int, bool]:
    """Return the winner on 60 % of the questions, and whether the other 40 % show a gain."""
    count = scores.shape[1]
    order = random.Random(seed).sample(range(count), count)
    held = round(HELD_OUT * count)
    winner = winner_of(trials_of(scores, order[held:]), range(count - held))
    rows = [(PointScore(scores[0, i], 100), PointScore(scores[winner, i], 100)) for i in order[:held]]
    return winner, winner > 0 and held_out_of(rows, range(held), HoldoutAccess("", 0.05, 0)).is_better


def by_folds(scores: Scores, seed: int) -> tuple[int, bool]:
    """Return the winner on all questions, and whether the cross-fitted comparison shows a gain."""
    numbers = range(scores.shape[1])
    folded = folded_questions(question_list(len(numbers)), seed)
    trials = trials_of(scores, [int(question.id) for question in folded.questions])
    winner = winner_of(trials, numbers)
    rows = cross_fitted(trials, folded.folds, numbers)
    return winner, winner > 0 and held_out_of(rows, numbers, HoldoutAccess("", ALPHA, 0)).is_better


def found(
    procedure: Callable[[Scores, int], tuple[int, bool]], gain: float, case: tuple[int, float, int], runs: int
) -> int:
    """Count the runs with a reported gain. With a planted gain, the winner must be one of the planted points."""
    count, changed, pieces = case
    least = len(POINTS) - PLANTED if gain else 1
    total = 0
    for seed in range(runs):
        winner, is_better = procedure(matrix(seed, count, gain, PLANTED, changed, pieces), seed)
        total += is_better and winner >= least
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=120)
    parser.add_argument("--only", type=float, help="a single gain")
    options = parser.parse_args()
    gains = (0.0, 0.06, 0.08, 0.10) if options.only is None else (options.only,)
    rows = [
        [
            name,
            f"{gain:g}",
            *(f"{found(procedure, gain, case, options.runs)}/{options.runs}" for procedure in (by_split, by_folds)),
        ]
        for gain in gains
        for name, case in CASES.items()
    ]
    print(markdown(["scores", "gain", "one split", "five folds"], rows))


if __name__ == "__main__":
    main()
