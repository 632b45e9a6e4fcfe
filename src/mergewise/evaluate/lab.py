"""The report of what was measured: what came out, tables of the papers or the default ones, curves, pairs, costs, questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mergewise.evaluate.drilldown import LIMIT, question_blocks
from mergewise.evaluate.layout import (
    CONTEXT_METRICS,
    chosen_metrics,
    column,
    column_of,
    cost_table,
    default_tables,
    figures,
    main_metric,
    preset_figures,
    preset_tables,
    reach_table,
)
from mergewise.evaluate.measured import Measured
from mergewise.evaluate.pairs import ScoreVector
from mergewise.evaluate.presets import Preset
from mergewise.evaluate.report import cluster_remarks, facts
from mergewise.page.evaluation import PAIRS, LabPairs, LabPart, LabReport, LabTable

PLUMBING = "plumbing, not quality"
HELD = ("all", "answer", "accuracy", "relaxed_em")
"""Scores that are 1 where nothing is missing, the first that there is."""
TOLD = 5
"""Budgets, and methods that are not told apart, that are named at the top."""


def lab_report(measured: Measured, presets: Sequence[Preset] = (), metrics: str = "", limit: int = LIMIT) -> LabReport:
    """The report, with tables of these presets in the layout of their papers. `metrics` are "all", or names, separated by commas;
    `limit` bounds the bytes of its questions.
    """
    main, shown = main_metric(measured), chosen_metrics(measured, metrics)
    held = next((name for name in HELD if name in measured.metrics), main)
    kept = tuple(dict.fromkeys((*shown, main, held, *(name for name in ("tokens",) if name in measured.metrics))))
    data, left_out = question_blocks(measured, kept, main, held, limit) if main else ([], 0)
    names = [one.name for one in measured.sets]
    return LabReport(
        title=f"Evaluation: {', '.join(names[:4])}{f' and {len(names) - 4} more' if len(names) > 4 else ''}",
        facts=_facts(measured),
        warning=PLUMBING if measured.is_plumbing else "",
        about=_about(measured, main),
        headline=tuple(headline(measured, main)),
        remarks=tuple(_remarks(measured, main)),
        parts=tuple(_parts(measured, presets, main, shown)),
        pairs=tuple(pair_tables(measured, main)),
        methods=tuple((one.name, one.about) for one in measured.methods if one.about),
        provenance=tuple((run.label, run.facts) for run in measured.runs if run.facts),
        data=tuple(data),
        left_out=left_out,
    )


def _parts(measured: Measured, presets: Sequence[Preset], main: str, shown: Sequence[str]) -> Iterator[LabPart]:
    papers = [table for one in presets for table in layouts(measured, one)]
    drawn = [figure for one in presets for figure in preset_figures(measured, one)]
    yield LabPart("papers", "Tables of the papers", tuple(papers), tuple(drawn))
    own = default_tables(measured, shown, main)
    yield LabPart("tables", "What was measured", tuple(own), notes=tuple(_set_facts(measured)))
    if main and len(measured.budgets) > 1:
        reach = reach_table(measured, main)
        label = column_of(main).label
        yield LabPart(
            "curves", f"{label.capitalize()} over tokens", (reach,) if reach else (), tuple(figures(measured, main))
        )
    yield LabPart("costs", "Costs", (cost_table(measured),))


def layouts(measured: Measured, preset: Preset) -> list[LabTable]:
    """The tables of a preset: by answers, and without any by what contexts hold."""
    tables = preset_tables(measured, preset)
    if measured.answered or not any(metric in measured.metrics for metric in CONTEXT_METRICS):
        return tables
    contexts = [one for one in preset_tables(measured, preset.without_answers()) if one.has_figures]
    # of the paper's own layout, which stays empty, one table is enough
    return [*contexts, *tables[: 0 if preset.shape == "curve" and contexts else 1]]


def _facts(measured: Measured) -> str:
    questions = sum(len(one.questions) for one in measured.sets)
    parts = [
        f"{questions:,} question{'s' * (questions != 1)} of {len(measured.sets)} set{'s' * (len(measured.sets) != 1)}",
        f"{len(measured.methods)} method{'s' * (len(measured.methods) != 1)}",
        f"budgets of {', '.join(f'{budget:,}' for budget in measured.budgets)} tokens",
        f"compared with {measured.reference}" if measured.reference else "",
    ]
    return " · ".join(filter(None, parts))


def _about(measured: Measured, metric: str) -> str:
    """What the figures are, for somebody who sees such a page for the first time."""
    if not metric:
        return ""
    known = column_of(metric)
    asked = "Each method finds a context for each question: passages for a language model to read, within a budget of tokens."
    answered = " A model answers from it." if measured.answered else ""
    by = f" Methods are compared by {known.label}" + (f", the {known.about}." if known.about else ".")
    return f"{asked}{answered}{by}"


def _set_facts(measured: Measured) -> list[str]:
    found = []
    for one in measured.sets:
        told = [facts(one.questions), *cluster_remarks(len(one.questions), len(set(one.clusters)))]
        found.append(f"{one.name}: {'. '.join(part.rstrip('.') for part in told)}.")
    return found


def headline(measured: Measured, metric: str) -> list[str]:
    """At each budget the best methods; names stand between asterisks."""
    if not metric:
        return []
    label, told = column_of(metric).label, []
    count = sum(measured.is_scored(one.name, metric) for one in measured.sets)
    where = f", mean of {count} sets" if count > 1 else ""
    for budget in measured.budgets[-TOLD:]:
        scored = {one.name: measured.over_sets(one.name, budget, metric) for one in measured.methods}
        known = {name: column for name, column in scored.items() if column is not None and column.mean is not None}
        if len(known) < 2:
            continue
        marks = dict(zip(known, measured.tests.marks(list(known.values())), strict=True))
        top = max(known, key=lambda name: known[name].mean or 0.0)
        low, high = measured.tests.interval(known[top]) or (0.0, 0.0)
        tied = [name for name, mark in marks.items() if mark == "best" and name != top]
        more = f" and {len(tied) - TOLD} more" if len(tied) > TOLD else ""
        named = ", ".join(f"**{name}**" for name in tied[:TOLD]) + more
        worse = "The other one is worse." if len(known) == 2 else f"All {len(known) - 1} others are worse."
        rest = f"Not told apart from it: {named}." if tied else worse
        figure = f"{known[top].mean:.3f} ({low:.2f} to {high:.2f}{where})"
        told.append(f"At {budget:,} tokens **{top}** has the highest {label}: {figure}. {rest}")
    return told


def _remarks(measured: Measured, metric: str) -> list[str]:
    """What the run could see, and what could not run."""
    told = []
    seen: dict[str, float] = {}
    for own in measured.sets:
        for budget in measured.budgets:
            reference = measured.scored(own.name, measured.reference, budget, metric)
            for method in measured.methods:
                other = measured.scored(own.name, method.name, budget, metric)
                if reference is not None and other is not None and other is not reference:
                    smallest = measured.tests.smallest(other, reference)
                    seen[own.name] = max(seen.get(own.name, 0.0), smallest or 0.0)
    spelled = [f"{size:.2f} on {name}" if size < 1 else f"none on {name}" for name, size in seen.items() if size > 0]
    if spelled:
        what = f"Differences in {column_of(metric).label} that this run could see four times out of five"
        told.append(f"{what}: {', '.join(spelled)}.")
    absent = dict.fromkeys(method for _, method in measured.needs)
    if absent:
        told.append(f"Could not run: {', '.join(absent)}; the tables say what they need.")
    if measured.is_plumbing:
        told.append(
            "A scripted model gave the answers: their scores show that all parts work together, and nothing else."
        )
    return told


def pair_tables(measured: Measured, metric: str) -> list[LabPairs]:
    """All pairs of methods at each budget, over all sets and of each one."""
    found = []
    several = len(measured.sets) > 1
    wheres: list[str | None] = [*([None] if several else []), *(one.name for one in measured.sets)]
    for where in wheres:
        for budget in reversed(measured.budgets):
            scored = [(one.name, column(measured, where, one.name, budget, metric)) for one in measured.methods]
            known = sorted(
                ((name, own) for name, own in scored if own is not None and own.mean is not None),
                key=lambda one: -(one[1].mean or 0.0),
            )[:PAIRS]
            if len(known) > 1:
                title = f"{where or 'mean of all sets'}, {budget:,} tokens: {column_of(metric).label}"
                found.append(_pairs(measured, title, known))
    return found


def _pairs(measured: Measured, title: str, rows: Sequence[tuple[str, ScoreVector]]) -> LabPairs:
    probabilities = measured.tests.adjusted([column for _, column in rows])
    cells = []
    for a, (_, ours) in enumerate(rows):
        own = []
        for b, (_, theirs) in enumerate(rows):
            gain = measured.tests.gain(ours, theirs)
            own.append(None if a == b or gain is None else (gain, probabilities[max(a, b), min(a, b)]))
        cells.append(tuple(own))
    return LabPairs(title, tuple(name for name, _ in rows), tuple(cells))
