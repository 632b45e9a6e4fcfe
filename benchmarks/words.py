"""Time of MergeRAG's default scorer for the NLL of all pairs of 50 chunks of about 400 tokens.

python -m benchmarks.words [--chunks 50] [--words 320]

The figure is the CPU time of this thread, the best of several runs, with the cache cleared before each. It changes little on
a busy machine. The aim is 50 ms.
"""

from __future__ import annotations

import argparse
from time import thread_time

import numpy as np

from mergewise.designs.mergerag.lm import WordModel, corpus_words, words_of

RUNS = 5


def chunks(count: int, words: int) -> list[str]:
    """Return chunks with the word frequencies of prose."""
    rng = np.random.default_rng(0)
    vocabulary = np.array([f"w{i}" for i in range(20_000)])
    ranks = np.minimum(rng.zipf(1.3, (count, words)), len(vocabulary)) - 1
    return [" ".join(row) for row in vocabulary[ranks]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=50)
    parser.add_argument("--words", type=int, default=320)
    options = parser.parse_args()
    pool = chunks(options.chunks, options.words)
    background = corpus_words(pool)
    taken = []
    for _ in range(RUNS):
        words_of.cache_clear()
        started = thread_time()
        WordModel(background).nll(pool, pool)
        taken.append(thread_time() - started)
    print(f"{options.chunks} chunks, {options.chunks**2} pairs: {1000 * min(taken):.1f} ms")


if __name__ == "__main__":
    main()
