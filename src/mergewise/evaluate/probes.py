"""Probes: scores of a question that neither its context nor an answer shows, for figures about sources, markers and chunks.

A method with a probe gets these scores beside those of its context, and is not answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from mergewise.asking import IndexState
from mergewise.evaluate.question_sets import Question
from mergewise.protocols import FloatArray

Probe: TypeAlias = Callable[[Question, IndexState], Mapping[str, float]]

PASSAGES = 5  # passages among the sources of a question (AED-RAG)
CHUNKS = 20  # chunks whose pairs are compared (MergeRAG)


def source_scores(question: Question, state: IndexState) -> dict[str, float]:
    """Mark the source with the least CPPL of the gold answer: a passage, a triplet set or the model's own text."""
    from mergewise.designs.aed import KINDS, Example, LabelSettings, likeliest_kind

    if state.models.causal is None or not question.has_answers:
        return {}
    example = Example(question.id, question.text, question.answers)
    best = likeliest_kind(state.models.causal, example, state.reader(question.where), LabelSettings(passages=PASSAGES))
    return {f"from_{kind}": float(kind == best) for kind in KINDS} if best else {}


def marker_scores(question: Question, state: IndexState) -> dict[str, float]:
    """Return the figures of all markers of the index, and the cosines of the question with its nearest key and chunk."""
    reader = state.reader(question.where)
    report: Any = reader.view("marker").report()
    lengths = {
        f"{name}_tokens_{quarter}": value
        for name, known in (("key", report.key_lengths), ("value", report.value_lengths))
        for quarter, value in zip((0, 25, 50, 75, 100), (known.least, *known.quartiles, known.most), strict=True)
    }
    assert state.models.embedder is not None
    vector = state.models.embedder.embed_queries([question.text])[0]
    for name in ("marker", "fixed"):
        first = [row for row, _ in reader.rank_by_vectors(question.text, 1, name)]
        lengths |= {f"nearest_{name}": float(own @ vector) for own in reader.vectors(first, name).values()}
    return {
        "coverage": 100 * report.coverage["mean"],
        "coverage_variance": 1e4 * report.coverage["variance"],
        "fallback": 100 * report.fallback_share,
        "key_tokens": report.key_tokens,
        "value_tokens": report.value_tokens,
        **lengths,
    }


def pair_scores(question: Question, state: IndexState) -> dict[str, float]:
    """Compare cosines with L_NLL over the pairs of the best chunks, as `mergerag-asym` reads them."""
    from mergewise.designs.mergerag import chunk_texts

    models = state.models
    assert models.embedder is not None and models.scorer is not None
    hits = state.reader(question.where).search(question.text, 50, by="reranker")
    chunks = chunk_texts(hits, models.count_tokens)[:CHUNKS]
    vectors = models.embedder.embed_documents(chunks)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return agreement(vectors @ vectors.T, np.asarray(models.scorer.nll(chunks, chunks))) if len(chunks) > 2 else {}


def agreement(cosines: FloatArray, nll: FloatArray) -> dict[str, float]:
    """Compare two matrices (rows: sources, columns: anchors) without their diagonals.

    Returns:
        The mean over sources of Spearman's rho, and the share of sources with the same best anchor.
    """
    others = ~np.eye(len(nll), dtype=bool)
    near, said = (values[others].reshape(len(nll), -1) for values in (cosines, -nll))
    ranks = (values.argsort(1).argsort(1) for values in (near, said))
    rho = [np.corrcoef(first, second)[0, 1] for first, second in zip(*ranks, strict=True)]
    return {"rho": float(np.mean(rho)), "same_anchor": float((near.argmax(1) == said.argmax(1)).mean())}


PROBES: Mapping[str, Probe] = {"sources": source_scores, "markers": marker_scores, "pairs": pair_scores}
