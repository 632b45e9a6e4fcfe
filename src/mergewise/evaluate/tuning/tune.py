"""Tuning of parameters on a user's own questions, with one cross-fitted comparison.

1. The questions are split by cluster into five folds.
2. The default and up to 47 random points are measured on the questions (`trials`).
3. The winner is the simplest point that is not distinguishable from the best.
4. If a point other than the default wins, it is compared with the default, once. Each fold is judged by the winner of the other
   folds (cross-fitting, Chernozhukov et al. 2018), so every question is held out once, and no point is judged by the questions
   that chose it. Questions that the time did not suffice for are judged by the winner.
5. The default should be changed only if the interval of the difference lies above zero and a sign-flip test is significant at
   the level of the ledger (`keeping`).
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, replace
from itertools import zip_longest
from pathlib import Path

import numpy as np

from mergewise import Index, Progress
from mergewise.errors import MergewiseError, UsageError, check_known
from mergewise.evaluate.metrics import mean
from mergewise.evaluate.question_sets import Question, clusters
from mergewise.evaluate.runs.digests import digest
from mergewise.evaluate.runs.run_plan import toml_value
from mergewise.evaluate.statistics import Interval, interval, sign_flip, standard_error
from mergewise.evaluate.synthetic.records import MADE
from mergewise.evaluate.tuning.keeping import HoldoutAccess, HoldoutLog, KeptMeasure
from mergewise.evaluate.tuning.measuring import METRICS, ContextMeasure, Measure, Metric, PointScore
from mergewise.evaluate.tuning.space import Dimension, Point, Value, dimensions_of, drawn_points
from mergewise.extend import STRATEGY, Range, number, ranges, whole
from mergewise.protocols import DoubleArray
from mergewise.types import Json, JsonDict, frozen

FOLDER = ".tuning"
"""Folder of rows and ledgers, in the index's directory."""
FEWEST = 40
"""Minimum of questions for tuning."""
FOLDS = 5
FEWEST_OTHERS = 12
"""Minimum of questions outside the largest cluster."""
POINTS = 48
PROBED = 4
"""Number of questions that show whether a parameter has any effect."""
TRYING = 0.8
"""Share of the time for trials."""
SEEN = 24
"""Minimum of measured questions for a winner, if trials run out of time."""


@frozen
class HeldOut:
    """The comparison of the winner with the default, on questions that did not choose it.

    Attributes:
        questions: number of questions, each held out once.
        default: mean score of the default.
        winner: mean score of the winners of the other folds.
        default_tokens: mean tokens per context of the default.
        winner_tokens: mean tokens per context of these winners.
        difference: mean difference, winner less default.
        interval: 95 % interval of the difference.
        p: p-value of the sign-flip test.
        alpha: significance level of the test.
        before: number of earlier comparisons on some of these questions. Each halves `alpha`.
    """

    questions: int
    default: float
    winner: float
    default_tokens: float
    winner_tokens: float
    difference: float
    interval: Interval
    p: float
    alpha: float
    before: int

    @property
    def is_better(self) -> bool:
        """True if the winner is significantly better than the default."""
        return self.interval[0] > 0 and self.p <= self.alpha


