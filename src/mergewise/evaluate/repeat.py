"""Repetition of a paper: the tables, the question sets that fill their columns, and the published figures beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mergewise.errors import UsageError, check_known
from mergewise.evaluate.layout import preset_tables
from mergewise.evaluate.loaders import find_tasks, form_of, set_name
from mergewise.evaluate.measured import Measured
from mergewise.evaluate.methods import names_in
from mergewise.evaluate.presets import Preset, preset, preset_names

PAPERS = {"aed-rag": "aed", "macrag": "macrag", "mergerag": "mergerag", "m-rag": "mrag"}
"""The beginnings of the names of each paper's tables."""


def paper_tables(paper: str, tables: str) -> list[Preset]:
    """Return the tables of a paper, all or those with these names, such as "1,2" or "curve".

    Raises UsageError for an unknown paper or table.
    """
    check_known("paper", paper, PAPERS)
    known = [name.removeprefix(f"{PAPERS[paper]}-") for name in preset_names() if name.startswith(f"{PAPERS[paper]}-")]
    for name in names_in(tables):
        check_known(f"table of {paper}", name, known)
    return [preset(f"{PAPERS[paper]}-{name}") for name in names_in(tables) or known]


def sets_for(folder: Path, tables: Sequence[Preset]) -> tuple[dict[str, Path], list[str]]:
    """Return the files in the folder that fill columns of the tables, by the name of their set, and the empty columns."""
    wanted = {group.label: group.sets for table in tables for group in table.groups if group.sets}
    at_hand: dict[str, Path] = {}
    for place in (folder, *sorted(path for path in folder.rglob("*") if path.is_dir())):
        with suppress(UsageError):
            for path in find_tasks(place):
                at_hand.setdefault(set_name(path, form_of(path)), path)
    chosen = {label: next((name for name in names if name in at_hand), "") for label, names in wanted.items()}
    missing = [
        f"{label}: no file of {', '.join(wanted[label])} in {folder}" for label, name in chosen.items() if not name
    ]
    return {name: at_hand[name] for name in chosen.values() if name}, missing


class RepeatedFigure(NamedTuple):
    """A cell of a paper's table: the published figure, and ours with its 95 % confidence interval, as they are printed.

    `verdict` says whether the published figure is "inside" or "outside" the interval.
    """

    table: str
    row: str
    column: str
    ours: str
    interval: str
    published: str
    verdict: str


def repeated_figures(measured: Measured, tables: Sequence[Preset]) -> Iterator[RepeatedFigure]:
    """Yield the cells that have both a published and a measured figure."""
    for table in (one for each in tables for one in preset_tables(measured, each)):
        for row in table.rows:
            for column, cell in zip(table.columns, row.cells, strict=True):
                if cell.published is None or cell.value is None:
                    continue
                scale = 100 if column.percent else 1
                verdict = "no interval"
                if cell.interval is not None:
                    low, high = (scale * end for end in cell.interval)
                    verdict = "inside" if low <= cell.published <= high else "outside"
                yield RepeatedFigure(
                    table.title,
                    f"{row.section}: {row.name}" if row.section else row.name,
                    f"{column.group} {column.label}".strip(),
                    column.figure(cell.value),
                    "" if cell.interval is None else column.bounds(cell.interval),
                    column.published_figure(cell.published),
                    verdict,
                )
