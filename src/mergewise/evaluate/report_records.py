"""The report of an evaluation as records: tables, figures, pairs, costs, and single questions."""

from __future__ import annotations

from typing import TypeAlias

from mergewise.extend import CurveFigure
from mergewise.types import frozen

PAIRS = 24
"""Largest number of methods in a table of pairs."""
LEVEL = 0.05
"""Significance level: a difference counts if its p value is below."""


Facts: TypeAlias = tuple[tuple[str, str], ...]
"""Texts with their names."""


@frozen
class ReportColumn:
    """A column of a table. With `percent`, shares are shown as percentages. `group` is a heading above adjacent columns."""

    label: str
    about: str
    decimals: int = 3
    is_share: bool = True
    group: str = ""
    percent: bool = False

    def figure(self, value: float | None) -> str:
        if value is None:
            return "–"
        return f"{100 * value if self.percent else value:,.{self.decimals}f}"

    def published_figure(self, value: float) -> str:
        """Format a number as its paper printed it."""
        return f"{value:,.{self.decimals}f}"

    def bounds(self, interval: tuple[float, float]) -> str:
        low, high = (100 * end if self.percent else end for end in interval)
        places = min(self.decimals, 1 if self.percent else 2) if self.decimals else 0
        return f"{low:,.{places}f} to {high:,.{places}f}"


@frozen
class ReportCell:
    """A value with its interval. `mark` is "best", "second" or empty. `spread` is the standard deviation between repeats.

    `published` values are as printed in their paper.
    """

    value: float | None
    interval: tuple[float, float] | None = None
    mark: str = ""
    spread: float | None = None
    published: float | None = None
    published_spread: float | None = None


@frozen
class ReportRow:
    """A row of a table. `note` tells how its values were made, or why it has none. Rows of a `section` are grouped."""

    name: str
    about: str
    section: str
    cells: tuple[ReportCell, ...]
    note: str = ""

    @property
    def has_figures(self) -> bool:
        """True if any cell has a measured value."""
        return any(cell.value is not None for cell in self.cells)


@frozen
class ReportTable:
    """A table. `key` is its name in links and files. With `is_explained`, descriptions of the columns appear below the table."""

    key: str
    title: str
    about: str
    columns: tuple[ReportColumn, ...]
    rows: tuple[ReportRow, ...]
    notes: tuple[str, ...] = ()
    source: str = ""
    is_explained: bool = False

    @property
    def has_figures(self) -> bool:
        return any(row.has_figures for row in self.rows)


@frozen
class ReportPair:
    """The difference of two methods with its 95 % interval, and its p value, corrected for all pairs of the table.

    `better` and `worse` are numbers of questions.
    """

    difference: float
    interval: tuple[float, float]
    probability: float
    better: int
    worse: int

    @property
    def is_apart(self) -> bool:
        return self.probability < LEVEL


@frozen
class ReportPairs:
    """All pairs of methods: each cell is the difference of row minus column."""

    title: str
    names: tuple[str, ...]
    cells: tuple[tuple[ReportPair | None, ...], ...]


@frozen
class ReportPart:
    """A section of the page with a heading, tables and figures."""

    key: str
    title: str
    tables: tuple[ReportTable, ...] = ()
    figures: tuple[CurveFigure, ...] = ()
    notes: tuple[str, ...] = ()


@frozen
class EvaluationReport:
    """The content of the page. `about` explains the values, `methods` describes each method, `warning` is the page's watermark.

    `data` holds blocks of compressed rows by name (`page.questions`).
    """

    title: str
    facts: str
    warning: str
    headline: tuple[str, ...]
    remarks: tuple[str, ...]
    parts: tuple[ReportPart, ...]
    pairs: tuple[ReportPairs, ...]
    provenance: tuple[tuple[str, Facts], ...]
    data: Facts = ()
    left_out: int = 0
    about: str = ""
    methods: Facts = ()
    reference: str = ""


def probability_text(probability: float) -> str:
    return "<0.001" if probability < 0.001 else f"{probability:.3f}"
