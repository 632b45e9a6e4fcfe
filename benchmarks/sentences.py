"""MB/s of sentence segmentation, token counting and tree building on real text.

python -m benchmarks.sentences [--json]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from statistics import median
from time import perf_counter

from benchmarks.corpus import documents
from mergewise.index.tree import build_trees
from mergewise.models.tokens import count_tokens
from mergewise.text.sentences import split_sentences

RUNS = 5


def megabytes_per_second(size: int, run: Callable[[], object]) -> float:
    taken = []
    for _ in range(RUNS):
        started = perf_counter()
        run()
        taken.append(perf_counter() - started)
    return size / 1e6 / median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    corpus = list(documents(10_000))
    texts = [document.text for document in corpus]
    size = sum(len(text.encode()) for text in texts)
    rows = {
        "split_sentences": megabytes_per_second(size, lambda: [split_sentences(text) for text in texts]),
        "count_tokens": megabytes_per_second(size, lambda: count_tokens(texts)),
        "build_trees": megabytes_per_second(size, lambda: build_trees(corpus, count_tokens)),
    }
    if as_json:
        print(json.dumps(rows, indent=1))
    else:
        for name, rate in rows.items():
            print(f"{name:16} {rate:6.1f} MB/s  (median of {RUNS} runs, {size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
