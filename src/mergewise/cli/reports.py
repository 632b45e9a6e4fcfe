"""Printing and writing of reports, for `eval` and `report`. Default tables have 80 columns; papers' tables may be wider."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from pathlib import Path
from textwrap import wrap

from mergewise.cli.output import say, say_aside, usage_text, write_text
from mergewise.cli.progress import progress
from mergewise.errors import UsageError
from mergewise.evaluate.drawing import evaluation_page
from mergewise.evaluate.exports import csv_rows, markdown
from mergewise.evaluate.judging import FOLDER, judge_cost, judge_requests, judged_methods
from mergewise.evaluate.means import is_missed
from mergewise.evaluate.measured import Measured, MeasuredSet
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.report_records import (
    EvaluationReport,
    ReportCell,
    ReportColumn,
    ReportPairs,
    ReportTable,
    probability_text,
)
from mergewise.evaluate.runs.run_folder import open_run
from mergewise.evaluate.runs.run_row import RunRow
from mergewise.extend import CachedChat, load_chat, release, shorten
from mergewise.types import Json, frozen

WIDTH, WIDEST = 80, 120
MISSED = 20
"""Missed questions that the terminal lists."""
TEXT = 140
"""Characters of a text in this list."""
GOLDS, FOUND = 3, 2
"""Gold answers, and found passages, of each question in this list."""
SHORTEST, LONGEST = 10, 30
"""Minimum and maximum width of the name column, in characters."""
MARKS = {"best": "*", "second": "+"}
MEANS = {".json": 0, ".csv": 1}
"""Suffixes of files of mean scores, in their order."""


def say_report(report: EvaluationReport) -> None:
    """Print the headline, the tables, the differences to the reference, and the remarks."""
    if report.warning:
        say(report.warning, style="bold")
    for line in report.headline:
        _say_wrapped(line.replace("**", ""))
    tables = [table for part in report.parts for table in part.tables]
    for table in tables:
        say_table(table)
    explained = [column for table in tables if table.is_explained for column in table.columns]
    if meanings := {column.label: column.about for column in explained}:
        say()
        for label, about in meanings.items():
            say(f"{label:9} {about}", style="dim")
        say(".81–.90   95 % confidence interval of the figure above it", style="dim")
    _say_differences(report.pairs, report.reference)
    say()
    for remark in (*(note for part in report.parts for note in part.notes), *report.remarks):
        _say_wrapped(remark)


def say_table(table: ReportTable) -> None:
    """Print a table with intervals below its figures. `*` marks the best and all that are not worse, `+` the next.

    Columns that do not fit into `WIDEST` characters are printed below, with the names of the rows again.
    """
    heads = [column.label for column in table.columns]
    figures, bounds = (
        [[text(column, cell) for column, cell in zip(table.columns, row.cells, strict=True)] for row in table.rows]
        for text in (_figure, _bounds)
    )
    widths = [max(map(len, texts)) for texts in zip(heads, *figures, *bounds, strict=True)]
    fitting = max(1, sum(end <= WIDEST - SHORTEST for end in accumulate(width + 2 for width in widths)))
    if fitting < len(widths):
        first, rest = (
            replace(
                table,
                columns=table.columns[part],
                rows=tuple(replace(row, cells=row.cells[part]) for row in table.rows),
            )
            for part in (slice(fitting), slice(fitting, None))
        )
        say_table(replace(first, source="", notes=()))
        say_table(replace(rest, about=""))
        return
    say()
    _say_wrapped(table.title, style="bold")
    if table.about:
        _say_wrapped(table.about, style="dim")
    room = max(SHORTEST, WIDTH - sum(width + 2 for width in widths))
    name = min(room, LONGEST, max((len(row.name) for row in table.rows), default=0))
    if any(column.group for column in table.columns):
        say(f"{'':{name}}  {_groups(table.columns, widths)}", style="dim")
    say(f"{'':{name}}  {_line(heads, widths)}", style="dim")
    section = ""
    for row, own, below in zip(table.rows, figures, bounds, strict=True):
        if row.section != section:
            section = row.section
            _say_wrapped(section, style="dim")
        label = row.name
        if len(label) > name:
            _say_wrapped(label)
            label = ""
        say(f"{label:{name}}  {_line(own, widths)}".rstrip())
        if any(below):
            say(f"{'':{name}}  {_line(below, widths)}".rstrip(), style="dim")
        if row.note:
            _say_wrapped(f"{'':{name}}  {row.note}", style="dim")
    cells = [cell for row in table.rows for cell in row.cells]
    if any(cell.mark == "best" for cell in cells):
        published = "; (published)" if any(cell.published is not None for cell in cells) else ""
        say(f"* the best and all that are not worse; + the next{published}", style="dim")
    for note in (table.source, *table.notes):
        if note:
            _say_wrapped(f"- {note}", style="dim")


def _figure(column: ReportColumn, cell: ReportCell) -> str:
    figure = "" if cell.value is None and cell.published is not None else column.figure(cell.value)
    published = "" if cell.published is None else f" ({column.published_figure(cell.published)})"
    return f"{figure}{MARKS.get(cell.mark, '')}{published}".strip()


def _bounds(column: ReportColumn, cell: ReportCell) -> str:
    """Format an interval: `.81–.90`, or `81–90` in percent."""
    if cell.interval is None:
        return ""
    if column.is_share and not column.percent:
        low, high = (f"{end:.2f}".removeprefix("0").replace("1.00", "1") for end in cell.interval)
    else:
        low, high = (f"{100 * end if column.percent else end:.0f}" for end in cell.interval)
    return f"{low}–{high}"


def _line(texts: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{text:>{width}}" for text, width in zip(texts, widths, strict=True))


def _groups(columns: Sequence[ReportColumn], widths: Sequence[int]) -> str:
    """Format the names of groups, each above its columns."""
    parts = []
    for group, own in groupby(zip(columns, widths, strict=True), key=lambda one: one[0].group):
        width = sum(width + 2 for _, width in own) - 2
        parts.append(f"{group[:width]:<{width}}")
    return "  ".join(parts)


def _say_differences(pairs: Sequence[ReportPairs], reference: str) -> None:
    """Print the difference of each method to the reference."""
    compared = [one for one in pairs if reference in one.names]
    if compared:
        say()
        _say_wrapped(f"Differences to {reference}, question by question (* significantly different from zero):")
    for one in compared:
        say(one.title, style="dim")
        at = one.names.index(reference)
        for name, cells in zip(one.names, one.cells, strict=True):
            pair = cells[at]
            if pair is not None:
                low, high = pair.interval
                figures = f"{pair.difference:+.3f}{'*' if pair.is_apart else ' '} [{low:+.2f} {high:+.2f}]"
                probability = probability_text(pair.probability)
                say(f"{shorten(name, 28):28} {figures}  p {probability:6} {pair.better} up, {pair.worse} down")


# -- missed questions


def say_missed(own: MeasuredSet, measured: Measured) -> None:
    """Print the missed questions of a set: the gold, where it was lost, and the passages found instead."""
    outcomes = measured.outcomes(own.name, range(len(own.questions)))
    missed = []
    for question, found in zip(own.questions, outcomes, strict=True):
        if wrong := [row for row in found.values() if is_missed(row, question)]:
            missed.append((question, wrong))
    say(f"\nMissed in {own.name}: {len(missed)} of {len(own.questions)} questions")
    for question, rows in missed[:MISSED]:
        say()
        _say_wrapped(f"[{question.id}] {shorten(question.text, TEXT)}", style="bold")
        gold = " | ".join(shorten(gold, TEXT // 2) for gold in question.answers[:GOLDS])
        _say_wrapped(f"  gold: {gold or 'no answer in the documents'}")
        for text in dict.fromkeys(one.text for row in rows for one in row.lost):
            if text not in question.answers:
                _say_wrapped(f"  lost: “{shorten(text, TEXT)}”")
        for method in dict.fromkeys(row.method for row in rows):
            _say_attempts([row for row in rows if row.method == method], question)
    if len(missed) > MISSED:
        say(f"\nand {len(missed) - MISSED} more: write all to a file with --report FILE or --json FILE")


def _say_attempts(rows: Sequence[RunRow], question: Question) -> None:
    """Print how one method missed a question, in detail at the largest budget."""
    largest = max(rows, key=lambda row: row.budget)
    budgets = ", ".join(str(row.budget) for row in sorted(rows, key=lambda row: row.budget))
    stages = "; ".join(dict.fromkeys(one.stage.value for one in largest.lost))
    _say_wrapped(f"  {largest.method} at {budgets}: {_verdict(largest, question)}{f' ({stages})' if stages else ''}")
    reply = largest.error or largest.prediction
    if reply:
        _say_wrapped(f"    said: {shorten(reply, TEXT)}")
    for found in largest.found[:FOUND]:
        _say_wrapped(f"    {' '.join(found.place.splitlines())} “{shorten(found.text, TEXT)}”", style="dim")
    if not largest.found and not largest.error:
        say("    nothing found", style="dim")


def _verdict(row: RunRow, question: Question) -> str:
    """Name in a word or two how a question was missed."""
    if row.error:
        return "failed"
    if row.mode is None:
        return "held in part" if row.scores.get("evidence") else "missed"
    if row.refused:
        return "refused"
    if question.answerable:
        return "wrong"
    return "claimed, and sure" if row.sure else "claimed"


def _say_wrapped(text: str, style: str | None = None) -> None:
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    for line in wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False):
        say(line, style)


# -- files


@frozen
class EvaluationFiles:
    """Output files of an evaluation, by their suffix mean scores or a report."""

    named: Sequence[Path] = ()

    @property
    def reports(self) -> list[Path]:
        return [path for path in self.named if path.suffix not in MEANS]

    @property
    def rows(self) -> list[Path]:
        """The files of the rows of all questions, next to the first file of mean scores, else of reports."""
        first = min(self.named, key=lambda path: MEANS.get(path.suffix, len(MEANS)), default=None)
        return [] if first is None else [first.with_suffix(f".questions{suffix}") for suffix in (".jsonl", ".csv")]

    def check(self) -> None:
        """Check that all files are writable, without changing or leaving any. Raises UsageError."""
        for path in (*self.named, *self.rows):
            is_new = not path.exists()
            write_text(path, "", "a")
            if is_new:
                path.unlink()

    def write(self, means: Sequence[Json], questions: Sequence[Json]) -> None:
        for path in self.named:
            if path.suffix == ".json":
                write_text(path, json.dumps(means, indent=1) + "\n")
            elif path.suffix == ".csv":
                write_text(path, csv_rows(means))
        if self.named:
            lines, table = self.rows
            write_text(lines, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in questions))
            write_text(table, csv_rows(questions))


def report_text(report: EvaluationReport, path: Path) -> str:
    """Render the report as the suffix of its file requires: Markdown for `.md`, else a page."""
    return markdown(report) if path.suffix == ".md" else evaluation_page(report)


def write_report_file(path: Path, text: str) -> None:
    """Write a file, creating its folder if needed, and print its name."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "name a writable file") from None
    write_text(path, text)
    say_aside(f"written: {path}")


