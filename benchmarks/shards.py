"""CPU milliseconds of text search, `topk` and `weave` over shards, next to one index of the same documents.

    python -m benchmarks.shards ONE SHARDED...

ONE is the directory of an index without shards, each SHARDED one of the same documents in shards. Rounds over all indexes
alternate, so that they meet the same load. The figures are medians over questions, in CPU time of the whole process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time

import mergewise as mw

ROUNDS = 2


def questions(index: mw.Index, count: int) -> list[str]:
    """Return a question about every n-th document, from its title and the first words of its text."""
    ids = index.documents()[:: max(1, len(index) // count)]
    return [f"What is said about {info.title} and its history?" for info in ids[:count]]


def main(paths: list[str]) -> None:
    indexes = [mw.open(Path(path)) for path in paths]
    asked = questions(indexes[0], 10)
    kinds: dict[str, Callable[[mw.Index, str], object]] = {
        "text": lambda index, question: index.state().store.text_search(question, 100).result(),
        "topk": lambda index, question: index.context(question, strategy="topk", budget=1000),
        "weave": lambda index, question: index.context(question, strategy="weave", budget=1000),
    }
    for kind, ask in kinds.items():
        took: list[list[float]] = [[] for _ in indexes]
        for number in range(ROUNDS + 1):
            for question in asked:
                for index, own in zip(indexes, took, strict=True):
                    began = process_time()
                    ask(index, question)
                    if number:
                        own.append(1000 * (process_time() - began))
        print(
            kind, *(f"{Path(path).name} {median(own):.1f}" for path, own in zip(paths, took, strict=True)), flush=True
        )


if __name__ == "__main__":
    main(sys.argv[1:])
