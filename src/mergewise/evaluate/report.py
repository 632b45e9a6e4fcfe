"""The report of an evaluation: headline, tables in the layout of papers, default tables, curves, pairs, costs and questions.

The terminal, the page, the server and the exported files all show this record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt

import numpy as np

from mergewise.evaluate.columns import CONTEXT_METRICS, chosen_metrics, column_of, main_metric
from mergewise.evaluate.drilldown import LIMIT, question_blocks
from mergewise.evaluate.layout import cost_table, figures, preset_figures, preset_tables, table_of_set, table_over_sets
from mergewise.evaluate.measured import Measured
from mergewise.evaluate.presets import Preset
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.report_records import PAIRS, EvaluationReport, ReportPair, ReportPairs, ReportPart, ReportTable
from mergewise.evaluate.statistics import POWER, Z

PLUMBING = "plumbing, not quality"
HELD = ("all", "answer", "accuracy", "relaxed_em")
"""Scores that are 1 for a complete context or answer. The first measured one is used."""
LISTED = 5
"""Maximum of budgets in the headline, and of methods named as not worse than the best."""
FEW = 30
"""Number of independent questions below which a report warns that they are few."""
DISCORDANCE = 0.2
"""Assumed share of questions on which two methods differ, if only one was measured."""


def evaluation_report(
    measured: Measured, presets: Sequence[Preset] = (), metrics: str = "", limit: int = LIMIT
) -> EvaluationReport:
    """Return the report, with tables of these presets in the layout of their papers.

    Args:
        measured: the scores.
        presets: the tables of papers to fill.
        metrics: "all", or names of scores, separated by commas; empty for the default ones.
        limit: maximum of bytes for the questions; 0 leaves them out.
    """
    main, shown = main_metric(measured), chosen_metrics(measured, metrics)
    held = next((name for name in HELD if name in measured.metrics), main)
    kept = tuple(dict.fromkeys((*shown, main, held, *(name for name in ("tokens",) if name in measured.metrics))))
    data, left_out = question_blocks(measured, kept, main, held, limit) if main and limit else ([], 0)
    names = [one.name for one in measured.sets]
    parts = [
        f"{_count(sum(len(one.questions) for one in measured.sets), 'question')} of {_count(len(measured.sets), 'set')}",
        _count(len(measured.methods), "method"),
        f"budgets of {', '.join(f'{budget:,}' for budget in measured.budgets)} tokens",
        f"compared with {measured.reference}" if len(measured.methods) > 1 else "",
    ]
    about = ""
    if main:
        # for a first-time reader
        known = column_of(main)
        about = (
            "For each question each method finds a context: passages for a language model, within a budget of tokens."
        )
        about += " A model answers from the context." if measured.written else ""
        about += " The answer quotes sentences of the context." if measured.quoted else ""
        about += f" Methods are compared by {known.label}" + (f", the {known.about}." if known.about else ".")
    return EvaluationReport(
        title=f"Evaluation: {', '.join(names[:4])}{f' and {len(names) - 4} more' if len(names) > 4 else ''}",
        facts=" · ".join(filter(None, parts)),
        warning=PLUMBING if measured.is_plumbing else "",
        about=about,
        headline=tuple(_headline(measured, main)),
        remarks=tuple(_remarks(measured, main)),
        parts=tuple(_parts(measured, presets, main, shown)),
        pairs=tuple(_pair_tables(measured, main)),
        reference=measured.reference,
        methods=tuple((one.name, one.about) for one in measured.methods if one.about),
        provenance=tuple((run.label, run.facts) for run in measured.runs if run.facts),
        data=tuple(data),
        left_out=left_out,
    )


def _parts(measured: Measured, presets: Sequence[Preset], main: str, shown: Sequence[str]) -> Iterator[ReportPart]:
    papers = [table for one in presets for table in layouts(measured, one)]
    drawn = [figure for one in presets for figure in preset_figures(measured, one)]
    yield ReportPart("papers", "Tables of the papers", tuple(papers), tuple(drawn))
    own = [table_over_sets(measured, main)] if len(measured.sets) > 1 and main else []
    own += [table_of_set(measured, one.name, shown) for one in measured.sets]
    yield ReportPart("tables", "Measurements", tuple(own), notes=tuple(_set_notes(measured)))
    if main and len(measured.budgets) > 1:
        title = f"{column_of(main).label.capitalize()} over tokens"
        yield ReportPart("curves", title, figures=tuple(figures(measured, main)))
    # without a model, the table of a single set shows the costs
    if measured.written or len(measured.sets) > 1:
        yield ReportPart("costs", "Costs", (cost_table(measured),))


def layouts(measured: Measured, preset: Preset) -> list[ReportTable]:
    """Return the tables of a preset: scores of answers, or scores of contexts if nothing was answered."""
    tables, unanswered = preset_tables(measured, preset), preset.without_answers()
    if measured.answered or unanswered is preset or not any(name in measured.metrics for name in CONTEXT_METRICS):
        return tables
    contexts = [one for one in preset_tables(measured, unanswered) if one.has_figures]
    # the paper's own layout stays empty, so one table of it is enough
    return [*contexts, *tables[: 0 if preset.shape == "curve" and contexts else 1]]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def set_facts(questions: Sequence[Question]) -> str:
    """Return the number of questions of a set, of documents with evidence, and of questions without an answer."""
    documents = {document for question in questions for document in question.documents}
    without = sum(not question.answerable for question in questions)
    parts = [_count(len(questions), "question")]
    parts += [f"evidence in {_count(len(documents), 'document')}"] if documents else []
    parts += [f"{without} without an answer"] if without else []
    return ", ".join(parts)


def _set_notes(measured: Measured) -> Iterator[str]:
    """Yield for each set its size and the limits of its figures."""
    for one in measured.sets:
        sentences = [set_facts(one.questions)]
        questions, independent = len(one.questions), len(set(one.clusters))
        if questions > 1 == independent:
            sentences.append("All questions share documents: intervals and tests hold for these documents only")
        elif independent < questions:
            sentences.append(
                f"Questions share documents: intervals and tests use their {independent} groups, not {questions:,} questions"
            )
        if (few := questions if independent == 1 else independent) < FEW:
            what = _count(few, "question") if independent in (1, questions) else _count(few, "group")
            sentences.append(f"Only {what}: the intervals are wide and uncertain")
        without = sum(not question.answerable for question in one.questions)
        if without and not measured.answered:
            sentences.append(
                f"{_count(without, 'question')} without an answer: use --answers to see whether they are refused"
            )
        if unheld := measured.unheld(one.name):
            sentences.append(
                f"The answers of {_count(unheld, 'question')} appear in no document word for word, so no context can hold them"
            )
        yield f"{one.name}: {'. '.join(sentences)}."


def _headline(measured: Measured, metric: str) -> Iterator[str]:
    """Name the best methods at each budget, with their names between asterisks."""
    if not metric:
        return
    label = column_of(metric).label
    count = sum(measured.is_scored(one.name, metric) for one in measured.sets)
    where = f", mean of {count} sets" if count > 1 else ""
    for budget in measured.budgets[-LISTED:]:
        scored = {one.name: measured.scored(None, one.name, budget, metric) for one in measured.methods}
        known = {name: column for name, column in scored.items() if column is not None and column.mean is not None}
        if len(known) < 2:
            continue
        marks = dict(zip(known, measured.tests.marks(list(known.values())), strict=True))
        top = max(known, key=lambda name: known[name].mean or 0.0)
        low, high = measured.tests.interval(known[top]) or (0.0, 0.0)
        if len(equal := [f"**{name}**" for name, column in known.items() if column.mean == known[top].mean]) == len(
            known
        ):
            yield f"At {budget:,} tokens {' and '.join(equal)} have the same {label}: {known[top].mean:.3f}."
            continue
        tied = [name for name, mark in marks.items() if mark == "best" and name != top]
        more = f" and {len(tied) - LISTED} more" if len(tied) > LISTED else ""
        named = ", ".join(f"**{name}**" for name in tied[:LISTED]) + more
        worse = "The other method is worse." if len(known) == 2 else f"All {len(known) - 1} others are worse."
        rest = f"Not significantly worse: {named}." if tied else worse
        figure = f"{known[top].mean:.3f} ({low:.2f} to {high:.2f}{where})"
        yield f"At {budget:,} tokens **{top}** has the highest {label}: {figure}. {rest}"


def _remarks(measured: Measured, metric: str) -> Iterator[str]:
    """Yield the smallest differences that the run could detect, the methods that could not run, and warnings."""
    seen: dict[str, float] = {}
    for own in measured.sets:
        for budget in measured.budgets:
            reference = measured.scored(own.name, measured.reference, budget, metric)
            for method in measured.methods:
                other = measured.scored(own.name, method.name, budget, metric)
                if reference is not None and other is not None and other is not reference:
                    seen[own.name] = max(seen.get(own.name, 0.0), measured.tests.smallest(other, reference) or 0.0)
    spelled = [f"{size:.2f} on {name}" if size < 1 else f"none on {name}" for name, size in seen.items() if size > 0]
    if spelled:
        what = f"Smallest difference in {column_of(metric).label} that this run detects with 80 % power"
        yield f"{what}: {', '.join(spelled)}."
    elif len(measured.methods) == 1:
        size = max((Z + POWER) * sqrt(DISCORDANCE / len(set(one.clusters))) for one in measured.sets)
        yield (
            f"A set of this size detects a difference of {min(1.0, size):.2f} between two strategies with 80 % power, "
            f"if their scores differ on {DISCORDANCE:.0%} of the questions."
        )
    absent = dict.fromkeys(method for _, method in measured.needs)
    if absent:
        yield f"Could not run: {', '.join(absent)}. The tables list their needs."
    if measured.quoted and not measured.written:
        yield "The answers are quotations. No model was asked."
    if measured.left_out:
        rows = ", ".join(f"{count} of {method}" for method, count in measured.left_out.items())
        yield f"Stored rows of earlier settings, which the tables leave out: {rows}. `mergewise eval` computes them again."
    if measured.is_plumbing:
        yield "A scripted model gave the answers. Their scores show only that all parts work together."


def _pair_tables(measured: Measured, metric: str) -> Iterator[ReportPairs]:
    """Compare all methods at each budget, over all sets and on each set."""
    names = [one.name for one in measured.sets]
    for where in (None, *names) if len(names) > 1 else names:
        for budget in reversed(measured.budgets):
            scored = [(one.name, measured.scored(where, one.name, budget, metric)) for one in measured.methods]
            known = sorted(
                ((name, own) for name, own in scored if own is not None and own.mean is not None),
                key=lambda one: -(one[1].mean or 0.0),
            )[:PAIRS]
            if len(known) < 2:
                continue
            cells: list[list[ReportPair | None]] = [[None] * len(known) for _ in known]
            for (a, b), probability in measured.tests.adjusted([own for _, own in known]).items():
                ours, theirs = known[a][1], known[b][1]
                gains = measured.tests.gains(ours, theirs)
                if gains.mean is None:
                    continue
                low, high = measured.tests.gain_interval(ours, theirs)
                better, worse = (
                    sum(int(np.sum(sign * values > 0)) for values in gains.by_set.values()) for sign in (1, -1)
                )  # fmt: skip
                cells[a][b] = ReportPair(gains.mean, (low, high), probability, better, worse)
                cells[b][a] = ReportPair(-gains.mean, (-high, -low), probability, worse, better)
            title = f"{where or 'mean of all sets'}, {budget:,} tokens: {column_of(metric).label}"
            yield ReportPairs(title, tuple(name for name, _ in known), tuple(map(tuple, cells)))