COLUMNS = ("answers", "correct", "EM", "agreement", "kappa", "faithful", "unread")


def judge_runs(folders: Sequence[Path], spec: str, price_in: float, price_out: float, *, dry_run: bool) -> None:
    """Judge the answers of each run. Raises UsageError without a chat model, or if a run has no answers."""
    chat = load_chat(spec)
    if chat is None:
        raise UsageError(f"not a chat model: {spec!r}", "pass --judge openai:MODEL")
    try:
        for folder in folders:
            requests = judge_requests(open_run(folder))
            if not requests:
                raise UsageError(f"no answers in {folder}", "run `mergewise eval --answers --out RUN` first")
            cached = CachedChat(chat, folder / FOLDER)
            cost = judge_cost(requests, cached)
            say(f"{folder}: {usage_text(cost, price_in, price_out)}")
            if dry_run:
                continue
            with progress("Judging") as advance:
                found = judged_methods(requests, cached, advance)
            say("  ".join(["budget", *(f"{name:>9}" for name in COLUMNS), "method"]), style="bold")
            for one in found:
                shares = (one.correct, one.em, one.agreement, one.kappa, one.faithful)
                cells = [f"{one.answers:>9}", *(f"{'-' if share is None else f'{share:.3f}':>9}" for share in shares)]
                say("  ".join([f"{one.budget:>6}", *cells, f"{one.unread:>9}", one.method]))
            say_aside(f"judged by {chat.spec}; agreement and kappa compare its verdicts with exact match")
    finally:
        release(chat)
