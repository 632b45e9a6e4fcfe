"""Reports as files for elsewhere: Markdown, TeX, CSV, and curves as SVG."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from mergewise.page.curves import figure_svg
from mergewise.page.evaluation import LabCell, LabColumn, LabPairs, LabReport, LabTable, probability_text

SIGNS = ("=", "+", "-", "@", "\t", "\r")
"""What a cell begins with that spreadsheets take for a formula."""
PAGE = 45
"""Rows that stand on a page of TeX."""
_TEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "±": r"$\pm$", "×": r"$\times$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip


def markdown(report: LabReport) -> str:
    """Headline, tables and where they come from; without curves, pairs and questions."""
    parts = [f"# {in_markdown(report.title)}", report.facts]
    if report.warning:
        parts.append(f"> **{report.warning}**")
    parts += [*report.headline, "\n".join(f"- {line}" for line in report.remarks)]
    for part in report.parts:
        if part.tables:
            parts += [f"## {part.title}", *map(markdown_table, part.tables)]
    parts += [f"## Pairs\n\n{_PAIRS}"] if report.pairs else []
    parts += [_markdown_pairs(one) for one in report.pairs[:1]]
    for label, facts in report.provenance:
        told = "\n".join(f"- {name}: `{value.replace('`', chr(39))}`" for name, value in facts)
        parts += [f"## Where it comes from{f' ({in_markdown(label)})' if label else ''}", told]
    return "\n\n".join(filter(None, parts)) + "\n"


_PAIRS = "Row less column, with p of the paired sign-flip test, corrected by Holm's method for all pairs of the table."


def _markdown_pairs(pairs: LabPairs) -> str:
    lines = [["", *map(in_markdown, pairs.names)], ["---"] * (len(pairs.names) + 1)]
    for name, cells in zip(pairs.names, pairs.cells, strict=True):
        lines.append(
            [in_markdown(name), *("" if c is None else f"{c[0]:+.3f} ({probability_text(c[1])})" for c in cells)]
        )
    return "\n".join([f"### {in_markdown(pairs.title)}\n", *(f"| {' | '.join(line)} |" for line in lines)])


def markdown_table(table: LabTable) -> str:
    """A table with its title and notes."""
    head = ["method", *(f"{column.group} {column.label}".strip() for column in table.columns)]
    lines = [list(map(in_markdown, head)), ["---"] * len(head)]
    for section, rows in _sections(table):
        if section:
            lines.append([f"**{in_markdown(section)}**", *[""] * len(table.columns)])
        lines += [[in_markdown(name), *map(_markdown_cell, table.columns, cells)] for name, cells in rows]
    drawn = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    notes = [table.about, table.source, *(f"{number}. {note}" for number, note in enumerate(table.notes, 1))]
    return "\n\n".join([f"### {in_markdown(table.title)}", drawn, "\n".join(filter(None, notes))]).strip()


def _markdown_cell(column: LabColumn, cell: LabCell) -> str:
    return _cell(column, cell, {"best": "**{}**", "second": "<u>{}</u>"}, "({})", in_markdown)


def in_markdown(text: str) -> str:
    """A text for a cell: on one line, without mark-up of its own."""
    line = " ".join(text.split())
    for sign in "\\|<*_`[":
        line = line.replace(sign, f"\\{sign}")
    return line


def tex(report: LabReport) -> str:
    """All tables, for `booktabs`, `graphicx` and `xcolor`. One that is longer than a page is a table for each section."""
    tables = [one for part in report.parts for table in part.tables for one in _on_pages(table)]
    warning = f"% {report.warning}\n" if report.warning else ""
    return f"% \\usepackage{{booktabs, graphicx, xcolor}}\n{warning}\n" + "\n".join(map(tex_table, tables))


def _on_pages(table: LabTable) -> list[LabTable]:
    sections = dict.fromkeys(row.section for row in table.rows)
    if len(table.rows) <= PAGE or len(sections) < 2:
        return [table]
    rows = {section: tuple(row for row in table.rows if row.section == section) for section in sections}
    return [
        replace(table, title=f"{table.title}, {section}", rows=tuple(replace(row, section="") for row in own))
        for section, own in rows.items()
    ]


def tex_table(table: LabTable) -> str:
    """One `table` with its caption, no wider than the text. What its rows need stands in comments, with its notes."""
    count = len(table.columns)
    lines = [
        r"\begin{table}",
        rf"\caption{{{in_tex(table.title)}}}",
        r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{l{'r' * count}}}",
        r"\toprule",
    ]
    if any(column.group for column in table.columns):
        groups: list[tuple[str, int]] = []
        for column in table.columns:
            same = groups and groups[-1][0] == column.group
            groups[-1:] = [(column.group, groups[-1][1] + 1)] if same else [*groups[-1:], (column.group, 1)]
        lines.append(" & ".join(["", *(rf"\multicolumn{{{n}}}{{c}}{{{in_tex(name)}}}" for name, n in groups)]) + r" \\")
    lines += [" & ".join(["method", *(in_tex(column.label) for column in table.columns)]) + r" \\", r"\midrule"]
    needs = [f"{row.name}: {row.note}" for row in table.rows if row.note]
    bare = replace(table, rows=tuple(replace(row, note="") for row in table.rows))
    for section, rows in _sections(bare):
        if section:
            lines.append(rf"\multicolumn{{{count + 1}}}{{l}}{{\textit{{{in_tex(section)}}}}} \\")
        for name, cells in rows:
            shown = [
                _cell(c, one, _TEX_MARKS, r"{{\color{{gray}}{}}}", in_tex)
                for c, one in zip(table.columns, cells, strict=True)
            ]
            lines.append(" & ".join([in_tex(name), *shown]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}}", r"\end{table}"]
    notes = [f"% {' '.join(note.split())}" for note in (table.source, *table.notes, *needs) if note]
    return "\n".join([*lines, *notes, ""])


_TEX_MARKS = {"best": r"\textbf{{{}}}", "second": r"\underline{{{}}}"}


def in_tex(text: str) -> str:
    """A text in which nothing is a command."""
    return "".join(_TEX.get(sign, sign) for sign in " ".join(text.split()))


def _sections(table: LabTable) -> list[tuple[str, list[tuple[str, Sequence[LabCell]]]]]:
    """The rows by section; what a row needs stands in its name."""
    found: dict[str, list[tuple[str, Sequence[LabCell]]]] = {}
    for row in table.rows:
        name = f"{row.name} ({row.note})" if row.note else row.name
        found.setdefault(row.section, []).append((name, row.cells))
    return list(found.items())


def _cell(column: LabColumn, cell: LabCell, marks: dict[str, str], published: str, escape: Callable[[str], str]) -> str:
    parts = []
    if cell.value is not None or cell.published is None:
        spread = "" if cell.spread is None else f" ± {column.figure(cell.spread)}"
        parts.append(marks.get(cell.mark, "{}").format(escape((cell.note or column.figure(cell.value)) + spread)))
    if cell.published is not None:
        spread = "" if cell.published_spread is None else f" ± {column.published_figure(cell.published_spread)}"
        parts.append(published.format(escape(f"{column.published_figure(cell.published)}{spread}")))
    return " ".join(parts)


def csv_table(report: LabReport) -> str:
    """A line for each cell of each table: figures as they are, no share as a percentage but published numbers as printed."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    measures = ("value", "low", "high", "mark", "spread", "published", "published_spread", "note")
    writer.writerow(["table", "section", "method", "group", "column", *measures])
    for part in report.parts:
        for table in part.tables:
            for row in table.rows:
                for column, cell in zip(table.columns, row.cells, strict=True):
                    low, high = cell.interval or (None, None)
                    texts = [table.title, row.section, row.name, column.group, column.label]
                    numbers = [cell.value, low, high, cell.mark, cell.spread, cell.published, cell.published_spread]
                    writer.writerow([*map(harmless, texts), *numbers, harmless(row.note or cell.note)])
    return out.getvalue()


def harmless(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(SIGNS) else text


def svg_files(report: LabReport) -> dict[str, str]:
    """Each curve as a file of its own, by name."""
    found: dict[str, str] = {}
    for part in report.parts:
        for figure in part.figures:
            stem = re.sub(r"[^\w.-]+", "-", f"{part.key}-{figure.title}").strip("-")[:80]
            name, number = f"{stem}.svg", 1
            while name in found:
                number += 1
                name = f"{stem}-{number}.svg"
            found[name] = f'<?xml version="1.0" encoding="UTF-8"?>\n{figure_svg(figure, is_file=True)}\n'
    return found
