"""Kill a script that prints "ready" and "done"."""

from __future__ import annotations

import signal
import subprocess
import sys
import time


def kill_while_working(code: str, *arguments: object, after: float, lines: int = 1) -> bool:
    """Kill the script `after` seconds after it has printed `lines` lines. Return whether it was still working."""
    words = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for _ in range(1, lines):
            process.stdout.readline()
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
        return not process.stdout.read().endswith("done\n")
