"""The rows of an evaluation: one for each question by a strategy or method at a budget, and one for their means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from mergewise.evaluate.answers import ANSWER_SCORES
from mergewise.evaluate.citing import CITATION_SCORES
from mergewise.evaluate.judged import JudgedContext
from mergewise.evaluate.metrics import mean, mean_of_known
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.ranking import RANKING_SCORES, ranking_score
from mergewise.evaluate.statistics import Interval, mean_interval

CONTEXT_SCORES = ("answer", "evidence", "all", "density")
REFUSALS = ("refused", "sure")
"""Known of questions without an answer alone."""
WITHHELD = "withheld"
"""The same as `refused`, of questions that have an answer."""
CONTEXT_FIGURES = (*CONTEXT_SCORES, "tokens")
ANSWER_FIGURES = (*ANSWER_SCORES, *CITATION_SCORES, *REFUSALS, WITHHELD)


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """The answer to one question, and what it cost. Scores are None where there is no gold answer.

    `refused` says that nothing was claimed. `sure` is None where that is not known, seconds where they were not spent: a kept
    answer came in no time.
    """

    mode: str
    prediction: str
    refused: bool
    sure: bool | None
    em: float | None
    f1: float | None
    relaxed_em: float | None
    accuracy: float | None
    precision: float | None = None
    recall: float | None = None
    contains_words: float | None = None
    average: float | None = None
    rouge_l: float | None = None
    hotpot_f1: float | None = None
    citation_precision: float | None = None
    citation_recall: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float | None = 0.0
    answer_seconds: float | None = 0.0


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """One question by one strategy at one budget. Questions of one `cluster` share a document of their evidence.

    `context` and `query_ms` are None where the question failed, with an `error`.
    """

    dataset: str
    strategy: str
    budget: int
    question: Question
    cluster: int
    context: JudgedContext | None = None
    query_ms: float | None = None
    answers: AnswerRow | None = None
    error: str = ""

    @property
    def missed(self) -> bool:
        """Whether it went wrong: an answer that lacks the gold one, or claims one where there is none; of contexts alone, one
        that lacks a piece of the evidence, or where none is marked the answer.
        """
        if self.error or self.context is None:
            return True
        if self.answers is not None and self.question.has_answers:
            return self.answers.contains_words != 1
        if self.answers is not None and not self.question.answerable:
            return not self.answers.refused
        return bool(self.context.lost)

    def score(self, name: str) -> float | None:
        """A score by its name, of the context or of the answer. What is known of questions without an answer alone, `refused` and
        `sure`, is 0 or 1. A failed question has the scores of no answer, and no context.
        """
        if name in RANKING_SCORES:
            return None if self.context is None else ranking_score(name, self.context.ranked, self.question.gains)
        if name in CONTEXT_FIGURES:
            value = None if self.context is None else getattr(self.context, name)
        elif not self._is_judged(name):
            return None
        elif self.answers is None:
            return 0.0 if self.error else None
        else:
            value = getattr(self.answers, "refused" if name == WITHHELD else name)
        return None if value is None else float(value)

    def _is_judged(self, name: str) -> bool:
        """Whether a score of answers says something of this question."""
        if name in REFUSALS:
            return not self.question.answerable
        return self.question.answerable if name in (WITHHELD, *CITATION_SCORES) else self.question.has_answers

    def as_dict(self) -> dict[str, Any]:
        """Flat; the keys of answers are there where answers were asked for."""
        question = self.question
        return {
            "dataset": self.dataset,
            "strategy": self.strategy,
            "budget": self.budget,
            "id": question.id,
            "question": question.text,
            "gold": list(question.answers),
            "answerable": question.answerable,
            "cluster": self.cluster,
            "missed": self.missed,
            **(dict.fromkeys(JudgedContext.__slots__) if self.context is None else asdict(self.context)),
            **{name: score for name in RANKING_SCORES if (score := self.score(name)) is not None},
            "query_ms": self.query_ms,
            **({} if self.answers is None else asdict(self.answers)),
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class AnswerMeans:
    """Scores and costs of answers: means over the questions that have an answer; `failed` questions got none.

    `seconds` are those of a question, `answer_seconds` its seconds after the context was assembled. `refused` and `sure` are
    shares of the questions that the documents do not answer, `withheld` of those that they do.
    """

    mode: str
    failed: int
    em: float | None
    f1: float | None
    relaxed_em: float | None
    accuracy: float | None
    precision: float | None
    recall: float | None
    contains_words: float | None
    average: float | None
    rouge_l: float | None
    hotpot_f1: float | None
    citation_precision: float | None
    citation_recall: float | None
    refused: float | None
    sure: float | None
    withheld: float | None
    input_tokens: float
    output_tokens: float
    seconds: float | None
    answer_seconds: float | None


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """One strategy at one budget on one question set: means over the questions; `query_ms` is the median.

    `evidence` and `all` are None where no question has marked evidence, `answers` where no answers were asked for, and the
    scores of contexts where the documents answer none of the `questions`, of which they do not answer `unanswerable`.
    `intervals` are those of the means, of 95 percent, by name. `ranking` holds those of rankings by name, and is empty
    where no question has gold documents.
    """

    dataset: str
    strategy: str
    budget: int
    answer: float | None
    evidence: float | None
    all: float | None
    density: float | None
    tokens: float
    query_ms: float
    answers: AnswerMeans | None = None
    questions: int = 0
    unanswerable: int = 0
    intervals: Mapping[str, Interval] = field(default_factory=dict, compare=False)
    ranking: Mapping[str, float] = field(default_factory=dict)

    def value(self, name: str) -> float | None:
        """A mean by its name, of contexts, of rankings or of answers."""
        if name in RANKING_SCORES:
            return self.ranking.get(name)
        found: float | None = getattr(self.answers if hasattr(self.answers, name) else self, name)
        return found

    def as_dict(self) -> dict[str, Any]:
        """Flat; the keys of answers are there where answers were asked for, and for each interval `NAME_interval`."""
        values = asdict(self)
        answers, intervals, ranking = (values.pop(name) for name in ("answers", "intervals", "ranking"))
        return {
            **values,
            **ranking,
            **(answers or {}),
            **{f"{name}_interval": bounds for name, bounds in intervals.items()},
        }


def mean_row(rows: Sequence[QuestionRow]) -> EvaluationRow:
    """The means of the rows of one strategy at one budget, of answers where any question has one."""
    first = rows[0]
    answered = any(row.answers is not None for row in rows)
    judged = {
        name: _known_scores(rows, name)
        for name in (*CONTEXT_FIGURES, *RANKING_SCORES, *(ANSWER_FIGURES if answered else ()))
    }
    times = [row.query_ms for row in rows if row.query_ms is not None]
    means = {name: mean(values) if values else None for name, (values, _) in judged.items()}
    return EvaluationRow(
        dataset=first.dataset,
        strategy=first.strategy,
        budget=first.budget,
        **{name: means[name] for name in CONTEXT_SCORES},
        tokens=means["tokens"] or 0.0,
        query_ms=median(times) if times else 0.0,
        answers=_answer_means(rows, means) if answered else None,
        questions=len(rows),
        unanswerable=sum(not row.question.answerable for row in rows),
        intervals={name: mean_interval(*values) for name, values in judged.items() if values[0]},
        ranking={name: known for name in RANKING_SCORES if (known := means[name]) is not None},
    )


def _answer_means(rows: Sequence[QuestionRow], means: Mapping[str, float | None]) -> AnswerMeans:
    costs = [row.answers for row in rows if row.answers is not None]
    return AnswerMeans(
        mode=costs[0].mode,
        failed=len(rows) - len(costs),
        **{name: means[name] for name in ANSWER_FIGURES},
        input_tokens=mean([float(one.input_tokens) for one in costs]),
        output_tokens=mean([float(one.output_tokens) for one in costs]),
        seconds=mean_of_known([one.seconds for one in costs]),
        answer_seconds=mean_of_known([one.answer_seconds for one in costs]),
    )


def _known_scores(rows: Sequence[QuestionRow], name: str) -> tuple[list[float], list[int]]:
    """The scores of the questions that have one, with their clusters."""
    known = [(score, row.cluster) for row in rows if (score := row.score(name)) is not None]
    return [score for score, _ in known], [cluster for _, cluster in known]
