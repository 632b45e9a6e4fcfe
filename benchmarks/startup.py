"""Time of a command from a cold start, as a ratio to `python -c "import numpy"` run in turn with it.

python -m benchmarks.startup [--index DIR] [--runs 9] [--json]

Each round runs numpy and then every command in a fresh process, so that other load on the machine affects all of them equally.
Figures are medians over rounds. Without `--index`, a small index of the manual is built first. Byte code is cached in a
separate folder, as in an installed package. On an idle machine, 1.0 is about 0.13 s.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

MANUAL = Path(__file__).parents[1] / "docs"
QUESTION = "Which budget is used by default?"
NUMPY = ("-c", "import numpy")


def mergewise(*words: str) -> tuple[str, ...]:
    return ("-c", "from mergewise.cli.main import main; main()", *words)


def commands(index: str) -> dict[str, tuple[str, ...]]:
    return {
        "import numpy": NUMPY,
        "import mergewise": ("-c", "import mergewise"),
        "--version": mergewise("--version"),
        "info": mergewise("info", "--index", index),
        "context": mergewise("context", QUESTION, "--index", index),
        "ask": mergewise("ask", QUESTION, "--index", index),
    }


def seconds(words: Sequence[str], environment: dict[str, str]) -> float:
    started = perf_counter()
    done = subprocess.run(
        [sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    if done.returncode not in (0, 1):  # 1: no results
        raise SystemExit(f"{' '.join(words)} exited with {done.returncode}")
    return perf_counter() - started


def medians(index: str, runs: int, environment: dict[str, str]) -> dict[str, float]:
    timed = commands(index)
    for words in timed.values():  # warm up the disk cache and the compiled files
        seconds(words, environment)
    rounds = [{name: seconds(words, environment) for name, words in timed.items()} for _ in range(runs)]
    return {name: median(taken[name] / taken["import numpy"] for taken in rounds) for name in timed} | {
        "seconds of numpy": median(taken["import numpy"] for taken in rounds)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", help="Existing index (default: an index of the manual)")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="mergewise-startup-") as folder:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "pycache")
        index = options.index or str(Path(folder) / "index")
        if not options.index:
            seconds(mergewise("index", str(MANUAL), "--index", index), environment)
        found = medians(index, options.runs, environment)
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:20} {value:6.2f}")


if __name__ == "__main__":
    main()
