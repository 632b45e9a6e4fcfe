"""Milliseconds that merging adds to a search: 50 chunks, the embedded scorer, extractive fusion.

python -m benchmarks.merging [--set hotpotqa-long] [--questions 40] [--budgets 128,320]

"merge" is Algorithm 3 or 4 with scoring and fusion. "before" is the preparation: sentences, their tokens, terms and relevance.
"after" is selection and rendering, which every strategy needs. Figures are medians. The last line is `lm` alone.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import mergewise
from benchmarks.corpus import bench_folder
from mergewise.assemble.budget import pack
from mergewise.designs import STRATEGIES, VIEWS
from mergewise.designs.mergerag.lm import WordModel, corpus_words, words_of
from mergewise.designs.mergerag.merging import asymmetric, merge, symmetric
from mergewise.designs.mergerag.pieces import ChunkSource, sources_of
from mergewise.designs.mergerag.strategy import Chunks, nll_rows
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.run import chosen_questions
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.retrieve.hybrid import HybridReader


def times(name: str, question: str, sources: list[ChunkSource], budget: int) -> tuple[float, float, float]:
    models, parameters = Models(count_tokens), STRATEGIES[name].parameters
    started = perf_counter()
    chunks = Chunks(question, sources, budget, models, parameters)
    ready = perf_counter()
    pairing = symmetric if parameters.pairs == "symmetric" else asymmetric(nll_rows(None))
    merged = merge(chunks.first, budget, pairing, chunks.fuse)
    done = perf_counter()
    pack(question, chunks.candidates(merged), budget, models)
    return tuple(1000 * t for t in (ready - started, done - ready, perf_counter() - done))  # type: ignore[return-value]


def embedded_scorer(texts: list[str], repeats: int = 9) -> float:
    background = corpus_words(texts)
    taken = []
    for _ in range(repeats):
        words_of.cache_clear()
        started = perf_counter()
        WordModel(background).nll(texts, texts)
        taken.append(1000 * (perf_counter() - started))
    return median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="hotpotqa-long")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--budgets", default="128,320")
    options = parser.parse_args()
    task = load_question_set(bench_folder() / options.set)
    with tempfile.TemporaryDirectory() as folder:
        index = mergewise.open(Path(folder) / "index", embedder="none")
        index.add(task.documents)
        reader = HybridReader(index.store.reader(), None, VIEWS)
        asked = [
            (q.text, sources_of(reader.search(q.text, 50), 0)) for q in chosen_questions(task, limit=options.questions)
        ]
    print(f"{'strategy':14} {'B':>4} {'before':>7} {'merge':>6} {'after':>6}   ms, {options.set}, 50 chunks")
    for name in ("mergerag-sym", "mergerag-asym"):
        for budget in map(int, options.budgets.split(",")):
            for question, sources in asked[:3]:
                times(name, question, sources, budget)
            parts = zip(*(times(name, question, sources, budget) for question, sources in asked), strict=True)
            before, merging, after = (median(part) for part in parts)
            print(f"{name:14} {budget:4} {before:7.1f} {merging:6.1f} {after:6.1f}", flush=True)
    stretches = [" ".join(s.fragment.text for s in sources[i : i + 9]) for _, sources in asked for i in range(0, 45, 9)]
    longest = [" ".join(text.split()[:310]) for text in stretches[:50]]
    tokens = sum(count_tokens(longest)) / len(longest)
    print(f"lm, {len(longest)} x {len(longest)} chunks of {tokens:.0f} tokens: {embedded_scorer(longest):.1f} ms")


if __name__ == "__main__":
    main()
