"""An evaluation as records for people, and as a page: tables, what their columns mean, differences, and question by question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mergewise.page.markup import Markup, join, shorten, tag, void
from mergewise.page.places import short_id
from mergewise.page.shell import asset, whole

LIMIT = 2_000_000
"""Bytes of the questions of a page."""
LONGEST = 600
"""Characters of a question, a gold text or an answer."""
GOLDS = 6
"""Gold answers that are spelt out."""


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """A column of figures: its label, what it says, and its decimals. `is_share` says that its figures lie in [0, 1]."""

    label: str
    about: str
    decimals: int = 3
    is_share: bool = True

    def figure(self, value: float | None) -> str:
        return "-" if value is None else f"{value:.{self.decimals}f}"


@dataclass(frozen=True, slots=True)
class ReportCell:
    """A figure with its interval of 95 percent; None where there is none."""

    value: float | None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class ReportLine:
    """The figures of one strategy at one budget, a cell for each column."""

    strategy: str
    budget: int
    cells: tuple[ReportCell, ...]


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Columns and lines, below a title."""

    title: str
    columns: tuple[ReportColumn, ...]
    lines: tuple[ReportLine, ...]


@dataclass(frozen=True, slots=True)
class ReportDifference:
    """By how much a strategy differs from the first at a budget, in one column, question by question.

    `probability` is that of the paired test, corrected for the others of the column; `better` and `worse` count questions.
    """

    strategy: str
    budget: int
    column: str
    mean: float
    interval: tuple[float, float]
    probability: float
    is_apart: bool
    better: int
    worse: int


@dataclass(frozen=True, slots=True)
class ReportAttempt:
    """What one strategy at one budget made of a question: a verdict, and for one that went wrong the rest.

    `said` is the answer, `lost` are gold texts with the stages at which they were lost, `found` places with their first words.
    """

    strategy: str
    budget: int
    verdict: str
    is_good: bool
    said: str = ""
    lost: tuple[tuple[str, str], ...] = ()
    found: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ReportQuestion:
    """A question, its gold answers (none where the documents have no answer), and what became of it."""

    id: str
    text: str
    gold: tuple[str, ...]
    attempts: tuple[ReportAttempt, ...]

    @property
    def is_missed(self) -> bool:
        return not all(attempt.is_good for attempt in self.attempts)


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """The evaluation of one question set. `first` is the strategy that the others are compared with."""

    name: str
    facts: str
    tables: tuple[ReportTable, ...]
    first: str
    differences: tuple[ReportDifference, ...]
    remarks: tuple[str, ...]
    questions: tuple[ReportQuestion, ...]


