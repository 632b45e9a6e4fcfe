"""The budget `auto` against fixed budgets: tokens used and evidence held."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, quantiles

import numpy as np

from mergewise.defaults import AUTO_BUDGET, AUTO_PRICE
from mergewise.engine import Index
from mergewise.evaluate.metrics import score_context
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.evaluate.run import Split, chosen_questions
from mergewise.models.tokens import count_tokens
from mergewise.query import Budget

FIXED = (64, 128, 192, 256, 384, 512, 640, 768, AUTO_BUDGET)
WIDTH = 40  # characters per bar


@dataclass(frozen=True, slots=True)
class Place:
    """Results at one budget: the tokens of each context, and the means of evidence and all."""

    tokens: tuple[int, ...]
    evidence: float
    all: float

    @property
    def used(self) -> float:
        return mean(self.tokens)


def place(index: Index, questions: Sequence[Question], budget: Budget) -> Place:
    tokens, evidence, held = [], [], []
    for question in questions:
        context = index.context(question.text, strategy="weave", budget=budget)
        score = score_context(question, context.text, context.tokens, count_tokens)
        tokens.append(context.tokens)
        evidence.append(score.evidence or 0.0)
        held.append(score.all or 0.0)
    return Place(tuple(tokens), mean(evidence), mean(held))


def on_curve(curve: Sequence[Place], tokens: float) -> tuple[float, float]:
    """Interpolate evidence and all between fixed budgets, at a mean use of `tokens`."""
    used = [point.used for point in curve]
    return (
        float(np.interp(tokens, used, [point.evidence for point in curve])),
        float(np.interp(tokens, used, [point.all for point in curve])),
    )


def slope(curve: Sequence[Place], tokens: float) -> float:
    """Return the gain of `all`, in percentage points, for 100 further tokens at this place of the curve."""
    for low, high in pairwise(curve):
        if tokens <= high.used or high is curve[-1]:
            return 100 * 100 * (high.all - low.all) / max(1.0, high.used - low.used)
    return 0.0


def bar(value: float, mark: str = "█") -> str:
    return mark * round(WIDTH * value)


def report(tasks: Iterable[tuple[QuestionSet, Index]], split: Split, limit: int) -> None:
    """Print a table with bars for each set, and one summary table."""
    rows = []
    print(
        f"weave, split {split}, at most {limit} questions a set; auto is at most {AUTO_BUDGET} tokens, price {AUTO_PRICE}\n"
    )
    for task, index in tasks:
        questions = chosen_questions(task, split, limit)
        if not questions:
            continue
        curve = [place(index, questions, budget) for budget in FIXED]
        auto = place(index, questions, "auto")
        evidence, held = on_curve(curve, auto.used)
        tenths = quantiles(auto.tokens, n=10) if len(auto.tokens) > 1 else [auto.used] * 9
        print(f"{task.name}, {len(questions)} questions\n")
        print("| budget | tokens used | evidence | all | |\n| --- | --- | --- | --- | --- |")
        lines = [(one.used, f"| {budget} ", one, "█") for budget, one in zip(FIXED, curve, strict=True)]
        lines.append((auto.used, "| **auto** ", auto, "▒"))
        for _, name, one, mark in sorted(lines, key=lambda line: line[0]):
            print(f"{name}| {one.used:.0f} | {one.evidence:.3f} | {one.all:.3f} | {bar(one.all, mark)} |")
        print(flush=True)
        rows.append(
            f"| {task.name} | {auto.used:.0f} | {tenths[0]:.0f} to {tenths[8]:.0f} | {auto.evidence:.3f}/{auto.all:.3f} "
            f"| {evidence:.3f}/{held:.3f} | {curve[-1].evidence:.3f}/{curve[-1].all:.3f} | {slope(curve, auto.used):.1f} |"
        )
    print(
        "| | tokens of auto | 10th to 90th percentile | evidence/all of auto | of a fixed budget of the same use "
        f"| of {AUTO_BUDGET} | points of all per 100 tokens more |\n" + "| --- " * 7 + "|"
    )
    print("\n".join(rows))
