"""Reports as files for other programs: Markdown, CSV, and curves as SVG."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from mergewise.evaluate.report_records import EvaluationReport, ReportCell, ReportColumn, ReportTable, probability_text
from mergewise.extend import figure_svg
from mergewise.types import Json

SIGNS = ("=", "+", "-", "@", "\t", "\r")
"""Characters that make a spreadsheet take a cell for a formula."""


def markdown(report: EvaluationReport) -> str:
    """Return the report as Markdown: headline, tables, the first table of pairs, and provenance. Omit curves and questions."""
    parts = [f"# {in_markdown(report.title)}", report.facts]
    if report.warning:
        parts.append(f"> **{report.warning}**")
    parts += [*report.headline, "\n".join(f"- {line}" for line in report.remarks)]
    for part in report.parts:
        if part.tables:
            parts += [f"## {part.title}", *map(markdown_table, part.tables)]
    if report.pairs:
        about = "Row less column, with p of the paired sign-flip test, corrected by Holm's method for all pairs of the table."
        first = report.pairs[0]
        lines = [["", *map(in_markdown, first.names)], ["---"] * (len(first.names) + 1)]
        for name, cells in zip(first.names, first.cells, strict=True):
            shown = ["" if c is None else f"{c.difference:+.3f} ({probability_text(c.probability)})" for c in cells]
            lines.append([in_markdown(name), *shown])
        drawn = [f"| {' | '.join(line)} |" for line in lines]
        parts += [f"## Pairs\n\n{about}", "\n".join([f"### {in_markdown(first.title)}\n", *drawn])]
    for label, facts in report.provenance:
        facts_text = "\n".join(f"- {name}: `{value.replace('`', chr(39))}`" for name, value in facts)
        parts += [f"## Where it comes from{f' ({in_markdown(label)})' if label else ''}", facts_text]
    return "\n\n".join(filter(None, parts)) + "\n"


def markdown_table(table: ReportTable) -> str:
    """Return a table as Markdown, with its title and notes."""
    head = ["method", *(f"{column.group} {column.label}".strip() for column in table.columns)]
    lines = [list(map(in_markdown, head)), ["---"] * len(head)]
    for section in dict.fromkeys(row.section for row in table.rows):
        if section:
            lines.append([f"**{in_markdown(section)}**", *[""] * len(table.columns)])
        for row in table.rows:
            if row.section == section:
                name = f"{row.name} ({row.note})" if row.note else row.name
                lines.append([in_markdown(name), *map(_markdown_cell, table.columns, row.cells)])
    drawn = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    notes = [table.about, table.source, *(f"{number}. {note}" for number, note in enumerate(table.notes, 1))]
    return "\n\n".join([f"### {in_markdown(table.title)}", drawn, "\n".join(filter(None, notes))]).strip()


_MARKS = {"best": "**{}**", "second": "<u>{}</u>"}


def _markdown_cell(column: ReportColumn, cell: ReportCell) -> str:
    parts = []
    if cell.value is not None or cell.published is None:
        spread = "" if cell.spread is None else f" ± {column.figure(cell.spread)}"
        parts.append(_MARKS.get(cell.mark, "{}").format(in_markdown(column.figure(cell.value) + spread)))
    if cell.published is not None:
        spread = "" if cell.published_spread is None else f" ± {column.published_figure(cell.published_spread)}"
        parts.append(f"({in_markdown(f'{column.published_figure(cell.published)}{spread}')})")
    return " ".join(parts)


def in_markdown(text: str) -> str:
    """Put a text on one line and escape its mark-up."""
    line = " ".join(text.split())
    for sign in "\\|<*_`[":
        line = line.replace(sign, f"\\{sign}")
    return line


def csv_table(report: EvaluationReport) -> str:
    """Return a line for each cell of each table. Measured shares are fractions. Published numbers are as printed."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    measures = "value low high mark spread published published_spread note".split()
    writer.writerow(["table", "section", "method", "group", "column", *measures])
    for part in report.parts:
        for table in part.tables:
            for row in table.rows:
                for column, cell in zip(table.columns, row.cells, strict=True):
                    low, high = cell.interval or (None, None)
                    texts = [table.title, row.section, row.name, column.group, column.label]
                    numbers = [cell.value, low, high, cell.mark, cell.spread, cell.published, cell.published_spread]
                    writer.writerow([*map(escape_formula, texts), *numbers, escape_formula(row.note)])
    return out.getvalue()


def csv_rows(rows: Sequence[Json]) -> str:
    """Return rows as CSV: an interval in two columns, lists as JSON, formulas escaped."""
    flat = [dict(_flat(row)) for row in rows]
    out = io.StringIO()
    table = csv.DictWriter(out, list(dict.fromkeys(name for row in flat for name in row)), lineterminator="\n")
    table.writeheader()
    table.writerows(flat)
    return out.getvalue()


def _flat(row: Json) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if name.endswith("_interval"):
            yield f"{name.removesuffix('_interval')}_low", value[0]
            yield f"{name.removesuffix('_interval')}_high", value[1]
        elif isinstance(value, list | tuple | dict):
            yield name, json.dumps(value, ensure_ascii=False)
        else:
            yield name, escape_formula(value) if isinstance(value, str) else value


def escape_formula(text: str) -> str:
    """Escape a text that a spreadsheet would take for a formula."""
    return f"'{text}" if text.startswith(SIGNS) else text


def svg_files(report: EvaluationReport) -> dict[str, str]:
    """Return each figure as an SVG file, by file name."""
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
