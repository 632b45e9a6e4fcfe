"""The page of an evaluation's report: results, tables, curves, pairs, costs, and single questions.

The page works without a script. With its script, readers can sort and copy tables and browse questions. The rows and texts of
questions are compressed data in the page, unpacked on demand (`page.questions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from mergewise.evaluate.exports import markdown_table
from mergewise.evaluate.report_records import (
    EvaluationReport,
    ReportCell,
    ReportColumn,
    ReportPair,
    ReportPairs,
    ReportPart,
    ReportRow,
    ReportTable,
    probability_text,
)
from mergewise.extend import CURVE_RULES, Markup, asset, figure_svg, html_page, join, shorten, tag


def evaluation_page(report: EvaluationReport) -> str:
    """Return the whole page, in one file."""
    title = tag("h1", shorten(report.title, 600), id="question", tabindex="-1", dir="auto")
    warning = tag("p", report.warning, class_="notice plumbing") if report.warning else None
    top = tag("header", title, tag("p", report.facts, class_="facts"), warning, class_="top")
    parts = [part for part in report.parts if part.tables or part.figures]
    named = [(part.key, part.title, _part(part)) for part in parts]
    rest = [
        ("pairs", "Pairs", _pairs(report.pairs)),
        ("sources", "Questions", _questions(report)),
        ("methods", "Methods", _methods(report)),
        ("origin", "Provenance", _provenance(report)),
    ]
    named += [(key, label, section) for key, label, section in rest if section is not None]
    items = [tag("li", tag("a", label, href=f"#{key}")) for key, label, _ in named]
    contents = tag("nav", tag("ul", *items), class_="contents", aria_label="Contents") if len(items) > 2 else None
    sections = [_headline(report), contents, *(section for _, _, section in named)]
    style = tag("style", Markup(asset("evaluation.css", __name__) + CURVE_RULES))
    blocks = [tag("script", Markup(data), type="application/gzip", id=f"data-{name}") for name, data in report.data]
    marked = "evaluation wide marked" if report.warning else "evaluation wide"
    body = tag("div", style, top, *sections, *blocks, class_=marked, data_warning=report.warning or None)
    return html_page(report.title, body, surroundings=False, script=asset("evaluation.js", __name__))


def _headline(report: EvaluationReport) -> Markup | None:
    about = tag("p", report.about, class_="about-table") if report.about else None
    lines = [about] if about else []
    for line in report.headline:
        # `**name**` is bold
        pieces = enumerate(line.split("**"))
        lines.append(tag("p", *(tag("b", piece, dir="auto") if place % 2 else piece for place, piece in pieces)))
    remarks = tag("ul", *(tag("li", remark) for remark in report.remarks), class_="remarks") if report.remarks else None
    return tag("section", *lines, remarks, class_="headline", aria_label="Results") if lines or remarks else None


def _part(part: ReportPart) -> Markup:
    figures = []
    for figure in part.figures:
        caption = tag("figcaption", figure.title, dir="auto")
        drawing = tag("div", figure_svg(figure), class_="drawing", tabindex="0", role="group", aria_label=figure.title)
        figures.append(tag("figure", caption, drawing))
    grid = tag("div", *figures, class_="figures") if figures else None
    body = (*map(_table, part.tables), grid, *(tag("p", note, class_="where") for note in part.notes))
    return tag("section", tag("h2", part.title, class_="set", dir="auto"), *body, id=part.key, class_="part")


# -- tables


def _table(table: ReportTable) -> Markup:
    group_line = None
    if any(column.group for column in table.columns):
        groups = groupby(column.group for column in table.columns)
        cells = [tag("th", name, colspan=len(list(own)), scope="colgroup", dir="auto") for name, own in groups]
        group_line = tag("tr", tag("td"), *cells, class_="groups")
    notes = tag("ol", *(tag("li", note) for note in table.notes), class_="notes") if table.notes else None
    source = tag("p", table.source, class_="where source") if table.source else None
    about = tag("p", table.about, class_="about-table") if table.about else None
    published = any(cell.published is not None for row in table.rows for cell in row.cells)
    has_cells = any(row.cells for row in table.rows)
    legend = tag("p", _legend(table, published), class_="where legend-line") if has_cells else None
    heads = [tag("th", column.label, scope="col", title=column.about or None, dir="auto") for column in table.columns]
    head_line = tag("tr", tag("th", "method", scope="col"), *heads)
    drawn = tag(
        "table",
        tag("caption", table.title),
        tag("thead", group_line, head_line),
        *_bodies(table),
        data_title=table.title,
    )
    copies = tag(
        "p", tag("button", "Copy as Markdown", type="button", data_copy=markdown_table(table)), class_="copies"
    )
    scrolling = tag("div", drawn, class_="scroll", tabindex="0", role="group", aria_label=table.title)
    columns = {column.label: column.about for column in table.columns if column.about} if table.is_explained else {}
    explained = [tag("div", tag("dt", label), tag("dd", text)) for label, text in columns.items()]
    terms = tag("dl", *explained, class_="about") if explained else None
    return tag("div", about, scrolling, copies, legend, terms, source, notes, class_="table", id=f"table-{table.key}")


def _legend(table: ReportTable, published: bool) -> Markup:
    marks = {cell.mark for row in table.rows for cell in row.cells}
    parts = []
    if "best" in marks:
        parts.append(join([tag("b", "Bold"), ": best, or not significantly worse than the best (adjusted 0.05)"]))
    if "second" in marks:
        parts.append(join([tag("span", "underlined", class_="second"), ": second best"]))
    if published:
        parts.append(join([tag("span", "grey", class_="published"), ": published"]))
    if any(cell.interval for row in table.rows for cell in row.cells):
        parts.append(Markup("small: 95 % interval"))
    return join(parts, ", ")


def _bodies(table: ReportTable) -> list[Markup]:
    sections = list(dict.fromkeys(row.section for row in table.rows))
    bodies = []
    for section in sections:
        rows = [_row(table, row) for row in table.rows if row.section == section]
        head = tag(
            "tr", tag("th", section, colspan=len(table.columns) + 1, scope="rowgroup", dir="auto"), class_="section"
        )
        bodies.append(tag("tbody", head if section else None, *rows))
    return bodies


def _row(table: ReportTable, row: ReportRow) -> Markup:
    note = tag("span", row.note, class_="needs") if row.note else None
    name = tag("th", row.name, note, scope="row", dir="auto", title=row.about or None)
    cells = [_cell(column, cell) for column, cell in zip(table.columns, row.cells, strict=True)]
    return tag("tr", name, *cells, class_=None if row.has_figures else "empty")


def _cell(column: ReportColumn, cell: ReportCell) -> Markup:
    parts: list[Markup] = []
    if cell.value is not None or cell.published is None:
        figure = column.figure(cell.value)
        parts.append(
            tag("b", figure, class_=cell.mark) if cell.mark == "best" else tag("span", figure, class_=cell.mark or None)
        )
    if cell.spread is not None:
        parts.append(tag("span", f" ± {column.figure(cell.spread)}", class_="spread"))
    if cell.published is not None:
        spread = f" ± {column.published_figure(cell.published_spread)}" if cell.published_spread is not None else ""
        parts.append(tag("span", f"{column.published_figure(cell.published)}{spread}", class_="published"))
    if cell.interval is not None and cell.value is not None:
        parts.append(tag("span", column.bounds(cell.interval), class_="bounds"))
        if column.is_share:
            low, high = cell.interval
            style = f"--low:{_percent(low)};--high:{_percent(high)};--at:{_percent(cell.value)}"
            parts.append(tag("span", class_="range", style=style, aria_hidden="true"))
    return tag("td", *parts, data_v=None if cell.value is None else f"{cell.value:.6g}")


def _percent(share: float) -> str:
    return f"{100 * min(1.0, max(0.0, share)):.1f}%"


# -- pairs


def _pairs(pairs: Sequence[ReportPairs]) -> Markup | None:
    if not pairs:
        return None
    note = (
        "Row minus column. Below: p value of the paired sign-flip test, corrected by Holm's method for all pairs of the table. "
        "Blue: the row is better at 0.05. Red: the row is worse."
    )
    tables = []
    for place, one in enumerate(pairs):
        head = tag("tr", tag("td"), *(tag("th", name, scope="col", dir="auto") for name in one.names))
        rows = [
            tag("tr", tag("th", name, scope="row", dir="auto"), *map(_pair, cells))
            for name, cells in zip(one.names, one.cells, strict=True)
        ]
        caption = tag("caption", one.title, class_="sr")
        drawn = tag("table", caption, tag("thead", head), tag("tbody", *rows), class_="matrix")
        scrolling = tag("div", drawn, class_="scroll", tabindex="0", role="group", aria_label=one.title)
        tables.append(tag("details", tag("summary", one.title), scrolling, class_="pair", open=place == 0))
    return _section("Pairs", "pairs", tag("p", note, class_="where"), *tables)


def _pair(cell: ReportPair | None) -> Markup:
    if cell is None:
        return tag("td", "", class_="none")
    kind = ("up" if cell.difference > 0 else "down") if cell.is_apart else None
    low, high = cell.interval
    more = f"{low:+.2f} to {high:+.2f}; better in {cell.better:,}, worse in {cell.worse:,}".replace("-", "−")
    signed = f"{cell.difference:+.3f}" if abs(cell.difference) >= 0.0005 else "0.000"
    probability = tag("span", probability_text(cell.probability), class_="bounds")
    return tag("td", signed.replace("-", "−"), probability, class_=kind, title=more)


# -- questions and origin


def _questions(report: EvaluationReport) -> Markup | None:
    if not report.data:
        return None
    left_out = f"{report.left_out:,} questions appear without their contexts, to keep the page small."
    needs = "Browsing the questions needs JavaScript. Tables and figures work without."
    return _section(
        "Question by question",
        "sources",
        tag("p", left_out, class_="notice") if report.left_out else None,
        tag("noscript", tag("p", needs, class_="notice")),
        tag("div", class_="asked", id="asked"),
    )


def _methods(report: EvaluationReport) -> Markup | None:
    if not report.methods:
        return None
    lines = [tag("div", tag("dt", name, dir="auto"), tag("dd", about)) for name, about in report.methods]
    return _section("Methods", "methods", tag("dl", *lines, class_="about origin"))


def _provenance(report: EvaluationReport) -> Markup | None:
    if not report.provenance:
        return None
    blocks = []
    for label, facts in report.provenance:
        lines = [tag("div", tag("dt", name), tag("dd", tag("code", value, dir="auto"))) for name, value in facts]
        blocks.append(join([tag("h3", label) if label else "", tag("dl", *lines, class_="about origin")]))
    return _section("Provenance", "origin", *blocks)


def _section(title: str, key: str, *content: Markup | None) -> Markup:
    return tag("section", tag("h2", title, class_="set"), *content, id=key, class_="part")
