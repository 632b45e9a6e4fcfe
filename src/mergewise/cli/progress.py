"""How far a long task is, on standard error: a bar with the time left on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from mergewise.cli.output import console, is_plain, say_aside
from mergewise.text.printable import on_one_line

SECONDS = 10.0
"""Between two lines where standard error is no terminal."""

Amount: TypeAlias = Callable[[int, int], str]
"""The work done and in all, as people read it."""


def items(done: int, total: int) -> str:
    """Questions and the like: '3 of 20'."""
    return f"{done} of {total}" if total else ""


def characters(done: int, total: int) -> str:
    """Characters of text: '1.2 of 3.5 million characters'."""
    if not total:
        return ""
    size, unit = (1_000_000, "million ") if total >= 1_000_000 else (1000, "thousand ")
    return f"{done / size:.1f} of {total / size:.1f} {unit}characters"


@contextmanager
def progress(title: str, amount: Amount = items) -> Iterator[Callable[[int, int, str], None]]:
    """A function to call with the work done, the work in all (0: not known yet), and the name of the item at hand."""
    if is_plain(stderr=True):
        yield ProgressLines(title, lambda line: say_aside(line, None), amount)
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[work]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[item]}", style="dim", markup=False),
    )
    with Progress(*columns, console=console(stderr=True), transient=True, speed_estimate_period=120) as bar:
        task = bar.add_task(title, total=None, work="", item="")

        def advance(done: int, total: int, item: str) -> None:
            work = amount(done, total)
            bar.update(task, completed=done, total=total or None, work=work, item=on_one_line(item)[-60:])

        yield advance


class ProgressLines:
    """Says a line when the last one is ten seconds old."""

    def __init__(
        self, title: str, say: Callable[[str], None], amount: Amount, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._title, self._say, self._amount, self._clock = title, say, amount, clock
        self._last = clock()
        # when the amount of work was known first
        self._began: float | None = None

    def __call__(self, done: int, total: int, item: str) -> None:
        now = self._clock()
        if self._began is None and total:
            self._began = now
        if now - self._last >= SECONDS:
            self._last = now
            self._say(": ".join(filter(None, [self._title, ", ".join(self._parts(done, total, now)), item])))

    def _parts(self, done: int, total: int, now: float) -> Iterator[str]:
        if total:
            yield f"{100 * done // total} %"
            yield self._amount(done, total)
        if self._began is not None and 0 < done < total:
            yield f"about {duration((now - self._began) * (total - done) / done)} left"


def duration(seconds: float) -> str:
    """A length of time in its largest unit: '40 s', '3 min', '1 h 20 min'."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
