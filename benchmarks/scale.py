"""Speed and memory at 100,000 leaves: indexing, queries, cold starts, and the time of each stage.

python -m benchmarks.scale [--embedder none|minilm] [--leaves N] [--keep DIR] [--json]
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import mergewise
from benchmarks.corpus import documents, questions
from mergewise.index import tree
from mergewise.retrieve.hybrid import HybridReader
from mergewise.store.lance import LanceStore
from mergewise.store.lance_reader import LanceReader

seconds: dict[str, float] = defaultdict(float)


@contextmanager
def timed(owner: Any, name: str, label: str) -> Iterator[None]:
    """Add up the time in `owner.name` under `label`."""
    original = getattr(owner, name)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        started = perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            seconds[label] += perf_counter() - started

    setattr(owner, name, wrapper)
    try:
        yield
    finally:
        setattr(owner, name, original)


def measure_indexing(directory: Path, leaves: int, embedder: str) -> dict[str, Any]:
    corpus = list(documents(leaves))
    index = mergewise.open(directory, embedder=embedder)
    started = perf_counter()
    with (
        timed(tree, "build_trees", "trees (sentences, tokens)"),
        timed(LanceStore, "write", "write rows"),
        timed(LanceStore, "optimize", "compact, search indexes, mapped files"),
    ):
        if index.embedder is not None:
            embed = "embed_parts" if hasattr(index.embedder, "embed_parts") else "embed_documents"
            with timed(type(index.embedder), embed, "embed"):
                index.add(corpus)
        else:
            index.add(corpus)
    total = perf_counter() - started
    seconds["rest"] = total - sum(seconds.values())
    return {
        "documents": len(corpus),
        "characters": sum(len(document.text) for document in corpus),
        "rows": index.store.reader().row_counts(),
        "seconds": total,
        "where": dict(seconds),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "disk_mb": sum(file.stat().st_size for file in directory.rglob("*") if file.is_file()) / 1e6,
    }


def measure_queries(directory: Path, strategy: str, count: int = 300, warm_up: int = 50) -> dict[str, Any]:
    index = mergewise.open(directory)
    asked = questions(count + warm_up)
    for question in asked[:warm_up]:
        index.context(question, strategy=strategy)
    seconds.clear()
    times = []
    with (
        timed(HybridReader, "_searches", "both searches, embedding the question"),
        timed(HybridReader, "question_vector", "embedding the question (part of both)"),
        timed(HybridReader, "_fuse", "fusing"),
        timed(LanceReader, "rows", "rows by id"),
    ):
        for question in asked[warm_up:]:
            started = perf_counter()
            index.context(question, strategy=strategy)
            times.append(1000 * (perf_counter() - started))
    return {
        "strategy": strategy,
        "median_ms": statistics.median(times),
        "p95_ms": statistics.quantiles(times, n=20)[-1],
        "where_ms": {label: 1000 * total / count for label, total in seconds.items()},
        "mean_ms": statistics.mean(times),
    }


def median_seconds(run: Callable[[], object], times: int = 5) -> float:
    taken = []
    for _ in range(times):
        started = perf_counter()
        run()
        taken.append(perf_counter() - started)
    return statistics.median(taken)


def measure_cold(directory: Path) -> dict[str, float]:
    command = Path(sys.executable).parent / "mergewise"
    ask = [str(command), "ask", "Who wrote the first book about it?", "--index", str(directory)]

    def run(*words: str) -> None:
        subprocess.run(words, check=True, capture_output=True)

    return {
        "cold_ask_s": median_seconds(lambda: run(*ask)),
        "import_ms": 1000
        * (
            median_seconds(lambda: run(sys.executable, "-c", "import mergewise"))
            - median_seconds(lambda: run(sys.executable, "-c", "pass"))
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", default="none")
    parser.add_argument("--leaves", type=int, default=100_000)
    parser.add_argument("--keep", type=Path, help="Directory in which to keep and reuse the index")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    directory = options.keep or Path(tempfile.mkdtemp(prefix="mergewise-bench-")) / "index"
    try:
        report: dict[str, Any] = {"embedder": options.embedder}
        if not (directory / "manifest.json").exists():
            report["indexing"] = measure_indexing(directory, options.leaves, options.embedder)
        report["queries"] = [measure_queries(directory, strategy) for strategy in ("topk", "auto-merge", "weave")]
        report["cold"] = measure_cold(directory)
    finally:
        if options.keep is None:
            shutil.rmtree(directory.parent)
    json.dump(report, sys.stdout, indent=2 if options.json else 1)
    print()


if __name__ == "__main__":
    main()
