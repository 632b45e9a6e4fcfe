"""Indexing with one process and with extra workers: seconds, and CPU seconds of the writing process and of the workers.

python -m benchmarks.workers [--embedder none|minilm] [--leaves N] [--files DIR] [--copies N] [--workers 1,2] [--rounds N]

Without `--files`, documents come from `benchmarks.corpus`. Every run is a separate process, so that runs do not share caches.
The writing process uses one core: once it dominates, more workers do not help. Files are read without the sandbox's limits, so
that the time of their parsers is counted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import mergewise
from benchmarks.corpus import documents


def index_once(arguments: argparse.Namespace, workers: int) -> str:
    """Return one row of the table."""
    found = [path for path in arguments.files.rglob("*") if path.is_file()] if arguments.files else []
    with tempfile.TemporaryDirectory() as folder:
        for copy in range(arguments.copies):
            for path in found:
                place = Path(folder, "files", str(copy), path.name)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(path.read_bytes())
        sources = [Path(folder, "files")] if found else list(documents(arguments.leaves))
        index = mergewise.open(Path(folder, "index"), embedder=arguments.embedder)
        before, began = os.times(), perf_counter()
        index.add(sources, workers=workers)
        seconds, after = perf_counter() - began, os.times()
    own = after.user + after.system - before.user - before.system
    others = after.children_user + after.children_system - before.children_user - before.children_system
    return f"| {workers} | {seconds:.1f} | {own:.1f} | {others:.1f} | {own + others:.1f} | {(own + others) / seconds:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", default="none")
    parser.add_argument("--leaves", type=int, default=20_000)
    parser.add_argument("--files", type=Path)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--once", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once is not None:
        print(index_once(arguments, arguments.once), flush=True)
        return
    print("| workers | seconds | CPU, writing process | CPU, workers | CPU | cores busy |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    for _ in range(arguments.rounds):
        for workers in arguments.workers.split(","):
            subprocess.run([sys.executable, "-m", "benchmarks.workers", *sys.argv[1:], "--once", workers], check=True)


if __name__ == "__main__":
    main()
