"""How far the indexing is, on standard error: a bar with the time left on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mergewise.cli.output import console, say_line
from mergewise.text.printable import on_one_line

SECONDS = 10.0
"""Between two lines where standard error is no terminal."""


@contextmanager
def working(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """A function that is told the characters done and in all, and the name of the document at hand."""
    if not console(stderr=True).is_terminal:
        yield Lines(title, say_line)
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
            bar.update(
                task, completed=done, total=total or None, work=work_of(done, total), item=on_one_line(item)[-60:]
            )

        yield advance


class Lines:
    """Says a line when the last one is ten seconds old."""

    def __init__(self, title: str, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._title, self._say, self._clock = title, say, clock
        self._said = clock()
        self._begun: float | None = None  # when the first characters were through

    def __call__(self, done: int, total: int, item: str) -> None:
        now = self._clock()
        if self._begun is None and total:
            self._begun = now
        if now - self._said >= SECONDS:
            self._said = now
            self._say(": ".join(filter(None, [self._title, ", ".join(self._parts(done, total, now)), item])))

    def _parts(self, done: int, total: int, now: float) -> Iterator[str]:
        if total:
            yield f"{100 * done // total} %"
            yield work_of(done, total)
        if self._begun is not None and 0 < done < total:
            yield f"about {span_of((now - self._begun) * (total - done) / done)} left"


def work_of(done: int, total: int) -> str:
    """Characters done and in all: '1.2 of 3.5 million characters'."""
    if not total:
        return ""
    size, unit = (1_000_000, "million ") if total >= 1_000_000 else (1000, "thousand ")
    return f"{done / size:.1f} of {total / size:.1f} {unit}characters"


def span_of(seconds: float) -> str:
    """A length of time in its largest unit: '40 s', '3 min', '1 h 20 min'."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
