"""MB/s of token counting against the plain tokenizer, for many texts at once and one by one, and of building trees.

python -m benchmarks.tokens [--leaves 10000] [--json]

Figures are processor seconds, the best of several runs, since a busy machine disturbs wall-clock time more. "cold" clears the
cache before each run, and for single texts before each text. "warm" counts texts that are in the cache.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Sequence
from time import process_time

from benchmarks.corpus import documents
from mergewise.index.tree import build_trees
from mergewise.models import tokens
from mergewise.models.tokens import count_tokens, encode
from mergewise.text.sentences import split_sentences

RUNS = 3
SINGLE = 2000


def plain(texts: Sequence[str]) -> list[int]:
    return [len(encoding) for encoding in encode(texts, marks=False, offsets=False)]


def forget() -> None:
    tokens._memory().clear()


def megabytes_per_second(size: int, run: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    taken = []
    for _ in range(RUNS):
        before()
        started = process_time()
        run()
        taken.append(process_time() - started)
    return size / 1e6 / min(taken)


def one_by_one(texts: Sequence[str], count: Callable[[Sequence[str]], object], between: Callable[[], object]) -> None:
    for text in texts:
        between()
        count([text])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaves", type=int, default=10_000, help="Leaves of the corpus")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    corpus = list(documents(options.leaves))
    texts = [document.text[a:b] for document in corpus for a, b in split_sentences(document.text)]
    single = random.Random(0).sample(texts, min(SINGLE, len(texts)))
    size, single_size = (sum(len(text.encode()) for text in some) for some in (texts, single))
    if plain(texts) != count_tokens(texts):
        raise SystemExit("token counts differ from the tokenizer's")

    rows = {
        "plain tokenizer": megabytes_per_second(size, lambda: plain(texts)),
        "count_tokens, cold": megabytes_per_second(size, lambda: count_tokens(texts), forget),
        "count_tokens, warm": megabytes_per_second(size, lambda: count_tokens(texts)),
        "plain tokenizer, one by one": megabytes_per_second(
            single_size, lambda: one_by_one(single, plain, lambda: None)
        ),
        "count_tokens, one by one, cold": megabytes_per_second(
            single_size, lambda: one_by_one(single, count_tokens, forget)
        ),
        "count_tokens, one by one, warm": megabytes_per_second(
            single_size, lambda: one_by_one(single, count_tokens, lambda: None), lambda: count_tokens(single)
        ),
        "build_trees, plain tokenizer": megabytes_per_second(size, lambda: build_trees(corpus, plain)),
        "build_trees, cold": megabytes_per_second(size, lambda: build_trees(corpus, count_tokens), forget),
        "build_trees, warm": megabytes_per_second(size, lambda: build_trees(corpus, count_tokens)),
    }
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{size / 1e6:.1f} MB; the best of {RUNS} runs, in seconds of the processor")
    baseline = 0.0
    for name, rate in rows.items():
        baseline = rate if "plain" in name else baseline
        print(f"{name:32} {rate:6.2f} MB/s  {rate / baseline:5.1f} times")


if __name__ == "__main__":
    main()
