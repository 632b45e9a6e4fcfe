"""The columns of a report: the label and the meaning of each score, and the default scores."""

from __future__ import annotations

from mergewise.errors import UsageError
from mergewise.evaluate.measured import OF_ANSWERS, Measured
from mergewise.evaluate.metrics import CONTEXT_SCORES
from mergewise.evaluate.ranking import GAINED, MEASURES, RANKING_SCORES, RECALLED, is_measure, measure_of
from mergewise.evaluate.report_records import ReportColumn

COLUMNS = {
    "answer": ReportColumn("answer", "share of questions whose context holds a gold answer, as whole words"),
    "evidence": ReportColumn("evidence", "share of marked gold texts that the context holds completely"),
    "all": ReportColumn("all", "share of questions whose context holds all marked gold texts"),
    "density": ReportColumn("density", "tokens of held gold texts (or of the answer) per token of context"),
    "tokens": ReportColumn("tokens", "mean tokens per context", 1, False),
    "query_ms": ReportColumn("ms", "median milliseconds to find and assemble a context", 1, False),
    **{f"recall@{k}": ReportColumn(f"R@{k}", f"share of gold documents among the first {k}") for k in RECALLED},
    "all@5": ReportColumn("all@5", "share of questions with all gold documents among the first 5"),
    f"ndcg@{GAINED}": ReportColumn(
        f"nDCG@{GAINED}", f"gains of the first {GAINED}, discounted by rank, relative to the best ranking"
    ),
    "mrr": ReportColumn("MRR", "mean of 1 / rank of the first gold document"),
    "em": ReportColumn("EM", "share of answers equal to the gold answer"),
    "f1": ReportColumn("F1", "harmonic mean of word precision and word recall"),
    "relaxed_em": ReportColumn("relaxed", "share of answers that contain the gold answer, also within words"),
    "contains_words": ReportColumn("words", "share of answers that contain the gold answer as whole words"),
    "average": ReportColumn("avg", "mean of relaxed and F1"),
    "accuracy": ReportColumn("accuracy", "share of answers that contain the gold answer, also within words"),
    "precision": ReportColumn("precision", "share of the answer's words that are in the gold answer"),
    "recall": ReportColumn("recall", "share of the gold answer's words that are in the answer"),
    "refused": ReportColumn("refused", "share of unanswerable questions that were refused"),
    "sure": ReportColumn("sure", "share of unanswerable questions that got a sure answer"),
    "withheld": ReportColumn("withheld", "share of answerable questions that were refused"),
    "calls": ReportColumn("calls", "mean model calls per question", 1, False),
    "input_tokens": ReportColumn("in", "mean tokens read by a model per question", 1, False),
    "output_tokens": ReportColumn("out", "mean tokens written by a model per question", 1, False),
    "answer_seconds": ReportColumn("answer s", "mean seconds to answer from the context", 2, False),
    "seconds": ReportColumn("seconds", "mean seconds per question, in total", 2, False),
}
COSTS = ("tokens", "query_ms", "calls", "input_tokens", "output_tokens", "answer_seconds", "seconds")
CONTEXT_METRICS = ("answer", "evidence", "all", "density")
DOCUMENT_METRICS = ("recall@2", "recall@5")
ANSWER_METRICS = ("em", "f1", "relaxed_em", "refused", "evidence")
QUOTATION_METRICS = ("relaxed_em", "f1", "refused", "evidence")
"""Scores of answers that only quote: they are longer than any gold answer, so EM says nothing."""
MAIN = ("f1", "evidence", "answer", "recall@5", "refused")
"""Candidates for the main metric: the first measured one is used. For quotations `relaxed_em` comes first."""


def column_of(metric: str) -> ReportColumn:
    """Return the column of a metric. A metric that is not listed is labelled by its name."""
    known = COLUMNS.get(metric)
    return known or ReportColumn(metric.replace("_", " "), measure_of(metric)[0].about if is_measure(metric) else "")


def main_metric(measured: Measured) -> str:
    """Return the metric that methods are compared by, or an empty text if nothing was measured."""
    candidates = (*(QUOTATION_METRICS if measured.quoted else MAIN), *measured.metrics)
    return next((name for name in candidates if name in measured.metrics), "")


def metric_names(names: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in names.split(","))))


def check_metric_names(names: str) -> None:
    """Raise UsageError for a name that no run can have."""
    known = {*COLUMNS, *CONTEXT_SCORES, *RANKING_SCORES, *OF_ANSWERS}
    for name in metric_names("" if names == "all" else names):
        if name not in known and not is_measure(name):
            raise UsageError(f"unknown score: {name!r}", f"one of: {', '.join((*MEASURES, *sorted(known)))}")


def chosen_metrics(measured: Measured, names: str = "") -> tuple[str, ...]:
    """Return the metrics of the tables of sets.

    `names` lists metrics, separated by commas, or is "all", or empty for the default metrics. Measures of rankings must have been
    passed to `measured_runs`.

    Raises:
        UsageError: if a name is unknown, or no question has this score.
    """
    shares = [name for name in measured.metrics if name not in COSTS]
    if names == "all":
        return tuple(shares)
    if names:
        asked = metric_names(names)
        for name in asked:
            if name not in measured.metrics:
                if is_measure(name):
                    raise UsageError(f"no question has the score {name!r}", "use a question set with gold documents")
                raise UsageError(f"unknown score: {name!r}", f"one of: {', '.join(measured.metrics)}")
        return asked
    has_gold_documents = any(question.gold_docs for one in measured.sets for question in one.questions)
    contexts = (*CONTEXT_METRICS, *DOCUMENT_METRICS) if has_gold_documents else CONTEXT_METRICS
    answers = QUOTATION_METRICS if measured.quoted else ANSWER_METRICS
    return tuple(name for name in (answers if measured.answered else contexts) if name in shares)
