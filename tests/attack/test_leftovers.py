"""Processes that must not outlive their parent: readers, workers and a server's processes, after kills and closed terminals."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.attack.support import COMMAND, LONG, SECONDS, environment, linux_only
from tests.support import patience

pytestmark = linux_only

ENDING = 15.0
"""Seconds for the processes to end. A server's writer may take `STOP_SECONDS` for its running batch."""
READING = """
import sys
from pathlib import Path
from mergewise.readers.sandbox import Limits, SandboxedReader
SandboxedReader(Limits(seconds=90), "tests.readers.hostile:read_hostile").read(Path(sys.argv[1]))
"""
WORKING = """
import sys, time
from mergewise.index.executors import in_workers
with in_workers(0, 2) as pool:
    list(pool.map(time.sleep, [60.0] * 4))
"""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def descendants(pid: int) -> dict[int, str]:
    """Map the ids of all processes below this one to their start times."""
    found: dict[int, str] = {}
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found[child] = start_time(child)
                found |= descendants(child)
    return found


def start_time(pid: int) -> str:
    """Return the start time of a process, or nothing if it has ended. A zombie counts as ended."""
    with suppress(OSError):
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return rest[18] if state != "Z" else ""
    return ""


def wait_for_children(pid: int, count: int) -> dict[int, str]:
    until = time.monotonic() + SECONDS
    while len(found := descendants(pid)) < count:
        assert time.monotonic() < until, f"{len(found)} of {count} children"
        time.sleep(0.05)
    # the children must be at work, beyond the start of the interpreter
    time.sleep(patience(1.5))
    return descendants(pid)


def assert_all_end(children: dict[int, str]) -> None:
    assert children
    until = time.monotonic() + patience(ENDING)
    while left := [pid for pid, began in children.items() if began and start_time(pid) == began]:
        if time.monotonic() > until:
            commands = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")[-200:] for pid in left]
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"left over after {ENDING:.0f} seconds: {commands}")
        time.sleep(0.1)


def started(kind: str, folder: Path, streams: int = subprocess.DEVNULL) -> tuple[subprocess.Popen[bytes], int]:
    """Start a process, and return it with the number of its children."""
    words, count = {
        "reader": ([sys.executable, "-c", READING, "sleeps.txt"], 1),
        "looping reader": ([sys.executable, "-c", READING, "loops.txt"], 1),
        "workers": ([sys.executable, "-c", WORKING], 2),
        "server": ([*COMMAND, "serve", "data", "--port", "0", "--workers", "2"], 3),
    }[kind]
    (folder / "sleeps.txt").write_text("x")
    (folder / "loops.txt").write_text("x")

    def prepare() -> None:
        # a test runner in the background may ignore these signals
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        if streams != subprocess.DEVNULL:
            # make it the terminal of the session, so that its end is the end of the session
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    paths = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    process = subprocess.Popen(
        words,
        cwd=folder,
        stdin=streams,
        stdout=streams,
        stderr=streams,
        env=environment(PYTHONPATH=paths),
        start_new_session=True,
        preexec_fn=prepare,
    )
    return process, count


@pytest.fixture
def ending() -> Iterator[list[subprocess.Popen[bytes]]]:
    """A list of processes to kill after the test."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


CASES = (
    [(kind, number) for kind in ("reader", "looping reader", "workers", "server") for number in SIGNALS]
    if LONG
    else [("reader", signal.SIGKILL), ("looping reader", signal.SIGTERM), ("workers", signal.SIGKILL)]
)


@pytest.mark.parametrize(("kind", "number"), CASES, ids=lambda value: getattr(value, "name", value))
def test_children_end_with_a_killed_parent(
    kind: str, number: signal.Signals, tmp_path: Path, ending: list[subprocess.Popen[bytes]]
) -> None:
    process, count = started(kind, tmp_path)
    ending.append(process)
    children = wait_for_children(process.pid, count)
    process.send_signal(number)
    assert_all_end(children)
    process.wait(ENDING)


@pytest.mark.parametrize("kind", ["reader", "workers", "server"] if LONG else ["reader"])
def test_children_end_with_their_terminal(kind: str, tmp_path: Path, ending: list[subprocess.Popen[bytes]]) -> None:
    ours, theirs = pty.openpty()
    process, count = started(kind, tmp_path, theirs)
    ending.append(process)
    children = wait_for_children(process.pid, count)
    os.close(theirs)
    os.close(ours)
    assert_all_end(children)
