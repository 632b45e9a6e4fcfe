"""The rows of an evaluation: a strategy or method at one budget on one question set."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mergewise.evaluate.intervals import Interval


@dataclass(frozen=True, slots=True)
class AnswerMeans:
    """Scores and costs of answers, means over the `questions`; `failed` questions got no answer.

    `seconds` are those of a question, `answer_seconds` its seconds after the context was assembled. Intervals are of 95 percent.
    """

    mode: str
    questions: int
    failed: int
    em: float
    f1: float
    relaxed_em: float
    accuracy: float
    input_tokens: float
    output_tokens: float
    seconds: float
    answer_seconds: float
    em_interval: Interval
    f1_interval: Interval
    relaxed_em_interval: Interval


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """One strategy at one budget on one question set: means over the questions; `query_ms` is the median.

    `evidence` and `all` are None where no question has marked evidence, and `answers` where no answers were asked for.
    """

    dataset: str
    strategy: str
    budget: int
    answer: float
    evidence: float | None
    all: float | None
    density: float
    tokens: float
    query_ms: float
    answers: AnswerMeans | None = None

    def as_dict(self) -> dict[str, Any]:
        """Flat; the keys of answers are there where answers were asked for."""
        values = asdict(self)
        answers = values.pop("answers")
        return values if answers is None else {**values, **answers}
