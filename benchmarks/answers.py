"""Answers without a model: weights of `generate.extractive`, and how often they are right, wrong or withheld.

python -m benchmarks.answers fit       the weights, from first halves, with and without vectors
python -m benchmarks.answers errors    right, wrong and withheld answers by threshold, on --half
python -m benchmarks.answers show      each question of the manuals with its answer, to be judged by eye

An answer counts as right where what it quotes holds a gold answer from the gold's place, or nine tenths of a gold's spans.
Questions that the manuals do not answer say how often an answer is invented.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import mergewise
from benchmarks import manuals
from benchmarks.corpus import bench_folder
from benchmarks.fitting import Array, logistic
from benchmarks.manuals import Asked
from mergewise.engine import Index
from mergewise.evaluate.metrics import normalise
from mergewise.evaluate.run import chosen_questions
from mergewise.evaluate.tasks import load_task
from mergewise.generate import extractive
from mergewise.text.question import answer_type
from mergewise.text.terms import content_terms
from mergewise.types import Answer, Span

SETS = ("manuals", "squad", "covidqa")
THRESHOLDS = (0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


def asked_of(name: str, cache: Path, embedder: str, half: str, limit: int) -> tuple[Index, list[Asked]]:
    """An index, and questions to it."""
    if name == "manuals":
        return manuals.opened(cache, embedder), manuals.load("questions", half)
    task = load_task(bench_folder() / name)
    index = mergewise.open(cache / (name if embedder == "minilm" else f"{name}-{embedder}"), embedder=embedder)
    index.add(task.documents)
    questions = chosen_questions(task, half, limit)  # type: ignore[arg-type]
    return index, [Asked(question, (question.evidence,), (), "", half) for question in questions]


# -- weights


def rows_of(index: Index, asked: Sequence[Asked], names: Sequence[str]) -> tuple[Array, Array]:
    """Features of the sentences of each context, and which of them answer."""
    features, answers = [], []
    for one in asked:
        text = one.question.text
        for evidence in index.context(text).evidence or ():
            known = extractive.features(evidence, content_terms(text), answer_type(text))
            features.append([known[name] for name in names])
            answers.append(any(_held([evidence.span], gold) >= 0.5 for gold in one.golds))
    return np.array(features), np.array(answers, float)


def fit(cache: Path, limit: int) -> None:
    for embedder, standing in (("minilm", extractive.WITH_VECTORS), ("none", extractive.WITHOUT_VECTORS)):
        names = [name for name in standing if name != "bias"]
        rows = []
        for name in SETS:
            index, asked = asked_of(name, cache, embedder, "first", limit)
            rows.append((*rows_of(index, asked, names), len(asked)))
        weights = logistic(rows)
        print(embedder, {name: round(float(weight), 2) for name, weight in zip(("bias", *names), weights, strict=True)})


# -- errors


@dataclass(frozen=True, slots=True)
class Judged:
    asked: Asked
    answer: Answer
    probability: float
    right: bool


def judged(index: Index, asked: Sequence[Asked]) -> Iterator[Judged]:
    """Every question answered as if there were no threshold."""
    standing = extractive.LEAST, extractive.LEAST_WITHOUT_VECTORS
    extractive.LEAST = extractive.LEAST_WITHOUT_VECTORS = 0.0
    try:
        for one in asked:
            answer = index.ask(one.question.text, mode="extractive")
            quotes = extractive.quotes_of(answer.context)
            yield Judged(one, answer, quotes[0].probability if quotes else 0.0, is_right(answer, one))
    finally:
        extractive.LEAST, extractive.LEAST_WITHOUT_VECTORS = standing


def is_right(answer: Answer, asked: Asked) -> bool:
    quoted = [citation.span for citation in answer.citations]
    said = normalise(" ".join(citation.text for citation in answer.citations))
    for gold in asked.golds:
        held = _held(quoted, gold)
        if held >= 0.9 or (asked.parts and held > 0 and all(normalise(part) in said for part in asked.parts)):
            return True
        if held > 0 and any(normalise(text) in said for text in asked.question.answers):
            return True
    return False


def _held(spans: Sequence[Span], gold: Sequence[tuple[Span, str]]) -> float:
    """The share of the gold's characters in these spans, which do not overlap."""
    shared = sum(
        max(0, min(span.end, piece.end) - max(span.start, piece.start))
        for piece, _ in gold
        for span in spans
        if span.doc_id == piece.doc_id
    )
    return shared / sum(len(piece) for piece, _ in gold)


def errors(cache: Path, half: str, limit: int, embedder: str) -> None:
    for name in SETS:
        index, asked = asked_of(name, cache, embedder, half, limit)
        results = list(judged(index, asked))
        answerable = [result for result in results if result.asked.answerable]
        absent = [result for result in results if not result.asked.answerable]
        print(f"{name}: {len(answerable)} answerable, {len(absent)} not; from each probability on")
        for least in THRESHOLDS:
            given = [result for result in answerable if result.probability >= least]
            right = sum(result.right for result in given) / len(answerable)
            wrong = len(given) / len(answerable) - right
            invented = sum(result.probability >= least for result in absent) / max(1, len(absent))
            print(
                f"  {least:.2f}: right {right:.3f}, wrong {wrong:.3f}, withheld {1 - right - wrong:.3f}; invented {invented:.3f}"
            )


def show(cache: Path, half: str) -> None:
    index, asked = asked_of("manuals", cache, "minilm", half, 0)
    for result in judged(index, asked):
        verdict = "right" if result.right else "WRONG" if result.asked.answerable else "absent"
        print(f"--- {result.asked.question.id} {verdict} {result.probability:.2f}  {result.asked.question.text}")
        print(result.answer.text)
        if not result.right and result.asked.answerable:
            print("gold:", " … ".join(text for _, text in result.asked.golds[0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("fit", "errors", "show"))
    parser.add_argument("--half", default="first", choices=("first", "second", "all"))
    parser.add_argument("--limit", type=int, default=150, help="questions of a bench set")
    parser.add_argument("--embedder", default="minilm", choices=("minilm", "none"))
    parser.add_argument("--cache", type=Path, default=Path("weave.cache"))
    options = parser.parse_args()
    if options.what == "fit":
        fit(options.cache, options.limit)
    elif options.what == "errors":
        errors(options.cache, options.half, options.limit, options.embedder)
    else:
        show(options.cache, options.half)


if __name__ == "__main__":
    main()
