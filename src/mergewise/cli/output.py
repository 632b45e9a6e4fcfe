"""What commands print: text for people, or JSON, on standard output; progress and errors on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from mergewise.text.keys import heading_path
from mergewise.types import Answer, Citation

if TYPE_CHECKING:
    from rich.console import Console


PIPED_WIDTH = 240


@cache
def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    # a pipe has no width: what is drawn as a tree or a table gets enough, unless COLUMNS says otherwise
    fixed = "COLUMNS" in os.environ or (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, highlight=False, soft_wrap=True, width=None if fixed else PIPED_WIDTH)


def say(text: str = "", style: str | None = None) -> None:
    console().print(text, style=style, markup=False)


def say_error(message: str, hint: str = "") -> None:
    console(stderr=True).print(f"mergewise: {message}", style="bold red", markup=False)
    if hint:
        console(stderr=True).print(f"  {hint}", markup=False)


def say_warning(message: str) -> None:
    console(stderr=True).print(f"mergewise: {message}", style="yellow", markup=False)


def say_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """A bar on a terminal; nothing where standard error is a file."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[item]}", style="dim"),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, item="")

        def advance(done: int, total: int, item: str) -> None:
            bar.update(task, completed=done, total=total, item=item[-60:])

        yield advance


def usage_line(answer: Answer, price_in: float, price_out: float) -> str:
    """One line on what the answer cost and on what was wrong with it."""
    usage = answer.usage
    parts = [
        f"{answer.mode}: {usage.calls} call{'' if usage.calls == 1 else 's'}",
        f"{usage.input_tokens} tokens read, {usage.output_tokens} written",
    ]
    if price_in or price_out:
        parts.append(f"cost {usage.cost(price_in, price_out):.6f}")
    if answer.removed_marks:
        parts.append(f"{answer.removed_marks} marks that named nothing removed")
    if answer.unsupported is not None:
        parts.append(f"{answer.unsupported:.0%} of the extract unsupported")
    if not answer.complete:
        parts.append("cut at the limit of tokens")
    return "; ".join(parts)


def citation_line(citation: Citation) -> str:
    """Number, heading path, page and span of the cited sentence."""
    where = heading_path(citation.title, citation.headings)
    page = f", page {citation.page}" if citation.page is not None else ""
    span = citation.span
    return f"[{citation.number}] {where}{page}  ({span.doc_id}:{span.start}-{span.end})"
