"""The baseline for `weave`: single sentences by score, until the budget is full.

A sentence's score is the sum of its leaf's score, its cosine with the question, and the share of the question's terms that it
holds: no hops, no aspects, no fitted weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from mergewise.assemble.shared.budget import Models, pack
from mergewise.assemble.shared.fragments import Candidate
from mergewise.assemble.weave.evidence import Asked, Candidates
from mergewise.protocols import FloatArray, IndexReader
from mergewise.ranges import ROWS, check_fields
from mergewise.types import Context, Step


@dataclass(frozen=True, slots=True)
class Sentences:
    k: Annotated[int, ROWS, "leaves from the search whose sentences are ranked"] = 100

    def __post_init__(self) -> None:
        check_fields(self)


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: Sentences) -> Context:
    leaves = dict(reader.rank(question, parameters.k))
    candidates = Candidates(Asked.of(question, reader.question_vector(question)), leaves)
    candidates.add(reader.sentences(list(leaves)).values())
    order = np.argsort(-_scores(candidates), kind="stable").tolist() if candidates.sentences else []
    candidates.add(reader.sentences(candidates.missing(order)).values())
    ranked = [
        Candidate(tuple(candidates.sentences[j].fragment for j in needed), 1 / (1 + rank))
        for rank, i in enumerate(order)
        if (needed := candidates.needed(i, previous=False)) is not None
    ]
    trace = [Step("search", f"{len(leaves)} leaves, {len(ranked)} sentences")]
    return pack(question, ranked, budget, models, "document", trace)


def _scores(candidates: Candidates) -> FloatArray:
    leaf = np.array([candidates.scores.get(sentence.leaf.id, 0.0) for sentence in candidates.sentences], np.float32)
    terms = np.array([candidates.share(terms) for terms in candidates.terms], np.float32)
    return leaf + terms + candidates.cosines()
