"""weave: its ablations, the tokens it saves, its speed.

python -m benchmarks.weave ablate     the effect of each part [--split dev] [--limit N]
python -m benchmarks.weave budget     the budget at which weave holds as much evidence as topk at 640
python -m benchmarks.weave auto       the budget auto on the curve of evidence over tokens, one table per set
python -m benchmarks.weave complete   the weights of `completeness.COMPLETENESS_WEIGHTS`, from the first halves
python -m benchmarks.weave point      a chat model points at the evidence: --chat SPEC, oracle or oracle+search
python -m benchmarks.weave speed      milliseconds on an index of 100,000 leaves [--index DIR of benchmarks.scale --keep]

Indexes of the question sets are cached in --cache DIR.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

import mergewise
from benchmarks import completeness
from benchmarks.corpus import bench_folder
from benchmarks.curves import report
from benchmarks.pointing import point
from benchmarks.scale import measure_queries
from mergewise.designs import STRATEGIES
from mergewise.designs.weave import strategy as weave
from mergewise.designs.weave.evidence import WEIGHTS
from mergewise.designs.weave.parameters import Weave
from mergewise.engine import Index
from mergewise.evaluate import evaluate
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.means import MethodMeans
from mergewise.evaluate.question_sets import QuestionSet
from mergewise.evaluate.run import Split
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.retrieve.hybrid import HybridReader, SearchSettings
from mergewise.types import LeafSentences

SETS = "hotpotqa-long,musique-long,2wiki,squad,covidqa"
BUDGETS = (128, 384, 640)
MODELS = Models(count_tokens, stored_tokens=True)


def opened(name: str, cache: Path) -> tuple[QuestionSet, Index]:
    task = load_question_set(bench_folder() / name)
    index = mergewise.open(cache / name)
    index.add(task.documents)
    return task, index


# -- ablations


@contextmanager
def without(*features: str) -> Iterator[None]:
    """Run weave with these features set to zero."""
    original = STRATEGIES["weave"]
    weights = {name: 0.0 if name in features else weight for name, weight in WEIGHTS.items()}
    STRATEGIES["weave"] = replace(original, assemble=partial(weave.assemble, weights=weights))
    try:
        yield
    finally:
        STRATEGIES["weave"] = original


@contextmanager
def sentences_encoded_alone() -> Iterator[None]:
    """Embed each sentence with its title and headings, but without its neighbours."""
    original = HybridReader.sentences

    def alone(self: HybridReader, ids: Sequence[int]) -> dict[int, LeafSentences]:
        leaves = original(self, ids)
        texts = [_with_path(leaf, s.start, s.end) for leaf in leaves.values() for s in leaf.sentences]
        rows = iter(self._embedder.embed_documents(texts))  # type: ignore[union-attr]
        return {i: replace(leaf, vectors=np.array([next(rows) for _ in leaf.sentences])) for i, leaf in leaves.items()}

    HybridReader.sentences = alone  # type: ignore[method-assign]
    try:
        yield
    finally:
        HybridReader.sentences = original  # type: ignore[method-assign]


def _with_path(leaf: LeafSentences, start: int, end: int) -> str:
    return " › ".join((leaf.title, *leaf.headings)) + "\n" + leaf.text[start - leaf.start : end - leaf.start]


@contextmanager
def nothing() -> Iterator[None]:
    yield


ABLATIONS: dict[str, tuple[str, float | None, Callable[[], object]]] = {
    "weave": ("weave", None, nothing),
    "no hops": ("weave(hops=0)", None, nothing),
    "one hop": ("weave(hops=1)", None, nothing),
    "three hops": ("weave(hops=3)", None, nothing),
    "no saturation of repetitions": ("weave(redundancy=no)", None, nothing),
    "no coverage": ("weave(coverage=0)", None, nothing),
    "no leaning": ("weave(previous=no)", None, nothing),
    "vectors only": ("weave", 1.0, lambda: without("terms", "path_terms", "rest")),
    "BM25 only": ("weave", 0.0, lambda: without("cosine")),
    "sentences encoded alone": ("weave", None, sentences_encoded_alone),
    "sentence": ("sentence", None, nothing),
    "topk": ("topk", None, nothing),
}


def ablate(sets: Sequence[str], cache: Path, split: Split, limit: int) -> None:
    tasks = [opened(name, cache) for name in sets]
    print("| | " + " | ".join(sets) + " | mean of all |")
    for label, (spec, weight, change) in ABLATIONS.items():
        cells, means = [], []
        for task, index in tasks:
            index.search_settings = SearchSettings() if weight is None else SearchSettings(weight=weight)
            with change():  # type: ignore[attr-defined]
                rows = evaluate(task, spec, BUDGETS, index=index, split=split, limit=limit).means()
            cells.append(" ".join(f"{row.scores['all']:.2f}" for row in rows))
            means += [row.scores["all"] for row in rows]
        print(f"| {label} | " + " | ".join(cells) + f" | {np.mean(means):.3f} |", flush=True)


# -- budgets


def budget(sets: Sequence[str], cache: Path, split: Split, limit: int) -> None:
    """Find the budget by bisection, assuming that evidence grows with the budget."""
    for name in sets:
        task, index = opened(name, cache)

        def row(spec: str, tokens: int, task: QuestionSet = task, index: Index = index) -> MethodMeans:
            return evaluate(task, spec, tokens, index=index, split=split, limit=limit).means()[0]

        wanted = row("topk", 640).scores["evidence"]
        low, high = 16, 640
        while high - low > 8:
            middle = (low + high) // 2
            low, high = (low, middle) if row("weave", middle).scores["evidence"] >= wanted else (middle, high)
        print(f"{name}: topk at 640 holds {wanted:.3f}, weave holds as much at {high}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("ablate", "budget", "auto", "complete", "point", "speed"))
    parser.add_argument("--sets", help=f"Default: {SETS}; for complete: {completeness.SETS}")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--limit", type=int, default=120)
    parser.add_argument("--cache", type=Path, default=Path("weave.cache"))
    parser.add_argument("--index", type=Path)
    parser.add_argument(
        "--chat", default="oracle", help="Chat model of `point`: openai:MODEL at OPENAI_BASE_URL, or an oracle"
    )
    parser.add_argument("--shown", type=int, default=Weave().shown, help="Sentences in the prompt of `point`")
    options = parser.parse_args()
    sets = (options.sets or (completeness.SETS if options.what == "complete" else SETS)).split(",")
    if options.what == "speed":
        for strategy in ("topk", "auto-merge", "sentence", "weave(hops=0)", "weave"):
            measured = measure_queries(options.index, strategy)
            print(f"{strategy}: median {measured['median_ms']:.1f} ms, p95 {measured['p95_ms']:.1f} ms", flush=True)
    elif options.what == "auto":
        report((opened(name, options.cache) for name in sets), options.split, options.limit)
    elif options.what == "complete":
        completeness.report(sets, options.cache, options.split, options.limit)
    elif options.what == "point":
        tasks = (opened(name, options.cache) for name in sets)
        point(tasks, options.chat, options.cache, options.split, options.limit, f", shown={options.shown}")
    else:
        {"ablate": ablate, "budget": budget}[options.what](sets, options.cache, options.split, options.limit)


if __name__ == "__main__":
    main()
