"""Tables of a report for the terminal: as wide as they are, one line a method, published numbers dim in brackets."""

from __future__ import annotations

from collections.abc import Sequence

from mergewise.cli.output import say
from mergewise.page.evaluation import LabCell, LabColumn, LabTable

NAME = 30
"""Characters of a name in front of the figures."""
MARKS = {"best": "*", "second": "+"}


def say_lab_table(table: LabTable) -> None:
    """The table with its legend, notes and source. `*` marks the best and what is not worse, `+` the next."""
    say(f"\n{table.title}", style="bold")
    if table.about:
        say(table.about, style="dim")
    texts = [[_cell(column, cell) for column, cell in zip(table.columns, row.cells, strict=True)] for row in table.rows]
    heads = [column.label for column in table.columns]
    widths = [max(map(len, [head, *column])) for head, *column in zip(heads, *texts, strict=True)]
    name = max(NAME // 3, min(NAME, max((len(row.name) for row in table.rows), default=0)))
    if any(column.group for column in table.columns):
        say(f"{'':{name}}  {_groups(table.columns, widths)}", style="dim")
    say(f"{'':{name}}  {_line(heads, widths)}", style="dim")
    section = ""
    for row, own in zip(table.rows, texts, strict=True):
        if row.section != section:
            section = row.section
            say(section, style="dim")
        label = row.name
        if len(label) > name:
            say(label)
            label = ""
        say(f"{label:{name}}  {_line(own, widths)}")
        if row.note:
            say(f"{'':{name}}  {row.note}", style="dim")
    marks = {cell.mark for row in table.rows for cell in row.cells}
    if "best" in marks:
        say("* the best, and all that are not worse than it; + the next; (published)", style="dim")
    for note in (table.source, *table.notes):
        if note:
            say(f"- {note}", style="dim")


def _cell(column: LabColumn, cell: LabCell) -> str:
    figure = cell.note or ("" if cell.value is None and cell.published is not None else column.figure(cell.value))
    published = "" if cell.published is None else f" ({column.published_figure(cell.published)})"
    return f"{figure}{MARKS.get(cell.mark, '')}{published}".strip()


def _line(texts: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{text:>{width}}" for text, width in zip(texts, widths, strict=True))


def _groups(columns: Sequence[LabColumn], widths: Sequence[int]) -> str:
    """The names of groups, each above its columns."""
    parts: list[tuple[str, int]] = []
    for column, width in zip(columns, widths, strict=True):
        if parts and parts[-1][0] == column.group:
            parts[-1] = (column.group, parts[-1][1] + 2 + width)
        else:
            parts.append((column.group, width))
    return "  ".join(f"{group[:width]:<{width}}" for group, width in parts)
