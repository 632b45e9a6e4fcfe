"""The columns of a report: the label and the meaning of each score, and the default scores."""

from __future__ import annotations

import tomllib
from collections import Counter
from importlib.resources import files

from mergewise.errors import UsageError
from mergewise.evaluate.measured import OF_ANSWERS, Measured
from mergewise.evaluate.methods import names_in
from mergewise.evaluate.metrics import CONTEXT_SCORES
from mergewise.evaluate.ranking import MEASURES, RANKING_SCORES, is_measure, measure_of
from mergewise.evaluate.report_records import ReportColumn

_LISTED = tomllib.loads((files("mergewise.evaluate") / "columns.toml").read_text(encoding="utf-8"))
COLUMNS = {name: ReportColumn(**given) for name, given in _LISTED.items()}
PAID = ("paid_calls", "paid_input_tokens", "paid_output_tokens")
COSTS = ("tokens", "query_ms", "calls", "input_tokens", "output_tokens", *PAID, "answer_seconds", "seconds")
CONTEXT_METRICS = ("answer", "evidence", "all", "density")
QUOTATION_METRICS = ("relaxed_em", "refused", "evidence")
"""Scores of answers that only quote: they are longer than any gold answer, so EM and F1 say nothing."""
ANSWER_METRICS = ("em", "f1", *QUOTATION_METRICS)
MAIN = ("evidence", "answer", "recall@5", "refused")
"""Candidates for the main metric after `relaxed_em` of quotations, or `f1`. The first one that most rows have is used."""


def column_of(metric: str) -> ReportColumn:
    """Return the column of a metric. A metric that is not listed is labelled by its name."""
    known = COLUMNS.get(metric)
    return known or ReportColumn(metric.replace("_", " "), measure_of(metric)[0].about if is_measure(metric) else "")


def main_metric(measured: Measured) -> str:
    """Return the metric that methods are compared by, or an empty text if nothing was measured."""
    candidates = ("relaxed_em" if measured.quoted else "f1", *MAIN, *measured.metrics)
    scored = Counter(metric for key in measured.values for metric in measured.metrics if measured.scored(*key, metric))
    main = max(candidates, key=lambda name: scored[name])
    return main if scored[main] else ""


def check_metric_names(names: str) -> None:
    """Raise UsageError for a name that no run can have."""
    known = {*COLUMNS, *CONTEXT_SCORES, *RANKING_SCORES, *OF_ANSWERS}
    for name in names_in("" if names == "all" else names):
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
        asked = names_in(names)
        for name in asked:
            if name not in measured.metrics:
                if is_measure(name):
                    raise UsageError(f"no question has the score {name!r}", "use a question set with gold documents")
                raise UsageError(f"unknown score: {name!r}", f"one of: {', '.join(measured.metrics)}")
        return asked
    has_gold_documents = any(question.gold_docs for one in measured.sets for question in one.questions)
    contexts = (*CONTEXT_METRICS, "recall@2", "recall@5") if has_gold_documents else CONTEXT_METRICS
    answers = ANSWER_METRICS if measured.written else (main_metric(measured), *QUOTATION_METRICS)
    return tuple(name for name in dict.fromkeys(answers if measured.answered else contexts) if name in shares)
