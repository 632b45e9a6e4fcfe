"""The baseline for `weave`: single sentences by score, until the budget is full.

A sentence's score is the sum of its leaf's score, its cosine with the question, and the share of the question's terms that it
holds: no hops, no aspects, no fitted weights. With `by` other scores rank them:

    cosine     of the sentence's vector with the question's, which makes the strategy `recomp`, RECOMP's extractive compressor
               (Xu et al. 2023): the sentences of a few leaves that are most like the question, and none at all where the best of
               them is not like it (`least`, its selective augmentation). The paper trains an encoder for it; this is the index's,
               or without one the share of the question's terms.
    utility    S_phi of AED-RAG, of the first `among` by the sum: a reranker over sentences (its appendix F)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate
from mergewise.designs.weave.evidence import Candidates, QuestionAspects, by_score
from mergewise.models.record import Models
from mergewise.protocols import FloatArray, IndexReader, OrderedBy
from mergewise.ranges import MOST_ROWS, ROWS, CheckedFields, Range
from mergewise.types import Context, Step


@dataclass(frozen=True, slots=True)
class Sentences(CheckedFields):
    k: Annotated[int, ROWS, "leaves from the search whose sentences are ranked"] = 100
    by: Annotated[
        Literal["search", "cosine", "utility"],
        "what ranks sentences: the search, their cosine with the question, or a predictor of their utility",
    ] = "search"
    among: Annotated[int, Range(1, MOST_ROWS), "sentences whose utility is predicted"] = 24
    n: Annotated[int, Range(0, MOST_ROWS), "most sentences that are taken; 0: as many as the budget holds"] = 0
    least: Annotated[float, Range(-1000, 1000), "score below which no sentence is taken"] = -1000.0


# of RECOMP's leaves the reranker alone decides, and where it predicts utilities, the search
ORDERED_BY: Mapping[str, OrderedBy] = {"search": "both", "cosine": "reranker", "utility": "search"}


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: Sentences) -> Context:
    leaves = dict(reader.rank(question, parameters.k, ORDERED_BY[parameters.by]))
    candidates = Candidates(QuestionAspects.of(question, reader.question_vector(question)), leaves)
    candidates.add(reader.sentences(list(leaves)).values())
    trace = [Step("search", f"{len(leaves)} leaves, {len(candidates)} sentences")]
    order = _order(candidates, models, parameters, trace)
    candidates.add(reader.sentences(candidates.missing(order)).values())
    ranked = [
        Candidate(tuple(candidates.sentences[j].fragment for j in needed), 1 / (1 + rank))
        for rank, i in enumerate(order)
        if (needed := candidates.bundle(i, previous=False)) is not None
    ]
    return pack(question, ranked[: parameters.n or None], budget, models, "document", trace)


def _order(candidates: Candidates, models: Models, parameters: Sentences, trace: list[Step]) -> list[int]:
    """The candidates that may be taken, best first."""
    if not candidates.sentences:
        return []
    if parameters.by == "cosine" and candidates.asked.vector is None:
        trace.append(
            Step("cosine", "no vectors for this question: shares of the question's terms, without a least one")
        )
        return by_score(_term_shares(candidates))
    scores = candidates.cosines() if parameters.by == "cosine" else _scores(candidates)
    order = by_score(scores)
    if parameters.by == "utility" and models.predictor is not None:
        order = order[: parameters.among]
        texts = [candidates.sentences[i].below_path for i in order]
        utilities = models.predictor.utilities(candidates.asked.text, texts)
        trace.append(Step("utility", f"{len(order)} sentences by {models.predictor.spec}"))
        scores = np.full(len(scores), -np.inf, np.float32)
        scores[order] = utilities
        order.sort(key=lambda i: -scores[i])
    kept = [i for i in order if scores[i] >= parameters.least]
    if len(kept) < len(order):
        below = f"{len(order) - len(kept)} sentences of a score below {parameters.least:g}"
        trace.append(Step("skip", f"{below}, the best has {scores[order[0]]:.3f}"))
    return kept


def _scores(candidates: Candidates) -> FloatArray:
    leaf = np.array([candidates.scores.get(sentence.leaf.id, 0.0) for sentence in candidates.sentences], np.float32)
    return leaf + _term_shares(candidates) + candidates.cosines()


def _term_shares(candidates: Candidates) -> FloatArray:
    return np.array([candidates.share(terms) for terms in candidates.terms], np.float32)