def evaluation_page(reports: Sequence[EvaluationReport], limit: int = LIMIT) -> str:
    """One page for all sets. Where the questions have no room, those that no strategy missed go first."""
    names = ", ".join(report.name for report in reports)
    alone = len(reports) == 1
    heading = f"Evaluation: {names}" if alone else "Evaluation"
    title = tag("h1", shorten(heading, LONGEST), id="question", tabindex="-1", dir="auto")
    top = tag("header", title, tag("p", reports[0].facts if alone else names, class_="facts"), class_="top")
    style = tag("style", Markup(asset("evaluation.css")))
    sets = [_set(number, report, limit // max(1, len(reports)), alone) for number, report in enumerate(reports, 1)]
    return whole(f"Evaluation: {names}", tag("div", style, top, *sets, class_="wide evaluation"), surroundings=False)


def _set(number: int, report: EvaluationReport, limit: int, alone: bool) -> Markup:
    head = [tag("h2", report.name, class_="set", dir="auto"), tag("p", report.facts, class_="facts")]
    tables = [_table(table) for table in report.tables]
    remarks = tag("ul", *(tag("li", remark) for remark in report.remarks), class_="remarks") if report.remarks else None
    parts = (*([] if alone else head), *tables, _differences(report), remarks, _questions(number, report, limit))
    return tag("section", *parts, class_="set-report", aria_label=report.name)


def _table(table: ReportTable) -> Markup:
    names = [tag("th", column.label, scope="col", title=column.about) for column in table.columns]
    head = tag("tr", tag("th", "strategy", scope="col"), tag("th", "budget", scope="col"), *names)
    rows = [
        tag(
            "tr",
            tag("th", line.strategy, scope="row", dir="auto"),
            tag("td", f"{line.budget:,}"),
            *(_cell(column, cell) for column, cell in zip(table.columns, line.cells, strict=True)),
        )
        for line in table.lines
    ]
    drawn = tag("table", tag("caption", table.title), tag("thead", head), tag("tbody", *rows))
    about = [tag("div", tag("dt", column.label), tag("dd", column.about)) for column in table.columns]
    return join([_scrolling(drawn, table.title), tag("dl", *about, class_="about")])


def _scrolling(drawn: Markup, title: str) -> Markup:
    """A table that a narrow screen moves to the side, also by keys."""
    return tag("div", drawn, class_="scroll", tabindex="0", role="group", aria_label=title)


def _cell(column: ReportColumn, cell: ReportCell) -> Markup:
    figure = tag("b", column.figure(cell.value))
    if cell.interval is None:
        return tag("td", figure)
    low, high = cell.interval
    places = 0 if column.decimals < 2 else 2
    bounds = tag("span", f"{low:.{places}f} to {high:.{places}f}", class_="bounds")
    if not column.is_share:
        return tag("td", figure, bounds)
    style = f"--low:{_percent(low)};--high:{_percent(high)};--at:{_percent(cell.value or 0.0)}"
    return tag("td", figure, bounds, tag("span", class_="range", style=style, aria_hidden="true"))


def _percent(share: float) -> str:
    return f"{100 * min(1.0, max(0.0, share)):.1f}%"


def _differences(report: EvaluationReport) -> Markup | None:
    if not report.differences:
        return None
    reach = max(max(map(abs, one.interval)) for one in report.differences) or 1.0
    rows = [_difference(one, reach) for one in report.differences]
    titles = ("strategy", "budget", "column", "difference", "", "p", "better", "worse", "told apart")
    head = tag("tr", *(tag("th", title, scope="col", class_="name" if title == "column" else None) for title in titles))
    title = f"Differences to {report.first}, question by question"
    drawn = tag("table", tag("caption", title), tag("thead", head), tag("tbody", *rows))
    note = (
        "Intervals are of 95 percent. p is that of a paired sign-flip test, corrected by Holm's method for the tests of a "
        "column; “yes” means below 0.05."
    )
    return join([_scrolling(drawn, title), tag("p", note, class_="where")])


def _difference(one: ReportDifference, reach: float) -> Markup:
    bounds = tag("span", f"{one.interval[0]:+.2f} to {one.interval[1]:+.2f}", class_="bounds")
    if not one.better and not one.worse:
        bounds = tag("span", "no question differs", class_="bounds")
    low, high, at = (50 + 50 * end / reach for end in (*one.interval, one.mean))
    style = f"--low:{low:.1f}%;--high:{high:.1f}%;--at:{at:.1f}%"
    return tag(
        "tr",
        tag("th", one.strategy, scope="row", dir="auto"),
        tag("td", f"{one.budget:,}"),
        tag("td", one.column, class_="name"),
        tag("td", tag("b", f"{one.mean:+.3f}"), bounds),
        tag("td", tag("span", class_="range around-zero", style=style, aria_hidden="true")),
        tag("td", probability_text(one.probability)),
        tag("td", str(one.better)),
        tag("td", str(one.worse)),
        tag("td", tag("span", "yes" if one.is_apart else "no", class_="verdict good" if one.is_apart else "verdict")),
    )


def probability_text(probability: float) -> str:
    return "<0.001" if probability < 0.001 else f"{probability:.3f}"


def _questions(number: int, report: EvaluationReport, limit: int) -> Markup | None:
    if not report.questions:
        return None
    drawn = {i: _question(number, i, question) for i, question in enumerate(report.questions, 1)}
    # those that something can be learnt from come first
    order = sorted(drawn, key=lambda i: (not report.questions[i - 1].is_missed, i))
    kept, room = set(), limit
    for i in order:
        room -= len(drawn[i].encode())
        if room < 0:
            break
        kept.add(i)
    missed = sum(question.is_missed for question in report.questions)
    title = f"Question by question: {missed} of {len(report.questions)} missed by some"
    heading = tag("h2", title, id="sources" if number == 1 else None)
    choices = (("all", "all"), ("missed", "missed by some"), ("differ", "where strategies differ"))
    filters = [_filter(f"show{number}", name, label) for name, label in choices]
    left = len(drawn) - len(kept)
    more = tag("p", f"{left} more questions are in the rows beside this page.", class_="notice") if left else None
    listed = [drawn[i] for i in sorted(kept)]
    return tag("section", heading, tag("p", "Show ", *filters, class_="filters"), more, *listed, class_="questions")


def _filter(group: str, name: str, label: str) -> Markup:
    return tag("label", void("input", type="radio", name=group, class_=f"show-{name}", checked=name == "all"), label)


def _question(number: int, place: int, question: ReportQuestion) -> Markup:
    anchor = f"s{number}q{place}"
    verdicts = {(attempt.is_good, attempt.verdict) for attempt in question.attempts}
    kinds = [
        "passage",
        "asked",
        *(["missed"] if question.is_missed else []),
        *(["differ"] if len(verdicts) > 1 else []),
    ]
    head = tag(
        "header",
        tag("a", str(place), href=f"#{anchor}", class_="number", title=question.id),
        tag("h3", shorten(question.text, LONGEST), dir="auto"),
    )
    golds = [tag("q", shorten(gold, LONGEST), dir="auto") for gold in question.gold[:GOLDS]]
    more = f" and {len(question.gold) - GOLDS} more" if len(question.gold) > GOLDS else ""
    gold = join(golds, " or ") if golds else tag("i", "no answer in the documents")
    wrong = [_wrong_attempt(attempt) for attempt in question.attempts if not attempt.is_good]
    chips = tag("ul", *map(_chip, question.attempts), class_="verdicts")
    told = tag("details", tag("summary", "What was found instead"), *wrong) if wrong else None
    parts = (head, tag("p", "Gold: ", gold, more, class_="gold"), chips, told)
    return tag("article", *parts, class_=" ".join(kinds), id=anchor, tabindex="-1")


def _chip(attempt: ReportAttempt) -> Markup:
    kind = "verdict good" if attempt.is_good else "verdict bad"
    sign = "✓" if attempt.is_good else "✗"
    return tag("li", f"{attempt.strategy} {attempt.budget} ", tag("span", f"{sign} {attempt.verdict}", class_=kind))


def _wrong_attempt(attempt: ReportAttempt) -> Markup:
    lines = [tag("h4", f"{attempt.strategy} at {attempt.budget}: {attempt.verdict}")]
    if attempt.said:
        lines.append(tag("p", "It said: ", tag("bdi", shorten(attempt.said, LONGEST))))
    lines += [
        tag("p", "Lost ", tag("q", shorten(text, LONGEST), dir="auto"), tag("span", f" {stage}", class_="where"))
        for text, stage in attempt.lost
    ]
    found = [
        tag("li", tag("q", text, dir="auto"), tag("span", f" {short_id(place)}", class_="where", title=place))
        for place, text in attempt.found
    ]
    return tag(
        "div", *lines, tag("ul", *found) if found else tag("p", "Nothing was found.", class_="where"), class_="wrong"
    )
