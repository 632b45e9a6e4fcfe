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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mergewise.defaults import STRATEGY
from mergewise.engine import Index
from mergewise.errors import MergewiseError, UsageError
from mergewise.evaluate.metrics import mean
from mergewise.evaluate.question_sets import Question, clusters
from mergewise.evaluate.runs.keys import digest
from mergewise.evaluate.statistics import Interval, paired_interval, sign_flip
from mergewise.evaluate.synthetic.records import MADE
from mergewise.evaluate.tuning.keeping import HoldoutAccess, HoldoutLog, KeptMeasure
from mergewise.evaluate.tuning.measuring import ContextMeasure, Measure, Metric, PointScore, judged_questions
from mergewise.evaluate.tuning.space import Dimension, Point, Value, dimensions_of, drawn_points
from mergewise.evaluate.tuning.trials import run_trials, table, winner_of
from mergewise.ranges import BUDGET, Range, number, whole
from mergewise.store import Progress

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


class HeldOutSplit(NamedTuple):
    """Questions to tune on, and questions held out, both in a drawn order."""

    tuned: list[Question]
    held_out: list[Question]


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
    """Tune the parameters of a strategy, and of the search, on these questions.

    `strategy` is a spec: its parameters are the default to be beaten. A tuning takes about `seconds`, of which the trials take
    0.8 at most. Its measurements are kept in `folder` (by default in the index's directory), so that a stopped tuning goes on.

    Raises:
        UsageError: for fewer than `FEWEST` questions that the metric can judge, for questions that cannot be split, for made
            ones without `trust_made`, and if the folder cannot be written.
    """
    budget = whole("the budget is", budget, BUDGET)
    number("the time is", seconds, float, Range(1, 1_000_000))
    started = time.monotonic()
    split = split_of(usable_questions(questions, metric, trust_made), seed)
    contexts = ContextMeasure(index, metric, budget)
    dimensions, idle = probed(dimensions_of(strategy, index.search_settings), strategy, contexts, split.tuned[:PROBED])
    points = drawn_points(strategy, dimensions, POINTS - 1, seed)
    report = progress or (lambda done, total, item: None)
    return compare_points(
        points,
        split,
        contexts,
        setup_of(index, metric, budget),
        folder or index.store.directory / FOLDER,
        idle,
        lambda: time.monotonic() - started < TRYING * seconds,
        lambda seen: report(seen, len(split.tuned), f"{len(points)} points"),
    )


def setup_of(index: Index, metric: Metric, budget: int) -> dict[str, Any]:
    """Return all that scores depend on: the index, the metric, the budget, the models, and the default search."""
    models = index.models
    named = (models.embedder, models.chat, models.reranker, models.scorer)
    specs = (type(model).__name__ + getattr(model, "spec", "") for model in named)
    others = [index.manifest.embedder, *specs, digest(models.weights), str(index.search_settings)]
    return {"snapshot": index.snapshot, "budget": budget, "metric": metric, "models": others}


def compare_points(
    points: Sequence[Point],
    split: HeldOutSplit,
    measure: Measure,
    setup: Mapping[str, Any],
    folder: Path,
    idle: Mapping[str, str],
    has_time: Callable[[], bool] = lambda: True,
    on_question: Callable[[int], None] = lambda seen: None,
) -> TuningReport:
    """Measure the points on the questions to tune on, and compare the winner with the default on the held-out ones.

    Nothing is held out from a winner that is the default. Rows and the log of held-out questions are kept in `folder`.
    """
    measure = KeptMeasure(measure, folder / digest(setup), setup["metric"])
    trials = run_trials(points, split.tuned, measure, has_time, on_question)
    default, winner, held_out = points[0], points[winner_of(trials, clusters(split.tuned))], None
    reason = "nothing was better by more than chance on the questions to tune on"
    if len(points) == 1:
        reason = "no parameter changes a context here"
    elif trials.seen < min(SEEN, len(split.tuned)):
        winner, reason = default, f"there was time for {trials.seen} questions only: give it more (--time)"
    if winner is not default:
        log = HoldoutLog(folder)
        opening = log.open({**setup, "default": default.key, "winner": winner.key}, split.held_out)
        held_out = _held_out([measure([default, winner], question) for question in split.held_out], split, opening)
        log.close(opening, asdict(held_out))
    return TuningReport(
        default.spec,
        setup["metric"],
        setup["budget"],
        winner,
        held_out,
        len(split.tuned),
        trials.seen,
        table(trials),
        idle,
        reason,
    )


def _held_out(rows: Sequence[Sequence[PointScore]], split: HeldOutSplit, opening: HoldoutAccess) -> HeldOut:
    before, after = ([row[side].score for row in rows] for side in (0, 1))
    differences = [b - a for a, b in zip(before, after, strict=True)]
    numbers = clusters(split.held_out)
    return HeldOut(
        questions=len(rows),
        default=mean(before),
        winner=mean(after),
        default_tokens=mean([row[0].tokens for row in rows]),
        winner_tokens=mean([row[1].tokens for row in rows]),
        difference=mean(differences),
        interval=paired_interval(after, before, numbers),
        p=sign_flip(differences, numbers),
        alpha=opening.alpha,
        before=opening.before,
    )


def usable_questions(questions: Sequence[Question], metric: Metric, trust_made: bool) -> list[Question]:
    """Return the questions that the metric can judge. Raises UsageError for too few, and for made ones without `trust_made`."""
    judged = judged_questions(questions, metric)
    if len(judged) < FEWEST:
        others = len(questions) - len(judged)
        left_out = f" ({others} have no {metric} to be judged by)" if others else ""
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
    """Split by cluster, in a drawn order: questions about one document are all on one side."""
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
    split = HeldOutSplit(*([questions[i] for i in places if (numbers[i] in held) is side] for side in (False, True)))
    if len(split.held_out) < FEWEST_HELD_OUT:
        raise UsageError(
            f"{max(sizes.values())} of {len(questions)} questions hang together by their documents: "
            "too few can be held out",
            "ask about more documents",
        )
    return split


def probed(
    dimensions: Sequence[Dimension], strategy: str, contexts: ContextMeasure, questions: Sequence[Question]
) -> tuple[list[Dimension], dict[str, str]]:
    """Return the dimensions that change a context of these questions at an end of their range, and why others are left out."""
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


def _toml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
