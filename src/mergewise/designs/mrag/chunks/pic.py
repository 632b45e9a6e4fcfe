"""Chunks around a summary of their document: the baseline PIC of M-RAG (section 3.1).

PIC is Wang et al., "Document Segmentation Matters for Retrieval-Augmented Generation" (Findings of ACL 2025). A summary
represents the expected questions. Each sentence is compared with the summary, and consecutive sentences on the same side of the
mean similarity form a chunk. So chunks about the main topic and about side topics alternate.

Differences from the paper:
- We did not have the full paper. The rule follows its abstract and papers that cite it.
- Without a chat model the summary is extractive: the document's own sentences, chosen by maximal marginal relevance (Carbonell
  and Goldstein 1998). A document also gets an extractive summary if the model's answer is empty. Rows record the kind of
  summary.
- `group=points` is another interpretation, of M-RAG's "adaptive grouping": a chunk is a run of sentences that are most similar to
  the same sentence of the summary.
- Sentences are split as in the tree, chunks above `most` tokens are split between sentences, and title and headings are searched
  with a chunk, as in the view `semantic`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mergewise.designs.mrag.chunks.records import BY_EXTRACT, BY_WRITTEN, PIC, PICSettings, rows_from
from mergewise.designs.mrag.chunks.semantic import EXACT, bounds_of, embedder_of, runs, sentences_of
from mergewise.designs.mrag.chunks.summaries import estimate as estimate_of
from mergewise.designs.mrag.chunks.summaries import summaries
from mergewise.index.views import estimate_texts
from mergewise.models.record import Models, embed_groups
from mergewise.protocols import FloatArray
from mergewise.store.views import Estimate, OnShare, ViewRows
from mergewise.text.sentences import split_sentences
from mergewise.text.spans import texts_at
from mergewise.types import DocumentRows

RELEVANT = 0.7
"""Weight of similarity to the document in an extractive summary. The rest penalises similarity to chosen sentences."""


def build(
    documents: Sequence[DocumentRows], settings: PICSettings, models: Models, on_share: OnShare | None = None
) -> list[ViewRows]:
    """Split each document into chunks. All sentences are embedded in one call, all summaries in another."""
    embedder = embedder_of(models, "pic")
    texts = [rows.document.text for rows in documents]
    cut = [sentences_of(rows) for rows in documents]
    of_sentences = embed_groups(
        embedder, [[t[a:b].strip() for a, b in sentences] for t, sentences in zip(texts, cut, strict=True)]
    )
    written = summaries(texts, models, on_share) if settings.summary == "abstractive" else [None] * len(texts)
    points = [
        [text[slice(*sentences[i])].strip() for i in extract(own, settings.sentences)]
        if summary is None
        else texts_at(summary, split_sentences(summary))
        for text, sentences, own, summary in zip(texts, cut, of_sentences, written, strict=True)
    ]
    # Consecutive sentences with the same label form a chunk.
    label, asked = nearest, points
    if settings.group == "mean":
        label, asked = sides, [[" ".join(own)] for own in points]
    labels = [
        label(np.round(own @ asking.T, EXACT))
        for own, asking in zip(of_sentences, embed_groups(embedder, asked), strict=True)
    ]
    bounds = [
        bounds_of(text, sentences, runs(own), settings.most, models.count_tokens)
        for text, sentences, own in zip(texts, cut, labels, strict=True)
    ]
    cuts = [BY_EXTRACT if summary is None else BY_WRITTEN for summary in written]
    return rows_from(PIC, documents, bounds, cuts, models)


def estimate(documents: Sequence[DocumentRows], settings: PICSettings, models: Models) -> Estimate:
    """Estimate the cost of the chat model's summaries."""
    return estimate_texts(([rows.document.text] for rows in documents), estimate_of, models)


def sides(similarities: FloatArray) -> list[int]:
    """Label each sentence 1 if its similarity with the summary (the only column) is at least the mean, otherwise 0."""
    if not len(similarities):
        return []
    mean = np.round(similarities.mean(dtype=np.float64), EXACT)
    labels: list[int] = (np.round(similarities[:, 0].astype(np.float64), EXACT) >= mean).astype(int).tolist()
    return labels


def nearest(similarities: FloatArray) -> list[int]:
    """Label each sentence with the number of its most similar point (column). Ties go to the first."""
    return similarities.argmax(axis=1).tolist() if len(similarities) else []


def extract(vectors: FloatArray, count: int) -> list[int]:
    """Choose `count` sentences by maximal marginal relevance: similar to the document, dissimilar to each other."""
    whole = vectors.mean(axis=0) if len(vectors) else np.zeros(0, np.float32)
    relevance = np.round(vectors @ (whole / max(float(np.linalg.norm(whole)), 1e-9)), EXACT) if len(vectors) else whole
    chosen: list[int] = []
    likeness = np.zeros(len(vectors), np.float32)
    while len(chosen) < min(count, len(vectors)):
        gains = np.round(RELEVANT * relevance - (1 - RELEVANT) * likeness, EXACT)
        gains[chosen] = -np.inf
        chosen.append(int(gains.argmax()))
        likeness = np.maximum(likeness, np.round(vectors @ vectors[chosen[-1]], EXACT))
    return sorted(chosen)
