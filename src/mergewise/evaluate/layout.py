"""Tables and figures of measured scores, in the layout of a paper or in the default layout.

In each column the best method and all methods that are not significantly worse are **bold** (paired test, corrected for the
column, 0.05). The next best is underlined. Published numbers appear next to measured ones, as printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from mergewise.evaluate.columns import COSTS, column_of, main_metric
from mergewise.evaluate.measured import Measured, MeasuredMethod
from mergewise.evaluate.pairs import ScoreVector, mean_of, over_sets
from mergewise.evaluate.presets import Preset, PresetColumn, PresetGroup, PresetRow
from mergewise.evaluate.report_records import ReportCell, ReportColumn, ReportRow, ReportTable
from mergewise.extend import Curve, CurveFigure, CurvePoint
from mergewise.types import frozen

OVER_SETS = "sets"
"""Key of the table over all sets."""


# -- cells


@frozen
class _CellData:
    """The content of a cell: scores, the deviation of their mean between repeats, and whether to show their median."""

    scored: ScoreVector | None
    deviation: float | None = None
    is_median: bool = False


def _cell_data(scored: ScoreVector | None, metric: str, deviation: float | None = None) -> _CellData:
    # milliseconds have a median, without an interval and without a deviation between repeats
    return _CellData(scored, is_median=True) if metric == "query_ms" else _CellData(scored, deviation)


def _cells(
    measured: Measured, columns: Sequence[ReportColumn], rows: Sequence[Sequence[_CellData]]
) -> list[list[ReportCell]]:
    """Return the cells of rows that are compared with each other. Only columns of shares are marked."""
    cells: list[list[ReportCell]] = [[] for _ in rows]
    for place, column in enumerate(columns):
        filled = [row[place] for row in rows]
        scores = [one.scored for one in filled]
        marks = measured.tests.marks(scores) if column.is_share else [""] * len(scores)
        for own, one, mark in zip(cells, filled, marks, strict=True):
            if one.scored is None:
                own.append(ReportCell(None))
            elif one.is_median:
                own.append(ReportCell(one.scored.median, mark=mark))
            else:
                own.append(ReportCell(one.scored.mean, measured.tests.interval(one.scored), mark, spread=one.deviation))
    return cells


# -- default tables


def table_over_sets(measured: Measured, metric: str) -> ReportTable:
    """Return a table over all sets with one metric."""
    known = column_of(metric)
    sets = [one.name for one in measured.sets if measured.is_scored(one.name, metric)]
    columns = [replace(known, label=name) for name in sets]
    columns.append(replace(known, label="mean", about="the mean of the sets"))
    rows = tuple(_sections(measured, columns, [(name, metric) for name in (*sets, None)]))
    return ReportTable(OVER_SETS, f"All sets: {known.label}", f"{known.label}: {known.about}.", tuple(columns), rows)


def table_of_set(measured: Measured, name: str, metrics: Sequence[str]) -> ReportTable:
    """Return a table of one set with several metrics, the tokens and the milliseconds."""
    present = [metric for metric in (*metrics, "tokens", "query_ms") if measured.is_scored(name, metric)]
    columns = tuple(map(column_of, present))
    rows = tuple(_sections(measured, columns, [(name, metric) for metric in present], name))
    return ReportTable(f"set-{name}", name, "", columns, rows, is_explained=True)


def _sections(
    measured: Measured,
    columns: Sequence[ReportColumn],
    shown: Sequence[tuple[str | None, str]],
    set_name: str | None = None,
) -> Iterator[ReportRow]:
    """Yield the rows of all methods, a section for each budget, and a last section of methods that could not run.

    `shown` holds the set and the metric of each column. With `set_name`, cells have their deviations.
    """
    for budget in measured.budgets:
        filled = {
            method.name: [
                _cell_data(
                    measured.scored(where, method.name, budget, metric),
                    metric,
                    measured.deviation(set_name, method.name, budget, metric),
                )
                for where, metric in shown
            ]
            for method in measured.methods
        }
        methods = [method for method in measured.methods if any(one.scored for one in filled[method.name])]
        rows = _cells(measured, columns, [filled[method.name] for method in methods])
        for method, cells in zip(methods, rows, strict=True):
            note = note_of(measured.kind(method.name, budget), method.judge)
            yield ReportRow(method.name, method.about, f"{budget:,} tokens", tuple(cells), note)
    for name, needs in {m: one for (s, m), one in measured.needs.items() if set_name in (None, s)}.items():
        yield ReportRow(name, "", "could not run", tuple(ReportCell(None) for _ in columns), needs)


def note_of(text: str, judge: str) -> str:
    """Return a remark on a row, and the spec of the reranker or utility predictor that scored its passages."""
    return "; ".join(filter(None, (text, judge and f"judge: {judge}")))


# -- presets


def preset_tables(measured: Measured, preset: Preset) -> list[ReportTable]:
    """Return the tables of a preset, as its paper prints them.

    A figure over budgets becomes a table for each metric, with a column for each budget.
    """
    if preset.shape != "curve":
        return [_preset_table(measured, preset, preset.columns, preset.title, preset.name)]
    found = []
    for place, column in enumerate(preset.columns):
        over = tuple(replace(column, label=f"{budget:,}", budget=budget) for budget in preset.budgets)
        # the published numbers belong to the largest budget
        smaller = [None] * (len(over) - 1)
        rows = tuple(
            replace(row, published=tuple((*smaller, own[place]) for own in row.published), spread=())
            for row in preset.rows
        )
        curve = replace(preset, columns=over, rows=rows)
        found.append(
            _preset_table(measured, curve, over, f"{preset.title}: {column.label}", f"{preset.name}-{column.metric}")
        )
    return found


def _preset_table(
    measured: Measured, preset: Preset, over: Sequence[PresetColumn], title: str, key: str
) -> ReportTable:
    known = {one.name for one in measured.sets}
    # leave out groups without published or measured numbers
    groups = [g for g in preset.groups if any(row.published for row in preset.rows) or known & set(g.sets)]
    # add groups for the measured sets that are not in the preset
    taken = {group.set_among(known) for group in preset.groups}
    of_preset = {method.name for method in preset.methods()}
    own = {one.name for one in measured.methods if one.method in of_preset}
    filled = {key.set for key in measured.values if key.method in own} - taken
    for name in (one.name for one in measured.sets if one.name in filled):
        if any(measured.is_scored(name, column.metric) for column in preset.columns):
            groups.append(PresetGroup(name, (name,)))
    groups = groups or list(preset.groups)
    variants = [
        (row, run, _row_note(measured, preset, row, run)) for row in preset.rows for run in _filling_runs(measured, row)
    ]
    blocks = [_block(measured, preset, group, over, variants) for group in groups]
    rows = []
    for place, (row, run, note) in enumerate(variants):
        label = row.label if run is None or len(measured.runs) == 1 else f"{row.label} ({measured.runs[run].label})"
        names = _method_names(preset, row)
        judge = next((one.judge for one in measured.methods if one.run == run and one.method in names), "")
        rows.append((label, row, note_of(note, judge), [block[place] for block in blocks]))
    columns = [[_preset_column(preset, column, group.label) for column in over] for group in groups]
    lines = []
    if preset.shape == "stacked":
        flat = tuple(replace(column, group="") for column in columns[0])
        for number, group in enumerate(groups):
            for label, row, note, cells in rows:
                section = f"{group.label}: {row.section}" if row.section else group.label
                lines.append(ReportRow(label, "", section, tuple(cells[number]), note))
    else:
        flat = tuple(chain.from_iterable(columns))
        for label, row, note, cells in rows:
            lines.append(ReportRow(label, "", row.section, tuple(chain.from_iterable(cells)), note))
    asked = {one.name: len(one.questions) for one in measured.sets}
    filling = (
        f"{group.label}: filled by the set {filler}, {asked[filler]:,} questions."
        for group in preset.groups
        if (filler := group.set_among(known))
    )
    return ReportTable(key, title, preset.about, flat, tuple(lines), (*preset.notes, *filling), preset.source)


def _preset_column(preset: Preset, column: PresetColumn, group: str) -> ReportColumn:
    decimals = preset.decimals if column.decimals is None else column.decimals
    if column.is_mean:
        return ReportColumn(column.label, "mean of the preceding columns", decimals, True, group, preset.percent)
    known = column_of(column.metric)
    label, percent = column.label or known.label, preset.percent and known.is_share
    return replace(known, label=label, decimals=decimals, group=group, percent=percent)


def _block(
    measured: Measured,
    preset: Preset,
    group: PresetGroup,
    over: Sequence[PresetColumn],
    variants: Sequence[tuple[PresetRow, int | None, str]],
) -> list[list[ReportCell]]:
    """Return the cells of one group of columns, for all rows."""
    filled = [[_fill(measured, preset, group, row, run, column) for column in over] for row, run, _ in variants]
    for line in filled:
        for place, column in enumerate(over):
            if column.is_mean:
                rest = [one.scored for other, one in zip(over, line, strict=True) if not other.is_mean]
                line[place] = _CellData(mean_of([one for one in rest if one] if all(rest) else []))
    columns = [_preset_column(preset, column, group.label) for column in over]
    cells: list[list[ReportCell]] = [[] for _ in variants]
    # rows of a section of a stacked table are compared with each other, otherwise all rows
    sections: dict[str, list[int]] = {}
    for place, (row, _, _) in enumerate(variants):
        sections.setdefault(row.section if preset.shape == "stacked" else "", []).append(place)
    for places in sections.values():
        for place, own in zip(places, _cells(measured, columns, [filled[p] for p in places]), strict=True):
            cells[place] = own
    if group in preset.groups:
        number = preset.groups.index(group)
        for place, (row, _, _) in enumerate(variants):
            if row.published:
                spread = row.spread[number] if row.spread else [None] * len(over)
                cells[place] = [
                    replace(cell, published=printed, published_spread=deviation)
                    for cell, printed, deviation in zip(cells[place], row.published[number], spread, strict=True)
                ]
    return cells


def _fill(
    measured: Measured, preset: Preset, group: PresetGroup, row: PresetRow, run: int | None, column: PresetColumn
) -> _CellData:
    if run is None or column.is_mean:
        return _CellData(None)
    shown = {one.method: one.name for one in measured.methods if one.run == run}
    names = [shown.get(method.name) for method in preset.methods_of(row, column)]
    (budget, *_) = preset.budgets_of(column) or (0,)
    known = {one.name for one in measured.sets}
    sets = [one.set_among(known) for one in ([group] if group.sets else preset.groups) if one.sets]
    parts = []
    for set_name in sets:
        own = [measured.scored(set_name, name, budget, column.metric) for name in names if name] if set_name else []
        whole = mean_of([one for one in own if one]) if own and len(own) == len(names) and all(own) else None
        if whole is None:
            return _CellData(None)
        parts.append(whole)
    alone = len(names) == len(sets) == 1 and names[0] is not None and sets[0] is not None
    deviation = measured.deviation(sets[0] or "", names[0] or "", budget, column.metric) if alone else None
    return _cell_data(over_sets(parts), column.metric, deviation)


def _filling_runs(measured: Measured, row: PresetRow) -> list[int | None]:
    """Return the numbers of the runs that can fill a row, or a list with None if no run can."""
    if row.method is None or row.needs:
        return [None]
    stem = row.method.name
    having = {one.run for one in measured.methods if one.method == stem or one.method.startswith(f"{stem} ")}
    return [at for at, run in enumerate(measured.runs) if at in having and row.can_fill(run.models)] or [None]


def _method_names(preset: Preset, row: PresetRow) -> set[str]:
    return {method.name for column in preset.columns for method in preset.methods_of(row, column)} | (
        set() if row.method is None else {row.method.name}
    )


def _row_note(measured: Measured, preset: Preset, row: PresetRow, run: int | None) -> str:
    """Explain why a row is empty."""
    if row.method is None:
        return row.needs
    names = _method_names(preset, row)
    needs = [one for (_, name), one in measured.needs.items() if name in names]
    if needs:
        return needs[0]
    if row.needs or run is not None:
        return row.needs
    if row.method.mode and not measured.answered:
        return "needs a chat model (--chat)"
    if not any(row.can_fill(run.models) for run in measured.runs):
        name, value = next(iter(row.only.items()))
        return f"needs a run with {name} {value or 'of its own'}"
    return "not run"


def preset_figures(measured: Measured, preset: Preset) -> list[CurveFigure]:
    """Return the curves of a preset over its budgets, for the measured sets, by its first metric."""
    if preset.shape != "curve":
        return []
    metric = preset.columns[0].metric if preset.columns[0].metric in measured.metrics else main_metric(measured)
    names = {method.name for method in preset.methods()}
    methods = [one for one in measured.methods if one.method in names]
    known = {one.name for one in measured.sets}
    sets = dict.fromkeys(name for group in preset.groups for name in group.sets if name in known)
    return figures(measured, metric, methods, list(sets))


# -- figures


def figures(
    measured: Measured, metric: str, methods: Sequence[MeasuredMethod] = (), sets: Sequence[str] | None = None
) -> list[CurveFigure]:
    """Return figures of a metric over the tokens of contexts: one for the mean of all sets, and one for each set."""
    known = column_of(metric)
    chosen = [one.name for one in measured.sets] if sets is None else list(sets)
    drawn: list[tuple[str, str | None]] = [(name, name) for name in chosen]
    if len(measured.sets) > 1 and sets is None:
        drawn.insert(0, ("mean of all sets", None))
    found = []
    for title, set_name in drawn:
        curves = [_curve(measured, method, metric, set_name) for method in methods or measured.methods]
        curves = [curve for curve in curves if curve.points]
        if curves:
            found.append(CurveFigure(title, "mean tokens per context", known.label, tuple(curves), measured.reference))
    return found


def _curve(measured: Measured, method: MeasuredMethod, metric: str, set_name: str | None) -> Curve:
    points = []
    for budget in measured.budgets:
        scored = measured.scored(set_name, method.name, budget, metric)
        tokens = measured.scored(set_name, method.name, budget, "tokens")
        if scored is not None and scored.mean is not None:
            low, high = measured.tests.interval(scored) or (scored.mean, scored.mean)
            at = tokens.mean if tokens is not None and tokens.mean is not None else float(budget)
            points.append(CurvePoint(at, scored.mean, low, high, budget))
    return Curve(method.name, tuple(points))


def cost_table(measured: Measured) -> ReportTable:
    """Return the costs of a question for each method: means of the sets' means, or of their medians for milliseconds."""
    present = [cost for cost in COSTS[: None if measured.written else 2] if cost in measured.metrics]
    columns = tuple(map(column_of, present))
    rows = tuple(line for line in _sections(measured, columns, [(None, cost) for cost in present]) if line.has_figures)
    return ReportTable("costs", "Costs per question", "", columns, rows, is_explained=True)