@frozen
class TuningReport:
    """The result of a tuning.

    Attributes:
        strategy: the spec of the default.
        metric: the metric that was tuned.
        budget: the token budget of the contexts.
        winner: the winning point on all measured questions.
        held_out: the cross-fitted comparison, or None if the default won.
        questions: number of questions.
        seen: number of these that were measured in time.
        points: the measured points, best first.
        idle: for each parameter that was left out, the reason.
        reason: the reason to keep the defaults if `held_out` is None.
    """

    strategy: str
    metric: str
    budget: int
    winner: Point
    held_out: HeldOut | None
    questions: int
    seen: int
    points: Sequence[Json]
    idle: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    @property
    def is_better(self) -> bool:
        """True if the default should be changed."""
        return self.held_out is not None and self.held_out.is_better

    def verdict(self) -> str:
        """Return the result as a sentence."""
        if self.held_out is None:
            return f"keep the defaults: {self.reason}"
        one = self.held_out
        what = f"{self.metric} {one.winner:.3f} instead of {one.default:.3f} on {one.questions} held-out questions"
        how = f"{one.difference:+.3f} ({one.interval[0]:+.3f} to {one.interval[1]:+.3f}), p = {one.p:.3g}"
        return f"{'better' if one.is_better else 'keep the defaults'}: {what}, {how} (level {one.alpha:.3g})"

    def fragment(self, more: Mapping[str, str] | None = None) -> str:
        """Return the winner as lines of mergewise.toml, with the figures as comments.

        Args:
            more: further settings of the fragment, by name.

        Returns:
            The lines, or an empty text if the defaults should be kept.
        """
        if not self.is_better or self.held_out is None:
            return ""
        one = self.held_out
        lines = [
            "# Found by `mergewise tune`, which compares contexts, not answers.",
            f"# {self.verdict()}",
            f"# {one.winner_tokens:.0f} tokens instead of {one.default_tokens:.0f}, at a budget of {self.budget}",
        ]
        named = {"strategy": self.winner.spec, "search": self.winner.search, **(more or {})}
        lines += [f"{name} = {toml_value(value)}" for name, value in named.items() if value]
        return "\n".join(lines) + "\n"

    def as_dict(self) -> JsonDict:
        return {
            "strategy": self.strategy,
            "metric": self.metric,
            "budget": self.budget,
            "better": self.is_better,
            "verdict": self.verdict(),
            "winner": {"strategy": self.winner.spec, "search": self.winner.search},
            "held_out": None if self.held_out is None else asdict(self.held_out),
            "questions": self.questions,
            "seen": self.seen,
            "left_out": dict(self.idle),
            "points": list(self.points),
        }


@frozen
class FoldedQuestions:
    """Questions in a random order that takes each fold in turn, with the fold of each question."""

    questions: Sequence[Question]
    folds: Sequence[int]


