"""The columns of a report: the label of each score, its meaning, and the scores that are shown by default."""

from __future__ import annotations

from mergewise.errors import UsageError
from mergewise.evaluate.measured import Measured
from mergewise.evaluate.ranking import GAINED, RECALLED
from mergewise.page import ReportColumn

COLUMNS = {
    "answer": ReportColumn("answer", "share of questions whose context holds a gold answer, as whole words"),
    "evidence": ReportColumn("evidence", "share of marked gold texts that the context holds whole"),
    "all": ReportColumn("all", "share of questions whose context holds all of them"),
    "density": ReportColumn("density", "tokens of held gold texts (or of the answer) per token of context"),
    "tokens": ReportColumn("tokens", "tokens of a context, mean", 1, False),
    "query_ms": ReportColumn("ms", "milliseconds to find and assemble a context, median", 1, False),
    **{f"recall@{k}": ReportColumn(f"R@{k}", f"share of gold documents among the first {k}") for k in RECALLED},
    "all@5": ReportColumn("all@5", "share of questions with all gold documents among the first 5"),
    f"ndcg@{GAINED}": ReportColumn(
        f"nDCG@{GAINED}", f"gains of the first {GAINED}, discounted by rank, beside the best ranking"
    ),
    "mrr": ReportColumn("MRR", "1 / rank of the first gold document, mean"),
    "em": ReportColumn("EM", "share of answers that are the gold answer"),
    "f1": ReportColumn("F1", "harmonic mean of precision and recall of the words of both"),
    "relaxed_em": ReportColumn("relaxed", "share of answers that the gold answer is a part of, also within words"),
    "contains_words": ReportColumn("words", "the same, as whole words"),
    "average": ReportColumn("avg", "mean of relaxed and F1"),
    "accuracy": ReportColumn("accuracy", "share of answers that the gold answer is a part of, also within words"),
    "precision": ReportColumn("precision", "share of the words of an answer that the gold answer has"),
    "recall": ReportColumn("recall", "share of the words of the gold answer that an answer has"),
    "refused": ReportColumn("refused", "share of questions without an answer where nothing was claimed"),
    "sure": ReportColumn("sure", "share of questions without an answer where the answer was sure"),
    "withheld": ReportColumn("withheld", "share of questions with an answer where nothing was claimed"),
    "calls": ReportColumn("calls", "calls of a model for a question, mean", 1, False),
    "input_tokens": ReportColumn("in", "tokens that a model read for a question, mean", 1, False),
    "output_tokens": ReportColumn("out", "tokens that a model wrote, mean", 1, False),
    "answer_seconds": ReportColumn("answer s", "seconds of a question after its context stood, mean", 2, False),
    "seconds": ReportColumn("seconds", "seconds of a question in all, mean", 2, False),
}
COSTS = ("tokens", "query_ms", "calls", "input_tokens", "output_tokens", "answer_seconds", "seconds")
CONTEXT_METRICS = ("answer", "evidence", "all", "density")
DOCUMENT_METRICS = ("recall@2", "recall@5")
ANSWER_METRICS = ("em", "f1", "relaxed_em", "refused", "evidence")
MAIN = ("f1", "evidence", "answer", "recall@5", "refused")
"""Methods are compared by the first of these that was measured."""


def column_of(metric: str) -> ReportColumn:
    """Return the column of a metric; one that is not listed has its name for a label."""
    return COLUMNS.get(metric) or ReportColumn(metric.replace("_", " "), "")


def main_metric(measured: Measured) -> str:
    """Return the metric that methods are compared by; an empty text if nothing was measured."""
    return next((name for name in (*MAIN, *measured.metrics) if name in measured.metrics), "")


def chosen_metrics(measured: Measured, names: str = "") -> tuple[str, ...]:
    """Return the metrics of the tables of sets: those named, separated by commas, "all", or the default ones.

    Raises:
        UsageError: if a name is unknown.
    """
    shares = [name for name in measured.metrics if name not in COSTS]
    if names == "all":
        return tuple(shares)
    if names:
        asked = tuple(filter(None, (part.strip() for part in names.split(","))))
        for name in asked:
            if name not in measured.metrics:
                raise UsageError(f"no score is called {name!r}", f"one of: {', '.join(measured.metrics)}")
        return asked
    has_gold_documents = any(question.gold_docs for one in measured.sets for question in one.questions)
    contexts = (*CONTEXT_METRICS, *DOCUMENT_METRICS) if has_gold_documents else CONTEXT_METRICS
    return tuple(name for name in (ANSWER_METRICS if measured.answered else contexts) if name in shares)
