"""How `eval` and `report` print figures and write them to files. What `eval` prints as it goes has 80 columns; tables
of a report are as wide as they are.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from mergewise.cli.output import say, say_aside
from mergewise.errors import UsageError
from mergewise.evaluate.exports import harmless, markdown
from mergewise.page.evaluation import (
    EvaluationReport,
    LabCell,
    LabColumn,
    LabReport,
    LabTable,
    ReportAttempt,
    ReportCell,
    ReportColumn,
    ReportDifference,
    ReportLine,
    ReportTable,
    evaluation_page,
    probability_text,
)
from mergewise.page.markup import shorten

if TYPE_CHECKING:
    from mergewise.evaluate.rows import EvaluationRow, QuestionRow

WIDTH = 80
_BUDGET, _CELL = 6, 8
MISSED = 20
"""Missed questions that are told of in the terminal."""
TEXT = 140
"""Characters of a text there."""
GOLDS, FOUND = 3, 2
"""Gold answers, and found passages, of each question there."""
NAME = 30
"""Characters of a name in front of the figures of a report."""
MARKS = {"best": "*", "second": "+"}


def say_table_head(columns: Sequence[ReportColumn]) -> None:
    say(f"{'strategy':{_name_width(columns)}}{'B':>{_BUDGET}}{_cells(columns, [column.label for column in columns])}")


def say_line(line: ReportLine, columns: Sequence[ReportColumn]) -> None:
    """The figures, and below them their intervals. A name that is too long stands on a line of its own."""
    width, name = _name_width(columns), line.strategy
    if len(name) >= width:
        say(name)
        name = ""
    figures = [column.figure(cell.value) for column, cell in zip(columns, line.cells, strict=True)]
    bounds = [_bounds(cell, column) for column, cell in zip(columns, line.cells, strict=True)]
    say(f"{name:{width}}{line.budget:{_BUDGET}}{_cells(columns, figures)}")
    say(f"{'':{width}}{'95 %':>{_BUDGET}}{_cells(columns, bounds)}".rstrip(), style="dim")


def say_table(table: ReportTable) -> None:
    """A table that is known as a whole, below its title."""
    say(f"\n{table.title}")
    say_table_head(table.columns)
    for line in table.lines:
        say_line(line, table.columns)


def _widths(columns: Sequence[ReportColumn]) -> list[int]:
    return [max(_CELL, len(column.label) + 1) for column in columns]


def _name_width(columns: Sequence[ReportColumn]) -> int:
    return WIDTH - _BUDGET - sum(_widths(columns))


def _cells(columns: Sequence[ReportColumn], texts: Sequence[str]) -> str:
    return "".join(f"{text:>{width}}" for text, width in zip(texts, _widths(columns), strict=True))


def _bounds(cell: ReportCell, column: ReportColumn) -> str:
    """An interval, short: `.81–.90`."""
    if cell.interval is None:
        return ""
    low, high = (f"{end:.2f}".removeprefix("0") if column.is_share else f"{end:.0f}" for end in cell.interval)
    return f"{low}–{high}".replace("1.00", "1")


def say_differences(report: EvaluationReport) -> None:
    if report.differences:
        say(f"\nDifferences to {report.first}, question by question (* told apart from zero):")
    for one in report.differences:
        say(_difference_line(one))
    say()
    for remark in report.remarks:
        _say_wrapped(remark)


def _difference_line(one: ReportDifference) -> str:
    name = one.strategy if len(one.strategy) < 16 else f"{one.strategy[:14]}…"
    begins = f"{name:16}{one.budget:7} {one.column:9}{one.mean:+7.3f}"
    if not one.better and not one.worse:
        return f"{begins}  no question differs"
    low, high = one.interval
    probability = probability_text(one.probability)
    return f"{begins}{'*' if one.is_apart else ' '} [{low:+.2f} {high:+.2f}]  p {probability:6} {one.better} up, {one.worse} down"


def say_columns(columns: Sequence[ReportColumn]) -> None:
    """What the columns say, a line each."""
    say()
    for column in columns:
        say(f"{column.label:9} {column.about}", style="dim")
    say("95 %      interval of the figure above it", style="dim")


def say_missed(report: EvaluationReport) -> None:
    """The questions that went wrong: what was to be found, where it was lost, and what was found instead."""
    missed = [question for question in report.questions if question.is_missed]
    say(f"\nMissed in {report.name}: {len(missed)} of {len(report.questions)} questions")
    for question in missed[:MISSED]:
        say()
        _say_wrapped(f"[{question.id}] {shorten(question.text, TEXT)}", style="bold")
        gold = " | ".join(shorten(gold, TEXT // 2) for gold in question.gold[:GOLDS])
        _say_wrapped(f"  gold: {gold or 'no answer in the documents'}")
        wrong = [attempt for attempt in question.attempts if not attempt.is_good]
        for text in dict.fromkeys(text for attempt in wrong for text, _ in attempt.lost if text not in question.gold):
            _say_wrapped(f"  lost: “{shorten(text, TEXT)}”")
        for strategy in dict.fromkeys(attempt.strategy for attempt in wrong):
            _say_attempt([attempt for attempt in wrong if attempt.strategy == strategy])
    if len(missed) > MISSED:
        say(f"\nand {len(missed) - MISSED} more: --html FILE or --json FILE tells of all")


def _say_attempt(attempts: Sequence[ReportAttempt]) -> None:
    """The attempts of one strategy; told of is that of the largest budget."""
    largest = max(attempts, key=lambda attempt: attempt.budget)
    budgets = ", ".join(str(attempt.budget) for attempt in attempts)
    stages = "; ".join(dict.fromkeys(stage for _, stage in largest.lost))
    _say_wrapped(f"  {largest.strategy} at {budgets}: {largest.verdict}{f' ({stages})' if stages else ''}")
    if largest.said:
        _say_wrapped(f"    said: {shorten(largest.said, TEXT)}")
    for place, text in largest.found[:FOUND]:
        _say_wrapped(f"    {' '.join(place.splitlines())} “{shorten(text, TEXT)}”", style="dim")
    if not largest.found and largest.verdict != "failed":
        say("    nothing was found", style="dim")


def _say_wrapped(text: str, style: str | None = None) -> None:
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    for line in wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False):
        say(line, style)


def say_lab_report(found: LabReport) -> None:
    """The headline, the remarks and all tables."""
    if found.warning:
        say(found.warning, style="bold")
    for line in (*found.headline, *found.remarks):
        say(line.replace("**", ""))
    for part in found.parts:
        for table in part.tables:
            say_lab_table(table)


def say_lab_table(table: LabTable) -> None:
    """The table with its legend, notes and source. `*` marks the best and what is not worse, `+` the next."""
    say(f"\n{table.title}", style="bold")
    if table.about:
        say(table.about, style="dim")
    texts = [
        [_lab_cell(column, cell) for column, cell in zip(table.columns, row.cells, strict=True)] for row in table.rows
    ]
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


def _lab_cell(column: LabColumn, cell: LabCell) -> str:
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


def csv_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a table: an interval in two columns, lists as JSON. What spreadsheets would take for a formula begins with `'`."""
    flat = [dict(_flat(row)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    out = io.StringIO()
    table = csv.DictWriter(out, names, lineterminator="\n")
    table.writeheader()
    table.writerows(flat)
    return out.getvalue()


def _flat(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if name.endswith("_interval"):
            yield f"{name.removesuffix('_interval')}_low", value[0]
            yield f"{name.removesuffix('_interval')}_high", value[1]
        elif isinstance(value, list | tuple | dict):
            yield name, json.dumps(value, ensure_ascii=False)
        else:
            yield name, harmless(value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class EvaluationFiles:
    """The files that an evaluation is written to, as far as they are named. Beside the first stand the rows of all questions."""

    json: Path | None = None
    csv: Path | None = None
    markdown: Path | None = None
    html: Path | None = None

    def paths(self) -> list[Path]:
        named = [path for path in (self.json, self.csv, self.markdown, self.html) if path is not None]
        return [*named, *(named[0].with_suffix(f".questions{suffix}") for suffix in (".jsonl", ".csv") if named)]

    def check(self) -> None:
        """Raises UsageError where a file cannot be written. Nothing that stands in one is lost, and none is left empty."""
        for path in self.paths():
            is_new = not path.exists()
            _write(path, "", "a")
            if is_new:
                path.unlink()

    def write(self, means: Sequence[EvaluationRow], questions: Sequence[QuestionRow]) -> None:
        rows, asked = [row.as_dict() for row in means], [row.as_dict() for row in questions]
        if self.json is not None:
            _write(self.json, json.dumps(rows, indent=1) + "\n")
        if self.csv is not None:
            _write(self.csv, csv_rows(rows))
        if self.paths():
            *_, lines, table = self.paths()
            _write(lines, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in asked))
            _write(table, csv_rows(asked))

    @property
    def has_report(self) -> bool:
        return self.markdown is not None or self.html is not None

    def write_report(self, found: LabReport) -> None:
        """The page and the Markdown, as far as they are named."""
        if self.markdown is not None:
            _write(self.markdown, markdown(found))
        if self.html is not None:
            _write(self.html, evaluation_page(found))

    def say_rows(self) -> None:
        """Where the rows of all questions stand."""
        if self.paths():
            *_, lines, table = self.paths()
            say_aside(f"a row for each question: {lines}, {table.name}")


def _write(path: Path, text: str, mode: Literal["a", "w"] = "w") -> None:
    try:
        with path.open(mode, encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", "name a file in a folder that exists") from None


def write_report_file(path: Path, text: str) -> None:
    """Makes the folder too, and names what was written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", "name a file that can be written") from None
    _write(path, text)
    say_aside(f"written: {path}")
