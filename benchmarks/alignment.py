"""Time to align the sentences of an answer with the sentences of a large context.

python -m benchmarks.alignment [--sources 1000] [--sentences 100]
"""

from __future__ import annotations

import argparse
from statistics import median
from time import perf_counter

from mergewise.text.alignment import Aligner, SourceSentence
from mergewise.types import Span

RUNS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=int, default=1000)
    parser.add_argument("--sentences", type=int, default=100)
    options = parser.parse_args()
    texts = [
        f"Sentence {i} says that item {i % 37} of the list is {i % 11} long and {i % 7} wide."
        for i in range(options.sources)
    ]
    sources = [SourceSentence(text, Span("d", 1000 * i, 1000 * i + len(text))) for i, text in enumerate(texts)]
    built, aligned = [], []
    for _ in range(RUNS):
        started = perf_counter()
        aligner = Aligner(sources)
        built.append(perf_counter() - started)
        started = perf_counter()
        for i in range(options.sentences):
            aligner.align(texts[i % len(texts)])
        aligned.append(perf_counter() - started)
    print(f"{options.sources} source sentences: {1000 * median(built):.1f} ms (median of {RUNS} runs)")
    print(f"{options.sentences} sentences aligned to them: {1000 * median(aligned):.1f} ms")


if __name__ == "__main__":
    main()
