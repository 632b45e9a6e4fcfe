"""The baseline for `weave`: single sentences by score, until the budget is full.

A sentence's score is the sum of its leaf's score, its cosine with the question, and its share of the question's terms. There
are no hops, no aspects and no fitted weights. `by` selects other scores:

    cosine     Cosine of the sentence and the question. This makes the strategy `recomp`, RECOMP's extractive compressor
               (Xu et al. 2023): the sentences of a few leaves that are most similar to the question, or none if the best is
               below `least`, its selective augmentation. The paper trains an encoder. Here the index's encoder is
               used, or the share of the question's terms without one.
    utility    S_phi of AED-RAG for the first `among` by the sum: a reranker over sentences (its appendix F).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate
from mergewise.designs.weave.evidence import QuestionAspects, SentencePool, by_score
from mergewise.models.record import Models
from mergewise.protocols import FloatArray, IndexReader, OrderedBy
from mergewise.ranges import MOST_ROWS, ROWS, CheckedFields, Range
from mergewise.types import Context, Step, frozen


@frozen
class Sentences(CheckedFields):
    k: Annotated[int, ROWS, "leaves from the search whose sentences are ranked"] = 100
    by: Annotated[
        Literal["search", "cosine", "utility"],
        "ranking by the search, by cosine with the question, or by predicted utility",
    ] = "search"
    among: Annotated[int, Range(1, MOST_ROWS), "sentences whose utility is predicted"] = 24
    n: Annotated[int, Range(0, MOST_ROWS), "maximum sentences; 0 fills the budget"] = 0
    least: Annotated[float, Range(-1000, 1000), "minimum score of a sentence"] = -1000.0


# "cosine": the reranker alone orders RECOMP's leaves. "utility": the search alone orders them.
ORDERED_BY: Mapping[str, OrderedBy] = {"search": "both", "cosine": "reranker", "utility": "search"}


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: Sentences) -> Context:
    leaves = dict(reader.rank(question, parameters.k, ORDERED_BY[parameters.by]))
    pool = SentencePool(QuestionAspects.read(question, reader), leaves)
    pool.add(reader.sentences(list(leaves)).values())
    trace = [Step("search", f"{len(leaves)} leaves, {len(pool)} sentences")]
    order = _order(pool, models, parameters, trace)
    pool.add(reader.sentences(pool.missing(order)).values())
    ranked = [
        Candidate(tuple(pool.sentences[j].fragment for j in needed), 1 / (1 + rank))
        for rank, i in enumerate(order)
        if (needed := pool.bundle(i, previous=False)) is not None
    ]
    return pack(question, ranked[: parameters.n or None], budget, models, "document", trace)


def _order(pool: SentencePool, models: Models, parameters: Sentences, trace: list[Step]) -> list[int]:
    """Return the candidates that may be selected, best first."""
    if not pool.sentences:
        return []
    if parameters.by == "cosine" and pool.asked.vector is None:
        trace.append(Step("cosine", "no vectors for this question: ranked by shares of its terms, without a minimum"))
        return by_score(pool.fixed[:, 2])
    scores = pool.cosines() if parameters.by == "cosine" else _scores(pool)
    order = by_score(scores)
    if parameters.by == "utility" and models.predictor is not None:
        order = order[: parameters.among]
        texts = [pool.sentences[i].below_path for i in order]
        utilities = models.predictor.utilities(pool.asked.text, texts)
        trace.append(Step("utility", f"{len(order)} sentences by {models.predictor.spec}"))
        scores = np.full(len(scores), -np.inf, np.float32)
        scores[order] = utilities
        order.sort(key=lambda i: -scores[i])
    kept = [i for i in order if scores[i] >= parameters.least]
    if len(kept) < len(order):
        below = f"{len(order) - len(kept)} sentences scored below {parameters.least:g}"
        trace.append(Step("skip", f"{below}, the best has {scores[order[0]]:.3f}"))
    return kept


def _scores(pool: SentencePool) -> FloatArray:
    return np.asarray(pool.fixed[:, 0] + pool.fixed[:, 2] + pool.cosines())
