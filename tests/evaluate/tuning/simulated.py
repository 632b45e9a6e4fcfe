"""Tunings of made-up scores: trials, choice, held-out questions and log, without an index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.runs.digests import digest
from mergewise.evaluate.tuning.measuring import PointScore
from mergewise.evaluate.tuning.space import Point
from mergewise.evaluate.tuning.tune import TuningReport, compare_points, folded_questions

POINTS = [Point("topk"), *(Point("topk", {"strategy": {"k": k}}) for k in range(1, 48))]
SETUP = {"metric": "evidence", "budget": 384}
SHARE = 0.6
"""Share of the evidence that the default finds."""


def question_list(count: int) -> list[Question]:
    return [Question(str(number), f"question {number}", ("yes",), None) for number in range(count)]


def matrix(
    seed: int, count: int, gain: float = 0.0, planted: int = 5, changed: float = 0.04, pieces: int = 1
) -> npt.NDArray[np.float64]:
    """Draw shares of found pieces of evidence, shape (points, questions).

    For a share `changed` of the pieces, each point draws again whether it finds the piece. The other pieces are found as by the
    default. The last `planted` points find more pieces, so that their mean is higher by `gain`.
    """
    draw = np.random.default_rng(seed)
    default = draw.random((count, pieces)) < SHARE
    scores = np.tile(default, (len(POINTS), 1, 1))
    others = draw.random(scores.shape) < changed
    others[0] = False
    scores = np.where(others, draw.random(scores.shape) < SHARE, scores)
    scores[-planted:] |= draw.random((planted, count, pieces)) < gain / (1 - SHARE)
    return np.asarray(scores.mean(2), np.float64)


def simulated_report(scores: npt.NDArray[np.float64], folder: Path, seed: int = 0) -> TuningReport:
    questions = question_list(scores.shape[1])
    places = {point.key: number for number, point in enumerate(POINTS)}

    def measure(points: Sequence[Point], question: Question) -> list[PointScore]:
        return [PointScore(float(scores[places[point.key], int(question.id)]), 100) for point in points]

    setup = {**SETUP, "snapshot": digest(scores.tolist())}
    return compare_points(POINTS, folded_questions(questions, seed), measure, setup, folder, {})
