"""Measurements of points: the score and the tokens of the context of a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from math import log
from typing import Literal, TypeAlias, get_args

from mergewise import Index, Query, asking, count_tokens
from mergewise.errors import UsageError
from mergewise.evaluate.metrics import score_context
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.searches import SearchMemory, shared_state
from mergewise.evaluate.tuning.space import Point
from mergewise.extend import Calibrated, Calibration, RememberingReranker
from mergewise.types import Context, frozen

Metric: TypeAlias = Literal["evidence", "all", "answer", "density"]
_LEAST = 1e-6
METRICS: tuple[Metric, ...] = get_args(Metric)


@frozen
class PointScore:
    score: float
    tokens: int


Measure: TypeAlias = Callable[[Sequence[Point], Question], list[PointScore]]


class ContextMeasure:
    """A measure of points by their contexts, on one state of an index. All points of a question share its searches."""

    def __init__(self, index: Index, metric: Metric, budget: int) -> None:
        state = index.state()
        self.memory = SearchMemory()
        reranker = state.models.reranker
        if isinstance(reranker, Calibrated):
            # the calibration stays the outermost wrapper
            reranker = Calibrated(RememberingReranker(reranker.reranker), reranker.calibration)
        elif reranker is not None:
            reranker = RememberingReranker(reranker)
        models = replace(state.models, reranker=reranker)
        self.state = shared_state(replace(state, models=models), self.memory)
        self._metric, self._budget = metric, budget

    def with_models(self, weights: Mapping[str, float] | None, calibration: Calibration | None) -> ContextMeasure:
        """Return a copy with other weights of weave and another calibration of the reranker. It shares the searches."""
        other, models = copy(self), self.state.models
        reranker = models.reranker
        if calibration is not None and reranker is not None:
            reranker = Calibrated(reranker.reranker if isinstance(reranker, Calibrated) else reranker, calibration)
        other.state = replace(self.state, models=replace(models, weights=weights or models.weights, reranker=reranker))
        return other

    def __call__(self, points: Sequence[Point], question: Question) -> list[PointScore]:
        self.memory.forget()
        return [self.score(point, question) for point in points]

    def score(self, point: Point, question: Question) -> PointScore:
        context = self.context(point, question)
        value: float | None = getattr(score_context(question, context.text, context.tokens, count_tokens), self._metric)
        if value is None:
            raise UsageError(f"question without marked evidence: {question.id}", "use --metric answer")
        return PointScore(value, context.tokens)

    def completeness(self, point: Point, question: Question) -> list[tuple[float, float]]:
        """Return the log-odds of `Context.complete` at half the budget, the budget and its double, each with 1 if all is held."""
        self.memory.forget()
        rows = []
        for budget in (max(1, self._budget // 2), self._budget, 2 * self._budget):
            context = self.context(point, question, budget)
            p = min(max(context.complete or 0.0, _LEAST), 1 - _LEAST)
            score = score_context(question, context.text, context.tokens, count_tokens)
            rows.append((log(p / (1 - p)), float(score.all == 1)))
        return rows

    def context(self, point: Point, question: Question, budget: int | None = None) -> Context:
        state = replace(self.state, settings=point.settings(self.state.settings))
        query = Query(question.text, strategy=point.spec, budget=budget or self._budget, where=question.where)
        return asking.context(query, state)
