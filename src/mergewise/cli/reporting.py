"""`report`: what runs measured, several side by side, as a page, Markdown, CSV and SVG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mergewise.cli.output import say, say_aside
from mergewise.errors import UsageError

if TYPE_CHECKING:
    from mergewise.page.evaluation import LabReport


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders, as eval --out writes them.")],
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one page that needs no network.")] = None,
    md: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the tables in Markdown.")] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the figures of all tables, one a line.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="DIR", help="Write each curve to a file in this folder.")] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD", help="Method that the others are compared with.", show_default="the run's, else the first"
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Tables of the papers to fill.", show_default="those of the run"),
    ] = None,
    metric: Annotated[
        str, typer.Option(metavar="NAME,...|all", help="Scores of the tables.", show_default="the main ones")
    ] = "",
) -> None:
    """Tables with tests, curves, costs and questions of one or more runs. Without a file named, the tables are printed.

    Bold is the best method and every one that is not worse than it; published numbers stand beside ours.
    """
    from mergewise.evaluate.exports import csv_table, markdown, svg_files
    from mergewise.evaluate.lab import lab_report
    from mergewise.evaluate.measured import measured_runs
    from mergewise.evaluate.presets import presets_of
    from mergewise.evaluate.runs.folder import open_run
    from mergewise.page.evaluation import evaluation_page

    measured = measured_runs([open_run(folder) for folder in runs], reference)
    presets = presets_of(",".join(measured.tables) if table is None else table) if table or measured.tables else []
    found = lab_report(measured, presets, metric)
    for path, text in ((html, evaluation_page), (md, markdown), (csv, csv_table)):
        if path is not None:
            _write(path, text(found))
    if svg is not None:
        for name, drawn in svg_files(found).items():
            _write(svg / name, drawn)
    if not any((html, md, csv, svg)):
        _say(found)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace", newline="")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", "name a file that can be written") from None
    say_aside(f"written: {path}")


def _say(found: LabReport) -> None:
    from mergewise.cli.tables import say_lab_table

    if found.warning:
        say(found.warning, style="bold")
    for line in (*found.headline, *found.remarks):
        say(line.replace("**", ""))
    for part in found.parts:
        for table in part.tables:
            say_lab_table(table)
