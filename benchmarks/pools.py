"""Pools of passages: document ranking of the strategies, and the weights of `ranking.SECTION_WEIGHTS`.

python -m benchmarks.pools rank DIR...      recall of gold documents by strategy [--split test] [--limit N]
python -m benchmarks.pools fit DIR...       the weights, fitted on the first halves, and without each set
python -m benchmarks.pools others DIR...    second half of the first DIR, with weights fitted on the first halves of the others

A document has the rank of its best passage in a context of 4,000 tokens. Each set has its own index in --cache DIR, named
after the last two parts of its path.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

import mergewise
from benchmarks import fitting
from benchmarks.weave import MODELS
from mergewise.designs import STRATEGIES, VIEWS
from mergewise.designs.weave import completeness, strategy
from mergewise.designs.weave.completeness import SECTION_FEATURES, SECTION_WEIGHTS, best_by_section, section_features
from mergewise.designs.weave.parameters import Weave
from mergewise.designs.weave.selection import select
from mergewise.designs.weave.weights import is_mostly
from mergewise.engine import Index
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.evaluate.ranking import ranked_documents, ranking_score
from mergewise.evaluate.run import Split, chosen_questions
from mergewise.evaluate.tuning.weights import logistic, rows_of
from mergewise.protocols import DoubleArray
from mergewise.retrieve.hybrid import HybridReader, SearchSettings

BUDGET = 4000
MOST_FITTED = 80  # questions of a set for fitting the weights of sentences
METRICS = ("recall@1", "recall@2", "recall@5", "recall@10", "all@5")
ROWS: dict[str, tuple[str, float | None]] = {
    "weave": ("weave", None),
    "weave, its search by BM25 alone": ("weave", 0.0),
    "weave without hops": ("weave(hops=0)", None),
    "sentence": ("sentence", None),
    "topk, hybrid": ("topk", None),
    "topk, vectors alone": ("topk", 1.0),
    "topk, BM25 alone": ("topk", 0.0),
}


def open_set(folder: Path, cache: Path) -> tuple[QuestionSet, Index]:
    task = load_question_set(folder)
    index = mergewise.open(cache / "-".join(folder.resolve().parts[-2:]))
    index.add(task.documents)
    return task, index


# -- ranks


def recalls(index: Index, questions: Sequence[Question], spec: str) -> DoubleArray:
    """Return the recall by question and metric, shape (questions, METRICS)."""
    rows = []
    for question in questions:
        ranked = [
            document for document, _ in ranked_documents(index.context(question.text, strategy=spec, budget=BUDGET))
        ]
        rows.append([ranking_score(name, ranked, question.gains) for name in METRICS])
    return np.array(rows, float)


def most_possible(questions: Sequence[Question]) -> DoubleArray:
    """Return the recall of a perfect ranking: with more gold documents than k, it stays below 1."""
    gold = [list(question.gains) for question in questions]
    return np.array([[ranking_score(name, one, dict.fromkeys(one, 1)) for name in METRICS] for one in gold], float)


def rank(folders: Sequence[Path], cache: Path, split: Split, limit: int | None) -> None:
    for folder in folders:
        task, index = open_set(folder, cache)
        questions = chosen_questions(task, split, limit)
        print(f"\n{folder}: {len(questions)} questions, {len(task.documents)} documents\n")
        print("| | " + " | ".join(METRICS) + " |\n| --- |" + " --- |" * len(METRICS))
        _print_row("a perfect ranking", most_possible(questions))
        for label, (spec, weight) in ROWS.items():
            index.search_settings = SearchSettings() if weight is None else SearchSettings(weight=weight)
            _print_row(label, recalls(index, questions, spec))
        index.search_settings = SearchSettings()
        with by_best_sentence():
            _print_row("weave, passages by their best sentence", recalls(index, questions, "weave"))


def _print_row(label: str, scores: DoubleArray) -> None:
    print(f"| {label} | " + " | ".join(f"{100 * share:.1f}" for share in scores.mean(axis=0)) + " |", flush=True)


@contextmanager
def by_best_sentence() -> Iterator[None]:
    """Score a passage by the relevance of its best sentence."""
    with section_weights(np.array([0.0, *(name == "evidence" for name in SECTION_FEATURES)])):
        yield


@contextmanager
def section_weights(weights: DoubleArray) -> Iterator[None]:
    with patch.object(
        strategy,
        "scored_passages",
        partial(completeness.scored_passages, weights=dict(zip(("bias", *SECTION_FEATURES), weights, strict=True))),
    ):
        yield


# -- weights


def section_rows(
    task: QuestionSet, index: Index, limit: int | None, weights: Mapping[str, float] | None = None
) -> tuple[DoubleArray, DoubleArray, int]:
    """Return features of the sections shown, (sections,) gold labels, and the number of questions, for the first half."""
    features, gold = [], []
    questions = chosen_questions(task, "dev", limit)
    for question in questions:
        reader = HybridReader(index.store.reader(), index.embedder, VIEWS, None, index.search_settings)
        candidates = strategy.gather(question.text, reader, Weave(), [], weights)
        if not candidates.pool.sentences:
            continue
        chosen, _ = select(candidates, BUDGET, MODELS, Weave(), [])
        shown = best_by_section(candidates, chosen)
        features.append(section_features(candidates, shown).astype(float))
        for section in shown:
            spans = [candidates.pool.sentences[i].span for i in candidates.pool.members[section]]
            marked = question.evidence or ()
            gold.append(
                section[0] in question.documents
                if question.evidence is None
                else any(is_mostly(span, of_gold) for span in spans for of_gold, _ in marked)
            )
    return np.concatenate(features), np.array(gold, float), len(questions)


def fit(folders: Sequence[Path], cache: Path, limit: int | None) -> None:
    rows = {folder: section_rows(*open_set(folder, cache), limit) for folder in folders}
    print("standing", " ".join(f"{name} {weight:.2f}" for name, weight in SECTION_WEIGHTS.items()))
    for left in (None, *folders):
        weights = logistic([row for folder, row in rows.items() if folder != left])
        label = "all" if left is None else f"without {left}"
        named = zip(("bias", *SECTION_FEATURES), weights, strict=True)
        print(label, " ".join(f"{name} {weight:.2f}" for name, weight in named), flush=True)


def others(folder: Path, fitted: Sequence[Path], cache: Path, limit: int | None) -> None:
    """Fit the weights of sentences and of sections on other sets."""
    tasks = [open_set(one, cache) for one in fitted]
    groups = {one.name: fitting.cases_of(one.name, "dev", limit or MOST_FITTED, cache, None) for one in fitted}
    start = logistic([rows_of([one.case for one in group]) for group in groups.values()])
    sentences = dict(zip(fitting.NAMES, fitting.fitted(groups, start), strict=True))
    print("sentences", " ".join(f"{name} {weight:.2f}" for name, weight in sentences.items()), flush=True)
    with sentence_weights(sentences):
        sections = logistic([section_rows(task, index, limit or MOST_FITTED, sentences) for task, index in tasks])
        print("sections", " ".join(f"{weight:.2f}" for weight in sections), flush=True)
        task, index = open_set(folder, cache)
        questions = chosen_questions(task, "test", limit)
        with section_weights(sections):
            _print_row("weave, fitted on the others", recalls(index, questions, "weave"))


@contextmanager
def sentence_weights(weights: Mapping[str, float]) -> Iterator[None]:
    original = STRATEGIES["weave"]
    STRATEGIES["weave"] = replace(original, assemble=partial(strategy.assemble, weights=weights))
    try:
        yield
    finally:
        STRATEGIES["weave"] = original


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("rank", "fit", "others"))
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--cache", type=Path, default=Path("pools.cache"))
    options = parser.parse_args()
    if options.what == "fit":
        fit(options.folders, options.cache, options.limit)
    elif options.what == "others":
        others(options.folders[0], options.folders[1:], options.cache, options.limit)
    else:
        rank(options.folders, options.cache, options.split, options.limit)


if __name__ == "__main__":
    main()
