"""The command `repeat`: fills the tables of a paper from the files in a folder, and compares the figures."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from mergewise import defaults
from mergewise.cli import options, settings
from mergewise.cli.evaluate import EvaluationOptions

_OTHERS = (
    "strategies budgets named split answers methods table metric mode prompts assignments index_dir show_missed files out "
    "embedder"
)
_REPLY = 64
"""Tokens of the reply that measures the speed of the chat model."""


@partial(options.with_options, without=_OTHERS.split())
def repeat(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="aed-rag, macrag, mergerag or m-rag.")],
    options: EvaluationOptions,
    data: Annotated[Path, typer.Option(metavar="DIR", help="Folder with the question sets, as published.")],
    tables: Annotated[str, typer.Option(metavar="1,2", help="Tables of the paper.", show_default="all")] = "",
    embedder: settings.EmbedderSetting = None,
) -> None:
    """Repeat a paper: find the files, price the calls, fill its tables, and compare each figure with the published one.

    A stopped run continues in the folder repeat-PAPER. Files and models that are missing are named first. --dry-run stops after
    the costs.
    """
    from mergewise.cli.evaluation_runner import Terminal, experiment_of, say_estimate
    from mergewise.cli.output import say, say_aside
    from mergewise.cli.reports import EvaluationFiles
    from mergewise.errors import UsageError
    from mergewise.evaluate.measured import measured_runs
    from mergewise.evaluate.repeat import paper_tables, repeated_figures, sets_for

    presets = paper_tables(paper, tables)
    found, missing = sets_for(data, presets)
    for line in missing:
        say(line)
    if not found:
        raise UsageError(f"no question set of {paper} in {data}", "see the page of the paper in the manual")
    for name, path in found.items():
        say(f"{name}: {path}")
    out = Path(f"repeat-{paper}")
    options = replace(options, table=",".join(one.name for one in presets), out=out, embedder=embedder)
    experiment = experiment_of([Path(f"{name}={path}") for name, path in found.items()], options)
    terminal = Terminal(options, EvaluationFiles(()))
    usage = say_estimate(experiment, options, terminal)
    if options.dry_run:
        return
    if usage.calls and (speed := _seconds_per_token(options)):
        say(f"about {usage.output_tokens * speed / 3600:.1f} hours, if all replies are at their longest")
    run = experiment.run(terminal)
    terminal.end(run, presets)
    say("\nours, its 95 % interval, the published figure, and whether it lies inside:", style="bold")
    for one in repeated_figures(measured_runs([run]), presets):
        say(f"{one.table}; {one.row}; {one.column}")
        say(f"    {one.ours} ({one.interval})  {one.published}  {one.verdict}")
    say_aside(f"run folder: {out}; `mergewise report {out}` shows all of it")


def _seconds_per_token(options: EvaluationOptions) -> float:
    """Measure the chat model by one call. Return the seconds for each token of its reply."""
    from mergewise import concurrency
    from mergewise.extend import load_chat, release, turn

    if options.chat == defaults.CHAT or (chat := load_chat(options.chat, options.window)) is None:
        return 0.0
    try:
        began = perf_counter()
        asked = turn("Count from one, in words, until you are stopped.", ["one " * 400])
        reply = concurrency.run(chat.complete(asked, max_tokens=_REPLY))
        return (perf_counter() - began) / max(1, reply.usage.output_tokens)
    finally:
        release(chat)
