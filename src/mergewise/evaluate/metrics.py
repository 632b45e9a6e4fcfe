"""Scores of a context. They use its text only, so the same code can score the contexts of other systems."""

from __future__ import annotations

from collections.abc import Sequence

from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.words import normalise
from mergewise.protocols import TokenCounter
from mergewise.types import frozen

CONTEXT_SCORES = ("answer", "evidence", "all", "density")


@frozen
class Score:
    """Scores of one context: `answer` and `all` are 0 or 1, `evidence` and `density` are shares.

    `evidence` and `all` are None if the question has no marked evidence.
    """

    answer: float
    evidence: float | None
    all: float | None
    density: float


def score_context(question: Question, context: str, context_tokens: int, count_tokens: TokenCounter) -> Score:
    """Score a context by the gold of its question.

    - `answer`: 1 if the context holds a gold answer as whole words.
    - `evidence`: the share of gold pieces that the context holds completely.
    - `all`: 1 if it holds every piece.
    - `density`: tokens of the held pieces per token of the context.

    Without marked evidence, `density` uses the longest gold answer that the context holds.
    """
    text = normalise(context)
    answers = [answer for answer in question.answers if normalise(answer).strip() and normalise(answer) in text]
    gold = question.evidence
    held = [max(answers, key=len)] if gold is None and answers else []
    held += [piece for _, piece in gold or () if normalise(piece) in text]
    return Score(
        answer=float(bool(answers)),
        evidence=None if gold is None else len(held) / len(gold) if gold else 0.0,
        all=None if gold is None else float(len(held) == len(gold) > 0),
        density=sum(count_tokens(held)) / context_tokens if context_tokens and held else 0.0,
    )


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