def tune(
    index: Index,
    questions: Sequence[Question],
    strategy: str = STRATEGY,
    *,
    metric: Metric = "evidence",
    budget: int = 384,
    seconds: float = 600.0,
    seed: int = 0,
    trust_made: bool = False,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> TuningReport:
    """Tune the parameters of a strategy and of the search on these questions.

    Args:
        index: the index of the questions' documents.
        questions: the questions, with gold for the metric.
        strategy: spec of the strategy. Its parameters are the default to beat.
        metric: the score of contexts to tune.
        budget: token budget of the contexts.
        seconds: approximate duration in seconds. Trials take up to 80 % of it.
        seed: random seed of the split and the points.
        trust_made: accept questions that were made from the documents.
        folder: folder of the measurements, by default in the index's directory. A stopped tuning resumes from them.
        progress: called after each question.

    Returns:
        The winner and its comparison with the default.

    Raises:
        UsageError: if the metric can judge fewer than `FEWEST` questions, the questions cannot be split, some of them are made
            and `trust_made` is false, or the folder cannot be written.
    """
    budget = whole("budget", budget, ranges.BUDGET)
    number("time limit", seconds, float, Range(1, 1_000_000))
    started = time.monotonic()
    folded = folded_questions(usable_questions(questions, metric, trust_made), seed)
    contexts = ContextMeasure(index, metric, budget)
    candidates = dimensions_of(strategy, index.search_settings)
    dimensions, idle = probe_dimensions(candidates, strategy, contexts, folded.questions[:PROBED])
    points = drawn_points(strategy, dimensions, POINTS - 1, seed)
    report = progress or (lambda done, total, item: None)
    return compare_points(
        points,
        folded,
        contexts,
        setup_of(index, metric, budget),
        folder or index.store.directory / FOLDER,
        idle,
        lambda: time.monotonic() - started < TRYING * seconds,
        lambda seen: report(seen, len(folded.questions), f"{len(points)} points"),
    )


def setup_of(index: Index, metric: Metric, budget: int) -> JsonDict:
    """Return everything that scores depend on: the index, the metric, the budget, the models, and the default search."""
    models = index.models
    named = (models.embedder, models.chat, models.reranker, models.scorer)
    specs = (type(model).__name__ + getattr(model, "spec", "") for model in named)
    others = [index.manifest.embedder, *specs, digest(models.weights), str(index.search_settings)]
    return {"snapshot": index.snapshot, "budget": budget, "metric": metric, "models": others}


def compare_points(
    points: Sequence[Point],
    folded: FoldedQuestions,
    measure: Measure,
    setup: Json,
    folder: Path,
    idle: Mapping[str, str],
    has_time: Callable[[], bool] = lambda: True,
    on_question: Callable[[int], None] = lambda seen: None,
) -> TuningReport:
    """Measure the points on the questions, and compare the winner with the default by cross-fitting.

    If the default wins, the comparison is not made. Rows and the log of comparisons are stored in `folder`.
    """
    measure = KeptMeasure(measure, folder / digest(setup), setup["metric"])
    questions, numbers = folded.questions, clusters(folded.questions)
    trials = run_trials(points, questions, measure, has_time, on_question)
    default, winner, held_out = points[0], points[winner_of(trials, numbers)], None
    reason = "no point was better by more than chance"
    if len(points) == 1:
        reason = "no parameter changes a context here"
    elif trials.seen < min(SEEN, len(questions)):
        winner, reason = default, f"time for {trials.seen} questions only (increase --time)"
    if winner is not default:
        log = HoldoutLog(folder)
        opening = log.open({**setup, "default": default.key, "winner": winner.key}, questions)
        rows = cross_fitted(trials, folded.folds, numbers)
        rows += [measure([default, winner], question) for question in questions[trials.seen :]]
        held_out = held_out_of(rows, numbers, opening)
        log.close(opening, asdict(held_out))
    best_first = sorted(range(len(points)), key=lambda i: (-trials.mean(i), i))
    rows_of_points = [
        {
            "strategy": points[i].spec,
            "search": points[i].search,
            "weights": points[i].weights,
            "mean": trials.mean(i),
            "tokens": trials.tokens(i),
            "questions": trials.seen,
        }
        for i in best_first
    ]
    return TuningReport(
        default.spec,
        setup["metric"],
        setup["budget"],
        winner,
        held_out,
        len(questions),
        trials.seen,
        rows_of_points,
        idle,
        reason,
    )


def cross_fitted(trials: Trials, folds: Sequence[int], clusters: Sequence[int]) -> list[Sequence[PointScore]]:
    """Return the scores of the default and of the winner of the other folds, for each measured question."""
    winners = {}
    for fold in set(folds[: trials.seen]):
        others = [i for i in range(trials.seen) if folds[i] != fold]
        seen = Trials(trials.points, [trials.rows[i] for i in others])
        winners[fold] = winner_of(seen, [clusters[i] for i in others])
    return [(row[0], row[winners[fold]]) for row, fold in zip(trials.rows, folds, strict=False)]


def held_out_of(rows: Sequence[Sequence[PointScore]], numbers: Sequence[int], opening: HoldoutAccess) -> HeldOut:
    """Compare the winner with the default. Each row holds the scores of the default and of the winner."""
    before, after = ([row[side].score for row in rows] for side in (0, 1))
    differences = [b - a for a, b in zip(before, after, strict=True)]
    return HeldOut(
        questions=len(rows),
        default=mean(before),
        winner=mean(after),
        default_tokens=mean([row[0].tokens for row in rows]),
        winner_tokens=mean([row[1].tokens for row in rows]),
        difference=mean(differences),
        interval=interval(differences, numbers),
        p=sign_flip(differences, numbers),
        alpha=opening.alpha,
        before=opening.before,
    )


def usable_questions(
    questions: Sequence[Question], metric: Metric, trust_made: bool, fewest: int | None = None
) -> list[Question]:
    """Return the questions that the metric can judge. Raises UsageError if they are too few, or made without `trust_made`."""
    check_known("metric", metric, METRICS)
    if metric == "answer":
        judged = [question for question in questions if question.has_answers]
    else:
        judged = [question for question in questions if question.evidence or metric == "density"]
    if len(judged) < (fewest := fewest or FEWEST):
        others = len(questions) - len(judged)
        left_out = f"; {others} others have no gold for {metric}" if others else ""
        raise UsageError(
            f"too few questions to tune on: {len(judged)} (expected {fewest} or more{left_out})",
            "add questions; to detect differences below 0.1 use about 200",
        )
    made = sum(question.kind.startswith(MADE) for question in judged)
    if made and not trust_made:
        raise UsageError(
            f"made questions: {made} of {len(judged)}; they may rank strategies differently from real questions",
            "use questions that people asked, or add --trust-made",
        )
    return judged


def folded_questions(questions: Sequence[Question], seed: int = 0) -> FoldedQuestions:
    """Split into folds of about equal size, so that questions about one document are in the same fold."""
    draw, numbers = random.Random(seed), clusters(questions)
    largest = max(Counter(numbers).values())
    if len(questions) - largest < FEWEST_OTHERS:
        raise UsageError(
            f"too few questions to hold out: {largest} of {len(questions)} share documents",
            "add questions about more documents",
        )
    members: dict[int, list[int]] = {}
    for place in draw.sample(range(len(questions)), len(questions)):
        members.setdefault(numbers[place], []).append(place)
    folds: list[list[int]] = [[] for _ in range(FOLDS)]
    for own in sorted(members.values(), key=len, reverse=True):
        min(folds, key=len).extend(own)
    order = [(place, i) for turn in zip_longest(*folds) for i, place in enumerate(turn) if place is not None]
    return FoldedQuestions([questions[place] for place, _ in order], [fold for _, fold in order])


def probe_dimensions(
    dimensions: Sequence[Dimension], strategy: str, contexts: ContextMeasure, questions: Sequence[Question]
) -> tuple[list[Dimension], dict[str, str]]:
    """Return the dimensions that change a context at an end of their range, and the reason for each dimension left out."""
    usual = [contexts.context(Point(strategy), question).text for question in questions]
    kept, idle = [], {}
    for one in dimensions:
        working: list[Value] = []
        reason = "changes no context here"
        extremes = one.others if one.declared is None else (one.value(0.0), one.value(1.0))
        for value in dict.fromkeys(extremes):
            if value == one.default:
                continue
            point = Point(strategy, {one.place: {one.name: value}})
            try:
                changes = any(
                    contexts.context(point, question).text != text
                    for question, text in zip(questions, usual, strict=True)
                )
            except MergewiseError as error:
                reason = error.message
                continue
            working += [value] if changes else []
        if working:
            kept.append(replace(one, others=tuple(value for value in one.others if value in working)))
        else:
            idle[one.name] = reason
    return kept, idle


@frozen
class Trials:
    """The scores of points: `rows[j][i]` is the score of `points[i]` on question j. The first point is the default."""

    points: Sequence[Point]
    rows: Sequence[Sequence[PointScore]]

    @property
    def seen(self) -> int:
        """The number of questions that each point was measured on."""
        return len(self.rows)

    def scores(self, number: int) -> DoubleArray:
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


def _is_near(differences: DoubleArray, clusters: Sequence[int]) -> bool:
    """Test that the mean difference is within one standard error of itself."""
    if not differences.any():
        return True
    own = clusters if len(set(clusters)) > 1 else range(len(differences))
    error, _ = standard_error(differences.tolist(), list(own)) if len(differences) > 1 else (0.0, 1)
    return float(differences.mean()) <= error
