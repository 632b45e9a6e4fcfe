"""The baseline for `weave`: single sentences by hybrid score, until the budget is full.

A sentence's score is that of its leaf, its own cosine and its own share of the question's terms, in equal parts: no
hops, no aspects, no fitted weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mergewise.assemble.shared.budget import Models, fill
from mergewise.assemble.shared.fragments import Candidate
from mergewise.assemble.weave.evidence import Asked, Pool
from mergewise.protocols import FloatArray, IndexReader
from mergewise.types import Context, Step


@dataclass(frozen=True, slots=True)
class Sentences:
    """`k`: leaves from the search whose sentences are ranked."""

    k: int = 100


def assemble(
    question: str, reader: IndexReader, budget: int, models: Models, parameters: Sentences, name: str
) -> Context:
    scores = dict(reader.rank(question, parameters.k))
    pool = Pool(Asked.of(question, reader.question_vector(question)), scores)
    pool.add(reader.sentences(list(scores)).values())
    ranked = np.argsort(-_scores(pool), kind="stable").tolist() if pool.items else []
    candidates = [Candidate((pool.items[i].fragment,), 1 / (1 + rank)) for rank, i in enumerate(ranked)]
    found = Step("search", f"{len(scores)} leaves, {len(candidates)} sentences")
    return fill(question, name, candidates, budget, models, "document", [found])


def _scores(pool: Pool) -> FloatArray:
    leaf = np.array([pool.scores.get(item.leaf.id, 0.0) for item in pool.items], np.float32)
    terms = np.array([pool.share(item.terms) for item in pool.items], np.float32)
    return leaf + terms + pool.cosines()
