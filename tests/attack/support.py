"""Shared tools of the attacks: the length of a run, commands on a terminal, and the resources of a process."""

from __future__ import annotations

import os
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command import run

LONG = "MERGEWISE_ATTACK" in os.environ
COMMAND = [sys.executable, "-c", "from mergewise.cli.main import main; main()"]
ROOT = Path(__file__).parents[2]
SECONDS = 300.0  # timeout of a command, generous for busy machines

posix_only = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@dataclass(frozen=True, slots=True)
class Done:
    """A finished command: its exit code and its output."""

    code: int
    out: str
    err: str = ""

    def checked(self) -> Done:
        """Check that the command exited with 0, 1 or 2 and without a traceback. Return self."""
        assert self.code in (0, 1, 2), (self.code, self.out[-2000:], self.err[-2000:])
        assert "Traceback" not in self.out + self.err, self.err[-4000:]
        return self


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "COLUMNS": "120", "TERM": "xterm-256color", **more}


def command(cwd: Path, *words: str, stdin: str | None = None, **more: str) -> Done:
    """Run a command with its output in pipes. Use a fresh interpreter if the environment configures Python."""
    if not LONG and not any(name.startswith(("PYTHON", "LC_", "LANG")) for name in more):
        forked = run(words, cwd, environment(**more), (stdin or "").encode())
        return Done(forked.returncode, forked.stdout.decode(), forked.stderr.decode()).checked()
    return script(COMMAND[-1], *words, cwd=cwd, stdin=stdin, **more)


def script(
    code: str,
    *words: object,
    before: Sequence[str] = (),
    cwd: Path | None = None,
    stdin: str | None = None,
    **more: str,
) -> Done:
    """Run a script in a separate process, which must exit with 0, 1 or 2. `before` is a wrapper command."""
    started = [*before, sys.executable, "-c", code, *map(str, words)]
    streams: dict[str, Any] = {"capture_output": True, "text": True, "input": stdin}
    done = subprocess.run(started, cwd=cwd, timeout=SECONDS, env=environment(**more), **streams)
    return Done(done.returncode, done.stdout, done.stderr).checked()


def on_terminal(cwd: Path, *words: str, **more: str) -> Done:
    """Run a command with a terminal as all of its streams. The output is the drawn bytes."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *words], cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(**more)
    )
    os.close(theirs)
    drawn = bytearray()
    until = time.monotonic() + SECONDS
    try:
        while time.monotonic() < until:
            if not select.select([ours], [], [], 1.0)[0]:
                continue
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the terminal closes with the process
                break
            if not piece:
                break
            drawn += piece
        code = process.wait(10)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return Done(code, drawn.decode("utf-8", "surrogateescape")).checked()


def memory_mb() -> float:
    """Return the memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def run_measured(cwd: Path, *words: str, **more: str) -> tuple[Done, float]:
    """Run a command with its output in files. Return its peak memory in MB too."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen([*COMMAND, *words], cwd=cwd, stdout=out, stderr=err, env=environment(**more))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (out, err):
            file.seek(0)
        return Done(process.returncode, out.read(), err.read()).checked(), usage.ru_maxrss / 1000
