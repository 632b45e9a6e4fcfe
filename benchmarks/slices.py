"""Cost of the slice view: its share of indexing, and `macrag` and `longrag` against `topk`, alternating by question.

python -m benchmarks.slices [--embedder minilm|none] [--leaves N] [--budget B] [--keep DIR]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import mergewise
from benchmarks.corpus import documents, questions

STRATEGIES = ("topk", "macrag", "longrag")


def measure_indexing(directory: Path, leaves: int, embedder: str) -> dict[str, Any]:
    """Build the leaf view, then add the slice view, and measure both."""
    corpus = list(documents(leaves))
    started = perf_counter()
    mergewise.open(directory, embedder=embedder).add(corpus)
    between = perf_counter()
    index = mergewise.open(directory, views=("leaf", "slice"))
    return {
        "rows": index.store.reader().row_counts(),
        "leaf_view_s": between - started,
        "slice_view_s": perf_counter() - between,
    }


def measure_queries(directory: Path, budget: int, count: int = 200, warm_up: int = 30) -> dict[str, Any]:
    """Time the strategies, each with its own index, so that they do not share caches."""
    indexes = {strategy: mergewise.open(directory) for strategy in STRATEGIES}
    times: dict[str, list[float]] = {strategy: [] for strategy in STRATEGIES}
    for number, question in enumerate(questions(count + warm_up)):
        for strategy, index in indexes.items():
            started = perf_counter()
            index.context(question, strategy=strategy, budget=budget)
            if number >= warm_up:
                times[strategy].append(1000 * (perf_counter() - started))
    medians = {strategy: statistics.median(taken) for strategy, taken in times.items()}
    return {
        "budget": budget,
        "median_ms": medians,
        "p95_ms": {strategy: statistics.quantiles(taken, n=20)[-1] for strategy, taken in times.items()},
        "over_topk": {strategy: taken / medians["topk"] for strategy, taken in medians.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--leaves", type=int, default=20_000)
    parser.add_argument("--budget", type=int, default=640)
    parser.add_argument("--keep", type=Path, help="Directory in which to keep and reuse the index")
    options = parser.parse_args()
    directory = options.keep or Path(tempfile.mkdtemp(prefix="mergewise-bench-")) / "index"
    report: dict[str, Any] = {"embedder": options.embedder}
    try:
        if not (directory / "manifest.json").exists():
            report["indexing"] = measure_indexing(directory, options.leaves, options.embedder)
        report["queries"] = measure_queries(directory, options.budget)
    finally:
        if options.keep is None:
            shutil.rmtree(directory.parent)
    json.dump(report, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
