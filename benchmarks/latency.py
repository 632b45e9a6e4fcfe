"""Processor time and wall-clock time per question, with one and two threads: of one version, or several in one run.

python -m benchmarks.latency --index DIR --questions FILE... [--trees DIR...] [--rounds 5] [--limit 200]

A question set is JSON lines with `question`, gzipped or not. Each source tree (a folder with `src/mergewise`; default: the
running one) answers in a separate process. The trees take turns, strategy by strategy, so that a busy machine slows all of them
down equally. Medians are over single questions. Questions per second are those of the fastest round.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

STRATEGIES = ("topk", "auto-merge", "weave(onward=0)", "weave")
THREADS = (1, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--questions", type=Path, nargs="+", required=True)
    parser.add_argument("--trees", type=Path, nargs="+", default=[Path(__file__).parents[1]])
    parser.add_argument("--strategies", default=";".join(STRATEGIES), help="Strategies, separated by semicolons")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=200, help="Questions per round, alternating between the files")
    parser.add_argument("--answering", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answering:
        answer_rounds(options.index, questions_of(options.questions, options.limit))
    else:
        measure(options.trees, options.strategies.split(";"), options.rounds)


def questions_of(files: Sequence[Path], limit: int) -> list[str]:
    sets = []
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
            sets.append([str(json.loads(line)["question"]) for line in lines])
    each = -(-limit // len(sets))
    return [question for one in sets for question in one[:each]][:limit]


# -- one version, in a separate process


def answer_rounds(index: Path, questions: Sequence[str]) -> None:
    """Read lines with a strategy and a number of threads. Print the times of a round for each, as a line of JSON."""
    import mergewise

    opened = mergewise.open(index, create=False)

    def times(strategy: str, question: str) -> tuple[float, float]:
        """Return processor milliseconds of all threads, and wall-clock milliseconds."""
        used, began = process_time(), perf_counter()
        opened.context(question, strategy=strategy, budget=640)
        return 1000 * (process_time() - used), 1000 * (perf_counter() - began)

    for line in sys.stdin:
        strategy, threads = json.loads(line)
        # clear the cache of questions, which older trees have elsewhere
        for module in map(import_module, ("mergewise.retrieve.hybrid", "mergewise.models.embedders")):
            if hasattr(module, "QUESTIONS"):
                module.QUESTIONS.__init__()
        used, began = process_time(), perf_counter()
        if threads == 1:
            single = [times(strategy, question) for question in questions]
        else:
            with ThreadPoolExecutor(threads) as pool:
                single = list(pool.map(partial(times, strategy), questions))
        row = {
            "cpu": 1000 * (process_time() - used) / len(questions),
            "a second": len(questions) / (perf_counter() - began),
            "single cpu": [cpu for cpu, _ in single],
            "clock": [clock for _, clock in single],
        }
        print(json.dumps(row), flush=True)


# -- all versions in turn


def measure(trees: Sequence[Path], strategies: Sequence[str], rounds: int) -> None:
    running = [start(tree) for tree in trees]
    cells: dict[tuple[int, str, int], list[dict[str, Any]]] = defaultdict(list)
    for number in range(rounds + 1):
        for strategy in strategies:
            for threads in THREADS:
                # Alternate the order of the trees.
                for at in range(len(trees))[:: -1 if number % 2 else 1]:
                    row = ask(running[at], strategy, threads)
                    # The first round is a warm-up.
                    if number:
                        cells[at, strategy, threads].append(row)
    for process in running:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    report(trees, strategies, cells)


def start(tree: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(tree.resolve() / "src")}
    command = [sys.executable, str(Path(__file__).resolve()), *sys.argv[1:], "--answering"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def ask(process: subprocess.Popen[str], strategy: str, threads: int) -> dict[str, Any]:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps([strategy, threads]) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        sys.exit("a version stopped with the error above")
    row: dict[str, Any] = json.loads(line)
    return row


def report(
    trees: Sequence[Path], strategies: Sequence[str], cells: dict[tuple[int, str, int], list[dict[str, Any]]]
) -> None:
    """Print medians for one thread, and questions per second for one and several threads. Ratios are to the first tree."""
    print("| strategy | tree | CPU ms | clock ms | p95 | a second | two threads | ratio of CPU | of clock |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for strategy in strategies:
        first: tuple[float, float] | None = None
        for at, tree in enumerate(trees):
            one, two = (cells[at, strategy, threads] for threads in THREADS)
            cpu = median(value for row in one for value in row["single cpu"])
            clocks = sorted(value for row in one for value in row["clock"])
            clock, p95 = median(clocks), clocks[int(0.95 * len(clocks))]
            alone, both = (max(row["a second"] for row in rows) for rows in (one, two))
            first = first or (cpu, clock)
            ratios = f"{cpu / first[0]:.2f} | {clock / first[1]:.2f}"
            speed = f"{alone:.1f} | {both:.1f} ({both / alone:.2f} times)"
            print(f"| `{strategy}` | {tree} | {cpu:.1f} | {clock:.1f} | {p95:.1f} | {speed} | {ratios} |")


if __name__ == "__main__":
    main()
