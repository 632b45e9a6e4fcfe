"""What a context holds, judged by its text alone, so that the contexts of other systems are judged by the same code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.words import normalise
from mergewise.protocols import TokenCounter

CONTEXT_SCORES = ("answer", "evidence", "all", "density")


@dataclass(frozen=True, slots=True)
class Score:
    """One context: `answer` and `all` are 0 or 1, `evidence` and `density` shares. None where nobody marked the evidence."""

    answer: float
    evidence: float | None
    all: float | None
    density: float


def score_context(question: Question, context: str, context_tokens: int, count_tokens: TokenCounter) -> Score:
    """`answer`: whether the context holds a gold answer as whole words. `evidence`: the share of the gold pieces whose whole
    text it holds. `all`: whether it holds every piece. `density`: the tokens of the pieces it holds per token of the context.

    A question without marked evidence has no `evidence` and `all`; its pieces are then the longest answer that the context
    holds, so that `density` still says which of two contexts says it in fewer tokens.
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


def mean_of_known(values: Sequence[float | None]) -> float | None:
    """The mean of those that there are; None where there is none of any."""
    known = [value for value in values if value is not None]
    return mean(known) if known else None
