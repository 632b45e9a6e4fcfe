"""Rows for files: a row for each question, method and budget, and the means over the questions of a set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from mergewise.evaluate.answers import ANSWER_SCORES, REFUSALS, WITHHELD
from mergewise.evaluate.citing import CITATION_SCORES
from mergewise.evaluate.measured import CellKey, Measured
from mergewise.evaluate.metrics import CONTEXT_SCORES
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.ranking import RANKING_SCORES, is_measure
from mergewise.evaluate.runs.run_folder import Run
from mergewise.evaluate.runs.run_row import RunRow
from mergewise.evaluate.statistics import Interval
from mergewise.types import JsonDict, frozen

ANSWER_FIGURES = (*ANSWER_SCORES, *CITATION_SCORES, *REFUSALS, WITHHELD)
WITH_INTERVAL = (*CONTEXT_SCORES, "tokens", *RANKING_SCORES, *ANSWER_FIGURES)
ANSWER_COSTS = ("input_tokens", "output_tokens", "seconds", "answer_seconds")


@frozen
class MethodMeans:
    """Mean scores of one method at one budget over the questions of a set. `query_ms` is a median.

    `scores` omits scores without a value. `intervals` are 95 % confidence intervals. `unanswerable` counts the
    questions without an answer in the documents, and `failed` those that raised an error. `mode` is None without answers.
    `judge` is the spec of the reranker or utility predictor that scored the passages.
    """

    dataset: str
    strategy: str
    budget: int
    scores: Mapping[str, float]
    intervals: Mapping[str, Interval]
    questions: int = 0
    unanswerable: int = 0
    mode: str | None = None
    failed: int = 0
    judge: str = ""

    def as_dict(self) -> JsonDict:
        """Return the means as a flat dictionary. Keys of intervals are `NAME_interval`."""
        scores = self.scores
        values: JsonDict = {"dataset": self.dataset, "strategy": self.strategy, "budget": self.budget}
        values |= {name: scores.get(name) for name in CONTEXT_SCORES}
        values |= {name: scores.get(name, 0.0) for name in ("tokens", "query_ms")}
        values |= {"questions": self.questions, "unanswerable": self.unanswerable}
        values |= {name: scores[name] for name in (*RANKING_SCORES, *scores) if name in scores and is_measure(name)}
        if self.mode is not None:
            values |= {"mode": self.mode, "failed": self.failed}
            values |= {name: scores.get(name) for name in (*ANSWER_FIGURES, *ANSWER_COSTS)}
        values |= {"judge": self.judge} if self.judge else {}
        return values | {f"{name}_interval": bounds for name, bounds in self.intervals.items()}


def method_means(run: Run, measured: Measured) -> Iterator[MethodMeans]:
    """Yield the means of each set, method and budget of a run."""
    rows: dict[CellKey, list[RunRow]] = {}
    for row in run.run_rows():
        if row.repeat == 0:
            rows.setdefault(CellKey(row.set, measured.names[0, row.method, row.mode], row.budget), []).append(row)
    unanswerable = {one.name: sum(not question.answerable for question in one.questions) for one in measured.sets}
    for key, own in rows.items():
        scored = ((metric, measured.scored(*key, metric)) for metric in measured.values[key])
        known = {metric: column for metric, column in scored if column is not None}
        means = {name: column.median if name == "query_ms" else column.mean for name, column in known.items()}
        bounds = {
            name: measured.tests.interval(known[name]) for name in known if name in WITH_INTERVAL or is_measure(name)
        }
        yield MethodMeans(
            *key,
            scores={name: mean for name, mean in means.items() if mean is not None},
            intervals={name: interval for name, interval in bounds.items() if interval is not None},
            questions=len(own),
            unanswerable=unanswerable[key.set],
            mode=next((row.mode for row in own if row.mode is not None and not row.error), None),
            failed=sum(bool(row.error) for row in own),
            judge=next((row.judge for row in own if row.judge), ""),
        )


def question_rows(run: Run, measured: Measured) -> Iterator[JsonDict]:
    """Yield a flat dictionary for each question, method and budget. Only the first repeat counts."""
    asked = {
        (one.name, question.id): (question, cluster)
        for one in measured.sets
        for question, cluster in zip(one.questions, one.clusters, strict=True)
    }
    for row in run.run_rows():
        if row.repeat == 0:
            yield _question_row(row, *asked[row.set, row.question])


def _question_row(row: RunRow, question: Question, cluster: int) -> JsonDict:
    values: JsonDict = {"dataset": row.set, "strategy": row.method, "budget": row.budget}
    values |= {"id": question.id, "question": question.text, "gold": list(question.answers)}
    values |= {"answerable": question.answerable, "cluster": cluster, "missed": is_missed(row, question)}
    values |= {name: row.scores.get(name) if question.answerable else None for name in CONTEXT_SCORES}
    values["tokens"] = row.tokens
    if row.error:
        values |= dict.fromkeys(("found", "lost", "ranked"))
    else:
        values |= {"found": [asdict(one) for one in row.found], "lost": [asdict(one) for one in row.lost]}
        values["ranked"] = [one.doc for one in row.ranking]
        values |= {name: known for name in RANKING_SCORES if (known := row.scores.get(name)) is not None}
    values["query_ms"] = None if row.query_seconds is None else 1000 * row.query_seconds
    if row.mode is not None and not row.error:
        values |= {name: getattr(row, name) for name in ("mode", "prediction", *REFUSALS)}
        values |= {name: row.scores.get(name) for name in (*ANSWER_SCORES, *CITATION_SCORES)}
        values |= {name: getattr(row, name) for name in ANSWER_COSTS}
    values |= {"judge": row.judge} if row.judge else {}
    return values | {"error": row.error}


def is_missed(row: RunRow, question: Question) -> bool:
    """Check whether a row missed its question.

    An answer misses if it lacks the gold answer (as whole words, if a model wrote it), or if the question has no answer and the
    model gave one anyway. A context misses if it lacks gold texts.
    """
    if row.error:
        return True
    if row.mode is not None and question.has_answers:
        return row.scores.get("relaxed_em" if row.mode == "extractive" else "contains_words") != 1
    if row.mode is not None and not question.answerable:
        return not row.refused
    return bool(row.lost)
