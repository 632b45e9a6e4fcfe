"""Cosine against NLL over pairs of chunks from a search: MergeRAG's Figure 2 shows one example, this gives the numbers.

python -m benchmarks.similarity [--sets musique-long] [--chunks 20] [--limit 30] [--scorer lm|hf:PATH] [--gguf FILE]

The chunks of a question are the best of its search, best first, as `mergerag-asym` reads them. cos(i, j) is the cosine of their
vectors, L(i|j) the scorer's nats per token of chunk i after chunk j. `--gguf` loads a causal model from a GGUF file through
transformers, which needs the packages gguf and accelerate. Indexes and finished questions are cached in --cache DIR, so an
interrupted command can resume.

    rho          rank correlation of cos(i, j) with -L(i|j) over all ordered pairs
    rho, source  the same over the anchors of one source, mean over sources: this decides the choice of an anchor
    by source    share of the variance of L due to the source alone, for any anchor
    same anchor  how often the anchor of least L is the chunk of largest cosine
    upper, L     share of the sources in the weaker half whose anchor of least L is in the better half
    upper, cos   the same for the chunk of largest cosine

`chance` gives the values of a random anchor.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

import mergewise
from benchmarks.cells import Cell, Cells, average_rows, markdown
from benchmarks.corpus import bench_folder
from mergewise.designs import VIEWS
from mergewise.designs.mergerag.lm import WordModel, corpus_words
from mergewise.designs.mergerag.pieces import sentences_of, sources_of, text_of
from mergewise.engine import Index
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.run import Split, chosen_questions
from mergewise.evaluate.tuning.weights import Array
from mergewise.models import load_scorer
from mergewise.models.tokens import count_tokens
from mergewise.protocols import NLLScorer
from mergewise.retrieve.hybrid import HybridReader

MEASURES = ("rho", "rho, source", "by source", "same anchor", "upper, L", "upper, cos")


def ranks(values: Array) -> Array:
    """Return ranks from 0 for the smallest value. Equal values share the mean of their ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(count)
    return np.asarray((ends - (count + 1) / 2)[place], float)


def rank_correlation(first: Array, second: Array) -> float | None:
    """Return Spearman's rho, or None if one argument is constant."""
    a, b = (ranks(values) - ranks(values).mean() for values in (first, second))
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size else None


def compared(cosines: Array, nll: Array) -> dict[str, float | None]:
    """Compute the measures of two square matrices (rows: sources, columns: anchors), both in the order of relevance."""
    count = len(nll)
    off = ~np.eye(count, dtype=bool)
    near, said = cosines[off].reshape(count, -1), nll[off].reshape(count, -1)
    by_source = [
        rho for row, values in zip(near, -said, strict=True) if (rho := rank_correlation(row, values)) is not None
    ]
    closest = np.where(off, cosines, -np.inf).argmax(1)
    anchors = np.where(off, nll, np.inf).argmin(1)
    upper = count // 2
    return {
        "rho": rank_correlation(near.ravel(), -said.ravel()),
        "rho, source": float(np.mean(by_source)) if by_source else None,
        "by source": float(said.mean(1).var() / said.var()) if said.var() else None,
        "same anchor": float((closest == anchors).mean()),
        "upper, L": float((anchors[upper:] < upper).mean()),
        "upper, cos": float((closest[upper:] < upper).mean()),
    }


def chance(count: int) -> dict[str, float]:
    return {
        "same anchor": 1 / (count - 1),
        "upper, L": count // 2 / (count - 1),
        "upper, cos": count // 2 / (count - 1),
    }


def texts_of(index: Index, question: str, count: int) -> list[str]:
    """Return the chunks that `mergerag-asym` gives to its scorer, best first."""
    reader = HybridReader(index.store.reader(), index.embedder, VIEWS, None, index.search_settings)
    sources = sources_of(reader.search(question, 50), 0)
    return [text_of(sentences) for sentences in sentences_of(sources, count_tokens) if sentences][:count]


def measure_question(index: Index, question: str, count: int, scorer: NLLScorer | None) -> Cell:
    assert index.embedder is not None
    texts = texts_of(index, question, count)
    vectors = np.asarray(index.embedder.embed_documents(texts), float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    nll = (scorer or WordModel(corpus_words(texts))).nll(texts, texts)
    known = compared(vectors @ vectors.T, np.asarray(nll, float))
    return {name: value for name, value in known.items() if value is not None}


def load_gguf(file: Path) -> NLLScorer:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from mergewise.models.causal import HFCausalModel
    from mergewise.models.causal_scorer import CausalScorer

    where = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name, "local_files_only": True}
    model = AutoModelForCausalLM.from_pretrained(**where)
    return CausalScorer(HFCausalModel(file.stem, model=model, tokenizer=AutoTokenizer.from_pretrained(**where)))


def row(
    name: str, cache: Path, cells: Cells, split: Split, limit: int, count: int, scorer: NLLScorer | None, label: str
) -> list[str]:
    task = load_question_set(bench_folder() / name)
    index = mergewise.open(cache / name)
    index.add(task.documents)
    rows = []
    for question in chosen_questions(task, split, limit):
        key = f"{name} {label} {count} chunks {question.id}"
        rows.append(cells(key, partial(measure_question, index, question.text, count, scorer)))
    index.close()
    known = average_rows(rows)
    pairs = len(rows) * count * (count - 1)
    return [f"{name}, {label}", f"{len(rows)} x {count}, {pairs:,} pairs", *(f"{known[part]:.2f}" for part in MEASURES)]


def table(rows: Sequence[list[str]], count: int) -> str:
    drawn = chance(count)
    at_random = ["chance", "", *(f"{drawn[part]:.2f}" if part in drawn else "" for part in MEASURES)]
    return markdown(["set, scorer", "questions x chunks", *MEASURES], [*rows, at_random])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="hotpotqa-long,musique-long")
    parser.add_argument("--split", default="test", choices=("dev", "test", "all"))
    parser.add_argument("--limit", type=int, default=30)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--scorer", default="lm")
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("similarity.cache"))
    options = parser.parse_args()
    scorer = load_gguf(options.gguf) if options.gguf else load_scorer(options.scorer)
    label = f"`hf:{options.gguf.stem}`" if options.gguf else f"`{options.scorer}`"
    cells = Cells(options.cache / "similarity.jsonl")
    rows = [
        row(name, options.cache, cells, options.split, options.limit, options.chunks, scorer, label)
        for name in options.sets.split(",")
    ]
    print(table(rows, options.chunks))


if __name__ == "__main__":
    main()
