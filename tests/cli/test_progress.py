"""Progress: figures before names, the current file, and a time left from the work of the last minute."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from tests.support import patience

from mergewise.cli import progress as module
from mergewise.cli.progress import (
    FIRST,
    RECENT,
    SECONDS,
    ProgressLines,
    TaskState,
    bar_line,
    characters,
    duration,
    end_of,
    items,
    progress,
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_lines_come_after_one_second_and_then_every_ten_seconds() -> None:
    """Lines appear even while a step of one large file takes minutes."""
    clock = Clock()
    lines: list[str] = []
    task = TaskState("Indexing", characters, clock)
    progress_lines = ProgressLines(task, lines.append, clock)
    task.advance(0, 0, "a.md")
    progress_lines.tick()
    assert lines == [] and FIRST < 2
    clock.now += FIRST
    progress_lines.tick()
    assert lines == ["Indexing: a.md"]
    task.advance(0, 2_000_000, "b.md")
    clock.now += SECONDS / 2
    task.advance(250_000, 2_000_000, "c.md")
    progress_lines.tick()
    assert len(lines) == 1
    for _ in range(2):
        clock.now += SECONDS / 2
        progress_lines.tick()
    assert lines[1:] == ["Indexing: 12 %, 0.2 of 2.0 million characters, about 30 s left: c.md"]
    clock.now += SECONDS
    task.advance(500_000, 2_000_000, "d.md")
    progress_lines.tick()
    assert lines[2:] == ["Indexing: 25 %, 0.5 of 2.0 million characters, about 75 s left: d.md"]


def test_the_time_left_depends_on_the_last_minute() -> None:
    """An hour at a tenth of the current speed does not affect the time left."""
    clock = Clock()
    task = TaskState("Indexing", characters, clock)
    task.advance(0, 100_000, "a")
    for _ in range(360):
        clock.now += 10
        task.advance(task.done + 100, 100_000, "a")
    assert task.seconds_left() == pytest.approx((100_000 - 36_000) / 10, rel=0.01)
    for _ in range(8):
        clock.now += 10
        task.advance(task.done + 1000, 100_000, "a")
    assert task.seconds_left() == pytest.approx((100_000 - 44_000) / 100, rel=0.01)
    assert len(task._past) <= RECENT / 10 + 3


def test_the_time_before_the_amount_of_work_is_known_does_not_count() -> None:
    clock = Clock()
    task = TaskState("Indexing", characters, clock)
    for _ in range(5):
        clock.now += 100
        task.advance(0, 0, "a")
    task.advance(0, 1000, "a")
    clock.now += 10
    task.advance(500, 1000, "a")
    assert task.seconds_left() == 10.0


def test_the_time_left_decreases_within_a_long_step_and_stays_positive() -> None:
    clock = Clock()
    task = TaskState("Indexing", characters, clock)
    task.advance(0, 1000, "a")
    clock.now += 100
    task.advance(500, 1000, "a")
    clock.now += 30
    assert task.seconds_left() == 70.0
    clock.now += 100
    assert task.seconds_left() == 230.0


@given(st.lists(st.tuples(st.floats(0, 200), st.integers(-50, 50)), max_size=30), st.integers(1, 2000))
def test_the_time_left_is_always_valid(steps: list[tuple[float, int]], total: int) -> None:
    """The total may start again at 0, as it does for each view of an index."""
    clock = Clock()
    task = TaskState("Indexing", characters, clock)
    for passed, more in steps:
        clock.now += passed
        task.advance(min(total, max(0, task.done + more)), total, "a")
        left = task.seconds_left()
        assert left is None or left >= 0
        clock.now += passed / 3
        left = task.seconds_left()
        assert left is None or left >= 0


@given(st.integers(20, 200), st.text(min_size=1, max_size=150), st.integers(0, 10_000_000))
def test_figures_have_priority_over_the_name(width: int, name: str, done: int) -> None:
    clock = Clock()
    task = TaskState("Indexing", characters, clock)
    task.advance(0, 10_000_000, name)
    clock.now += 30
    task.advance(done, 10_000_000, name)
    line = bar_line(task, width)
    words = ", ".join(["Indexing", *task.figures()])
    assert line.plain.startswith(words)
    assert line.cell_len <= max(width, len(words))
    if width >= 80:
        assert f"{100 * done // 10_000_000} %" in line.plain[:80] and len(words) < 80


@given(st.text(max_size=40), st.integers(2, 30))
def test_a_long_name_is_cut_at_its_start(name: str, width: int) -> None:
    shown = end_of(name, width)
    assert cell_len(shown) <= width
    assert shown == name or (shown.startswith("…") and name.endswith(shown[1:]))


def test_durations_and_amounts() -> None:
    assert [duration(seconds) for seconds in (3, 89, 180, 5400, 6000)] == [
        "3 s",
        "89 s",
        "3 min",
        "1 h 30 min",
        "1 h 40 min",
    ]
    assert (characters(0, 0), characters(500, 2000)) == ("", "0.5 of 2.0 thousand characters")
    assert (items(0, 0), items(3, 20)) == ("", "3 of 20")


def test_quick_work_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Indexing", characters) as advance:
        advance(1, 2, "a.md")
    assert capsys.readouterr().err == ""
    assert all(thread.name != "mergewise-progress" for thread in threading.enumerate())


def test_lines_come_while_one_step_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "FIRST", 0.01)
    monkeypatch.setattr(module, "TICK", 0.01)
    with progress("Indexing", characters) as advance:
        advance(0, 0, "large.txt")
        until = time.monotonic() + patience(20)
        while not (output := capsys.readouterr().err) and time.monotonic() < until:
            time.sleep(0.01)
    assert output == "Indexing: large.txt\n"


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=120)
    monkeypatch.setattr("mergewise.cli.progress.is_plain", lambda stderr: False)
    monkeypatch.setattr("mergewise.cli.progress.console", lambda stderr: terminal)
    with progress("Indexing", characters) as advance:
        advance(0, 0, "a.md")
        advance(500, 2000, "b.md")
    assert "25 %, 0.5 of 2.0 thousand characters" in shown.getvalue()
    assert "b.md" in shown.getvalue()


TERMINAL = """
import time
from mergewise.cli.progress import characters, progress
name = "a/long/way/to/" + "folder/" * 12 + "manual.md"
with progress("Indexing", characters) as advance:
    advance(0, 0, name)
    for done in range(0, 7):
        advance(done * 500_000, 3_500_000, name)
        time.sleep(0.3)
"""


def test_a_terminal_of_80_columns_shows_all_figures_on_one_line(tmp_path: Path) -> None:
    """Record a terminal: no line is wider than the terminal, and all lines have the figures."""
    shown = recorded([sys.executable, "-c", TERMINAL])
    frames = [frame for frame in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)) if frame.strip()]
    assert frames and all(cell_len(frame) <= 80 for frame in frames)
    frames_with_figures = [
        frame for frame in frames if re.search(r"\d+ %, \d\.\d of 3\.5 million characters, about \d+ s left", frame)
    ]
    assert frames_with_figures and all(frame.endswith("manual.md") for frame in frames_with_figures if "…" in frame)
    assert any("…" in frame for frame in frames_with_figures)


def recorded(command: list[str]) -> str:
    """Record the output of a program in a terminal of 80 columns."""
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "LINES": "24", "TERM": "xterm-256color"}
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment):
        os.close(slave)
        read = bytearray()
        while True:
            ready, _, _ = select.select([master], [], [], 60)
            try:
                piece = os.read(master, 65536) if ready else b""
            except OSError:
                piece = b""
            if not piece:
                break
            read += piece
    os.close(master)
    return read.decode("utf-8", "replace")
