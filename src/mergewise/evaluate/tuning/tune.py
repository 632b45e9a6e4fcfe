"""Parameters tuned on a user's own questions, judged once on questions that the tuning never saw.

1. The questions are split by cluster, 60 to 40.
2. On the 60 the default and up to 47 random points are measured (`trials`).
3. Of those that are as good as the best, as far as can be told, the simplest is the winner.
4. On the 40 the winner is compared with the default, once. The default is to be changed only where the whole interval of the
   difference lies above zero, and a sign-flip test says the same at the level of the ledger (`keeping`).
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mergewise.defaults import STRATEGY
from mergewise.engine import Index
from mergewise.errors import MergewiseError, UsageError
from mergewise.evaluate.metrics import mean
from mergewise.evaluate.question_sets import Question, clusters
from mergewise.evaluate.runs.keys import digest
from mergewise.evaluate.statistics import Interval, paired_interval, sign_flip
from mergewise.evaluate.synthetic.records import MADE
from mergewise.evaluate.tuning.keeping import HoldoutAccess, HoldoutLog, KeptMeasure
from mergewise.evaluate.tuning.measuring import ContextMeasure, Measure, Metric, judged_questions
from mergewise.evaluate.tuning.space import Dimension, Point, Value, dimensions_of, drawn_points
from mergewise.evaluate.tuning.trials import Trials, run_trials, table, winner_of
from mergewise.ranges import BUDGET, Range, number, whole
from mergewise.store.views import Progress

FOLDER = ".tuning"
"""In the index's directory: rows and ledgers."""
FEWEST = 40
"""Questions below which nothing is tuned."""
HELD_OUT = 0.4
FEWEST_HELD_OUT = 12
POINTS = 48
PROBED = 4
"""Questions by which it is seen whether a parameter has any effect."""
TRYING = 0.8
"""Share of the time after which no further question is taken to tune on."""
SEEN = 24
"""Questions below which trials that ran out of time tell nothing."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What the held-out part showed: the mean of the default and of the winner, their difference with its interval, the
    probability of such a difference by chance, the level that it is held to, and how often these questions were looked at before.
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
        return self.interval[0] > 0 and self.p <= self.alpha


@dataclass(frozen=True, slots=True)
class TuningReport:
    """`winner` is the point that was chosen. `held_out` is None where that is the default: then nothing was opened.

    `seen` are the questions that there was time for, of `questions` to tune on. `points` are those that were compared, the
    best first. `idle` says why parameters were left out.
    """

    strategy: str
    metric: str
    budget: int
    winner: Point
    held_out: HeldOut | None
    questions: int
    seen: int
    points: Sequence[Mapping[str, Any]]
    idle: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    @property
    def is_better(self) -> bool:
        """Whether the default is to be changed."""
        return self.held_out is not None and self.held_out.is_better

    def verdict(self) -> str:
        """In a sentence."""
        if self.held_out is None:
            return f"keep the defaults: {self.reason}"
        one = self.held_out
        what = f"{self.metric} {one.winner:.3f} instead of {one.default:.3f} on {one.questions} questions held out"
        how = f"{one.difference:+.3f} ({one.interval[0]:+.3f} to {one.interval[1]:+.3f}), p = {one.p:.3g}"
        return f"{'better' if one.is_better else 'keep the defaults'}: {what}, {how}, held to {one.alpha:.3g}"

    def fragment(self, more: Mapping[str, str] | None = None) -> str:
        """Lines of mergewise.toml, with the figures as comments, and `more` lines; empty where the defaults are to be kept."""
        if not self.is_better or self.held_out is None:
            return ""
        one = self.held_out
        lines = [
            "# Found by `mergewise tune`. Contexts were compared, not answers.",
            f"# {self.verdict()}",
            f"# {one.winner_tokens:.0f} tokens instead of {one.default_tokens:.0f}, at a budget of {self.budget}",
        ]
        named = {"strategy": self.winner.spec, "search": self.winner.search, **(more or {})}
        lines += [f"{name} = {_toml(value)}" for name, value in named.items() if value]
        return "\n".join(lines) + "\n"

    def as_dict(self) -> dict[str, Any]:
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


@dataclass(frozen=True, slots=True)
class HeldOutSplit:
    """Questions to tune on, and questions held out, each with the numbers of their clusters; both in a drawn order."""

    tuned: tuple[Question, ...]
    tuned_clusters: tuple[int, ...]
    held_out: tuple[Question, ...]
    held_out_clusters: tuple[int, ...]


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
    """Tune the parameters of a strategy, and of the search, on these questions. See the head of this module.

    `strategy` is a spec: what it sets is the default to be beaten. All takes about `seconds`, the trials 0.8 of them at most.
    What was measured is kept in `folder` (by default in the index's directory): a tuning that was stopped goes on.

    Raises UsageError for fewer than `FEWEST` questions that the metric judges, for questions that cannot be split, for made ones
    without `trust_made`, and where the folder cannot be written.
    """
    budget = whole("the budget is", budget, BUDGET)
    number("the time is", seconds, float, Range(1, 1_000_000))
    started = time.monotonic()
    split = split_of(usable_questions(questions, metric, trust_made), seed)
    place = folder or index.store.directory / FOLDER
    contexts = ContextMeasure(index, metric, budget)
    dimensions, idle = probed(dimensions_of(strategy, index.search_settings), strategy, contexts, split.tuned[:PROBED])
    points = drawn_points(strategy, dimensions, POINTS - 1, seed)
    setup = {"snapshot": index.snapshot, "budget": budget, "metric": metric, "models": models_of(index)}
    measure = KeptMeasure(contexts, place / digest(setup), metric)
    report = progress or (lambda done, total, item: None)
    trials = run_trials(
        points,
        split.tuned,
        measure,
        lambda: time.monotonic() - started < TRYING * seconds,
        lambda seen: report(seen, len(split.tuned), f"{len(points)} points"),
    )
    measure.flush()
    return judge_trials(trials, split, measure, HoldoutLog(place), setup, metric, budget, idle)


def judge_trials(
    trials: Trials,
    split: HeldOutSplit,
    measure: Measure,
    ledger: HoldoutLog,
    setup: Mapping[str, Any],
    metric: str,
    budget: int,
    idle: Mapping[str, str],
) -> TuningReport:
    """Compare the winner with the default on the held-out questions, unless they are the same."""
    default, winner, held_out = trials.points[0], trials.points[winner_of(trials, split.tuned_clusters)], None
    reason = "nothing was better by more than chance on the questions to tune on"
    if len(trials.points) == 1:
        reason = "no parameter changes a context here"
    elif trials.seen < min(SEEN, len(split.tuned)):
        winner, reason = default, f"there was time for {trials.seen} questions only: give it more (--time)"
    if winner is not default:
        compared = {**setup, "default": default.key, "winner": winner.key}
        opening = ledger.open(compared, split.held_out)
        held_out = _opened(winner, default, split, measure, opening)
        ledger.close(opening, asdict(held_out))
    return TuningReport(
        default.spec, metric, budget, winner, held_out, len(split.tuned), trials.seen, table(trials), idle, reason
    )


def _opened(winner: Point, default: Point, split: HeldOutSplit, measure: Measure, opening: HoldoutAccess) -> HeldOut:
    rows = [(measure(default, question), measure(winner, question)) for question in split.held_out]
    if flush := getattr(measure, "flush", None):
        flush()
    before, after = [row.score for row, _ in rows], [row.score for _, row in rows]
    differences = [b - a for a, b in zip(before, after, strict=True)]
    return HeldOut(
        questions=len(rows),
        default=mean(before),
        winner=mean(after),
        default_tokens=mean([row.tokens for row, _ in rows]),
        winner_tokens=mean([row.tokens for _, row in rows]),
        difference=mean(differences),
        interval=paired_interval(after, before, split.held_out_clusters),
        p=sign_flip(differences, split.held_out_clusters),
        alpha=opening.alpha,
        before=opening.before,
    )


def usable_questions(questions: Sequence[Question], metric: Metric, trust_made: bool) -> list[Question]:
    """The questions that the metric judges. Raises UsageError where they are too few, or made ones that nobody trusts."""
    judged = judged_questions(questions, metric)
    if len(judged) < FEWEST:
        left_out = (
            f" ({len(questions) - len(judged)} have no {metric} to be judged by)"
            if len(judged) < len(questions)
            else ""
        )
        raise UsageError(
            f"{len(judged)} questions are too few to tune on{left_out}",
            f"{FEWEST} are the fewest; differences below 0.1 take some 200",
        )
    made = sum(question.kind.startswith(MADE) for question in judged)
    if made and not trust_made:
        raise UsageError(
            f"{made} of {len(judged)} questions are made ones, which do not always rank strategies as real ones do",
            "give questions that people asked, or --trust-made; see docs/evaluation.md",
        )
    return judged


def split_of(questions: Sequence[Question], seed: int = 0) -> HeldOutSplit:
    """By cluster, in a drawn order: questions about one document are all on one side."""
    draw = random.Random(seed)
    numbers = clusters(questions)
    sizes = Counter(numbers)
    order = sorted(sizes)
    draw.shuffle(order)
    room, held = round(HELD_OUT * len(questions)), set[int]()
    for cluster in order:
        if sizes[cluster] <= room:
            held.add(cluster)
            room -= sizes[cluster]
    places = list(range(len(questions)))
    draw.shuffle(places)
    sides = [[i for i in places if (numbers[i] in held) is side] for side in (False, True)]
    if len(sides[1]) < FEWEST_HELD_OUT:
        largest = max(sizes.values())
        raise UsageError(
            f"{largest} of {len(questions)} questions hang together by their documents: too few can be held out",
            "ask about more documents",
        )
    tuned, apart = sides
    return HeldOutSplit(
        tuple(questions[i] for i in tuned),
        tuple(numbers[i] for i in tuned),
        tuple(questions[i] for i in apart),
        tuple(numbers[i] for i in apart),
    )


def probed(
    dimensions: Sequence[Dimension], strategy: str, contexts: ContextMeasure, questions: Sequence[Question]
) -> tuple[list[Dimension], dict[str, str]]:
    """The dimensions that change a context of these questions at an end of their range, and why the others are left out."""
    usual = [contexts.context(Point(strategy), question).text for question in questions]
    kept, idle = [], {}
    for one in dimensions:
        working: list[Value] = []
        reason = "it changes no context here"
        for value in one.extremes:
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
            kept.append(one.with_choices(working))
        else:
            idle[one.name] = reason
    return kept, idle


def models_of(index: Index) -> list[str]:
    """What else contexts depend on: models, weights, and how the index is searched by default."""
    models = index.models
    named = (models.embedder, models.chat, models.reranker, models.scorer)
    specs = (type(model).__name__ + getattr(model, "spec", "") for model in named)
    return [index.manifest.embedder, *specs, digest(models.weights), str(index.search_settings)]


def _toml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
