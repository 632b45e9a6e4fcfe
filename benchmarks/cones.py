"""weave with embedders whose cosines are distributed differently from those of the fitted embedder.

python -m benchmarks.cones [--sets 2wiki,squad] [--split test] [--limit 100] [--cache DIR]

The vectors of the shipped embedder are transformed. The search keeps the original vectors:

    squeezed     all in a narrow cone, as with many embedders: cosine c becomes 0.8 + 0.2 c
    projected    onto 96 random directions, which adds noise

In `rescaled` rows, the cosines are scaled to the spread of the fitted embedder, as weave does for every embedder but the shipped
one. The other rows use the cosines unchanged. Cells: all evidence held at 128, 384 and 640 tokens, and the share of contexts
equal to those of the shipped embedder.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import mergewise
from benchmarks.corpus import bench_folder
from mergewise.designs import VIEWS
from mergewise.designs.weave.parameters import Weave
from mergewise.designs.weave.strategy import assemble
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.question_sets import Evidence
from mergewise.evaluate.run import chosen_questions
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.protocols import FloatArray
from mergewise.retrieve.hybrid import HybridReader
from mergewise.types import Context, LeafSentences, Span

BUDGETS = (128, 384, 640)
FIFTH = 0.2
Move = Callable[[FloatArray], FloatArray]


class Another:
    """A placeholder for an embedder without fitted weights. It is never called."""

    spec, dimension = "another", 1

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        raise AssertionError

    embed_queries = embed_documents


class MovedReader(HybridReader):
    move: Move

    def sentences(self, ids: Sequence[int]) -> dict[int, LeafSentences]:
        found = super().sentences(ids)
        return {
            i: leaf if leaf.vectors is None else replace(leaf, vectors=self.move(leaf.vectors))
            for i, leaf in found.items()
        }

    def question_vector(self, question: str) -> FloatArray | None:
        vector = super().question_vector(question)
        return None if vector is None else self.move(vector[None])[0]


def unchanged(vectors: FloatArray) -> FloatArray:
    return vectors


def squeezed(vectors: FloatArray) -> FloatArray:
    aside = np.full((len(vectors), 1), np.sqrt(1 - FIFTH), np.float32)
    return np.concatenate([np.asarray(vectors, np.float32) * np.float32(np.sqrt(FIFTH)), aside], axis=1)


def projected(vectors: FloatArray) -> FloatArray:
    directions = np.random.default_rng(0).standard_normal((vectors.shape[1], 96)).astype(np.float32)
    moved = np.asarray(vectors, np.float32) @ directions
    return np.asarray(moved / np.linalg.norm(moved, axis=1, keepdims=True), np.float32)


ROWS: dict[str, tuple[Move, bool]] = {
    "shipped": (unchanged, False),
    "shipped, rescaled": (unchanged, True),
    "squeezed": (squeezed, False),
    "squeezed, rescaled": (squeezed, True),
    "projected, rescaled": (projected, True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="2wiki,squad")
    parser.add_argument("--split", default="test")
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--cache", type=Path, default=Path("weave.cache"))
    options = parser.parse_args()
    for name in options.sets.split(","):
        task = load_question_set(bench_folder() / name)
        index = mergewise.open(options.cache / name, create=False)
        questions = chosen_questions(task, options.split, options.limit)
        standing: list[list[Context]] = []
        print(f"\n| {name} | all evidence | the same contexts |\n| --- | --- | --- |")
        for label, (move, rescaled) in ROWS.items():
            models = Models(count_tokens, Another() if rescaled else None, stored_tokens=True)
            reader = MovedReader(index.store.reader(), index.embedder, VIEWS, None, index.search_settings)
            reader.move = move
            contexts = [
                [assemble(one.text, reader, budget, models, Weave()) for budget in BUDGETS] for one in questions
            ]
            standing = standing or contexts
            held = [
                np.mean([_holds(row[at], one.evidence) for row, one in zip(contexts, questions, strict=True)])
                for at in range(len(BUDGETS))
            ]
            texts, kept = ([context.text for row in rows for context in row] for rows in (contexts, standing))
            same = np.mean([one == other for one, other in zip(texts, kept, strict=True)])
            print(f"| {label} | " + " ".join(f"{share:.3f}" for share in held) + f" | {same:.2f} |", flush=True)


def _holds(context: Context, gold: Evidence) -> bool:
    """Check that every gold span lies within spans of the context, which may touch each other."""
    spans = sorted(span for passage in context.passages for span in passage.spans)

    def is_covered(wanted: Span) -> bool:
        position = wanted.start
        for span in spans:
            if span.overlaps(wanted) and span.start <= position + 1:
                position = max(position, span.end)
        return position >= wanted.end

    return all(is_covered(span) for span, _ in gold)


if __name__ == "__main__":
    main()
