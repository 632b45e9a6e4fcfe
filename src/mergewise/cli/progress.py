"""Progress of a long task on standard error: a bar with the time left on a terminal, else a line every ten seconds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, TypeAlias

from mergewise.cli.output import console, is_plain, say_aside
from mergewise.extend import on_one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

FIRST, SECONDS = 1.0, 10.0
"""Seconds before the first line, and between lines, if standard error is not a terminal."""
RECENT = 60.0
"""Seconds of recent work from which the time left is estimated."""
TICK = 0.25

Amount: TypeAlias = Callable[[int, int], str]
"""Formats the work done and the total for people."""


def items(done: int, total: int) -> str:
    """Format a number of items: '3 of 20'."""
    return f"{done} of {total}" if total else ""


def characters(done: int, total: int) -> str:
    """Format a number of characters: '1.2 of 3.5 million characters'."""
    if not total:
        return ""
    size, unit = (1_000_000, "million ") if total >= 1_000_000 else (1000, "thousand ")
    return f"{done / size:.1f} of {total / size:.1f} {unit}characters"


@contextmanager
def progress(title: str, amount: Amount = items) -> Iterator[Callable[[int, int, str], None]]:
    """Show progress. Yields a function to call with the work done, the total (0 if unknown) and the current item's name."""
    task = TaskState(title, amount)
    shown = lines_of(task) if is_plain(stderr=True) else bar_of(task, console(stderr=True))
    with shown:
        yield task.advance


class TaskState:
    """Progress of a task, and its speed in the last minute."""

    def __init__(self, title: str, amount: Amount, clock: Callable[[], float] = time.monotonic) -> None:
        self.title, self._amount, self._clock = title, amount, clock
        self.done = self.total = 0
        self.item = ""
        # (time, work done) of the last minute
        self._past: deque[tuple[float, int]] = deque()

    def advance(self, done: int, total: int, item: str) -> None:
        if not self.total or done < self.done:
            # the work starts now, or another part of the task starts at 0
            self._past.clear()
        self.done, self.total, self.item = done, total, on_one_line(item)
        now = self._clock()
        if not self._past or done > self._past[-1][1]:
            self._past.append((now, done))
        # keep one entry older than a minute: a step may take longer than that
        while len(self._past) > 2 and self._past[1][0] < now - RECENT:
            self._past.popleft()

    def seconds_left(self) -> float | None:
        """Estimate the seconds left from the work of the last minute. Return None if nothing is known yet."""
        if not self._past or not 0 < self.done < self.total:
            return None
        now, (began, before), (last, _) = self._clock(), self._past[0], self._past[-1]
        if self.done == before:
            return None
        steps_left = (self.total - self.done) / (self.done - before)
        left = (last - began) * steps_left - (now - last)
        # the current step has already taken longer than the estimate: use the speed including this step
        return left if left > 0 else (now - began) * steps_left

    def figures(self) -> list[str]:
        """Return the share, the amount and the time left, as far as they are known."""
        share = [f"{100 * self.done // self.total} %", self._amount(self.done, self.total)] if self.total else []
        left = self.seconds_left()
        return share if left is None else [*share, f"about {duration(left)} left"]


# -- lines


class ProgressLines:
    """Printer of progress lines: the first after one second, then one every ten seconds."""

    def __init__(
        self, task: TaskState, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._task, self._say, self._clock = task, say, clock
        self._due = clock() + FIRST

    def tick(self) -> None:
        """Print a line if one is due. Call this several times a second."""
        now = self._clock()
        if now >= self._due:
            self._due = now + SECONDS
            self._say(": ".join(filter(None, [self._task.title, ", ".join(self._task.figures()), self._task.item])))


@contextmanager
def lines_of(task: TaskState) -> Iterator[None]:
    """Print lines from a thread, so that they appear even while one step takes minutes."""
    lines = ProgressLines(task, lambda line: say_aside(line, None))
    ended = Event()

    def tick_until_ended() -> None:
        while not ended.wait(TICK):
            lines.tick()

    thread = Thread(target=tick_until_ended, name="mergewise-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


# -- a bar

BAR = 20
"""Width of the bar in characters. A narrow terminal shows no bar."""


@contextmanager
def bar_of(task: TaskState, terminal: Console) -> Iterator[None]:
    """Draw one line and keep updating it."""
    from rich.live import Live

    with Live(
        console=terminal,
        transient=True,
        refresh_per_second=1 / TICK,
        get_renderable=lambda: bar_line(task, terminal.width),
    ):
        yield


def bar_line(task: TaskState, width: int) -> Text:
    """Format title, figures and time left, then the bar and the item if the width allows."""
    from rich.text import Text

    words = ", ".join([task.title, *task.figures()])
    parts: list[tuple[str, str]] = [(words, "")]
    room = width - len(words) - 1
    if task.total and room > BAR:
        filled = BAR * task.done // task.total
        parts += [("  ", ""), ("━" * filled, "green"), ("━" * (BAR - filled), "dim")]
        room -= BAR + 2
    if room > 8:
        parts += [("  ", ""), (end_of(task.item, room - 2), "dim")]
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis", end="")


def end_of(name: str, width: int) -> str:
    """Return a name, cut at its start to fit `width` terminal cells."""
    from rich.cells import cell_len

    left = name
    while cell_len(left) + (left != name) > width:
        left = left[1:]
    return left if left == name else f"…{left}"


def duration(seconds: float) -> str:
    """Format a duration: '40 s', '3 min', '1 h 20 min'."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
