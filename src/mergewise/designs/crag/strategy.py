"""CRAG (Yan et al. 2024, Algorithm 1). An evaluator scores the retrieved passages, and the best score selects an action.

    correct     the best score is at least `upper`: refine the passages
    ambiguous   the best score is at least `lower`: refine the passages and those of a second search
    incorrect   otherwise: refine the passages of the second search only

Refining cuts passages into strips of three sentences, scores each strip, drops those below `least`, and keeps the best six (five
from the second search). With `order=document` the kept strips are put together in their order, as in the paper (section 4.4). By
default the best come first, as in the paper's code.

Differences from the paper:
- The paper searches the web. Our second search queries the same index by keywords, so nothing leaves the machine and the rows of
  a table are comparable. It skips passages of the first search, which are used only if the second search returns nothing. An
  index opened with `second_source` searches there instead: in another index, or with a function of yours.
- Our evaluator differs (`evaluations`), so the paper's thresholds (0.592 and -0.995 on PopQA) do not apply. Ours are tuned on the
  first halves of the question sets.
- A last strip of a single sentence is joined to the strip before it. Strips are rendered under their headings, not joined with
  semicolons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate, Order
from mergewise.assemble.passages import SEARCHED, LeafRun, search_passages
from mergewise.assemble.sentences import SentenceInLeaf
from mergewise.defaults import PASSAGE_TOKENS
from mergewise.designs.crag.keywords import keywords
from mergewise.designs.design import Strategy
from mergewise.models.record import EmbedderUtilities, Models, WordUtilities
from mergewise.models.scores import logistic
from mergewise.protocols import IndexReader
from mergewise.ranges import MOST_ROWS, CheckedFields, Range
from mergewise.text.sections import search_key
from mergewise.text.sentences import split_sentences
from mergewise.text.spans import one_line
from mergewise.types import Context, LeafSentences, Sentence, Step, Usage, frozen

STRIP = 3  # sentences
EXTERNAL = 5
"""Number of strips kept from the second search."""
SECOND = "second:"
"""Beginning of the document ids of a second source."""

_SCORE = Range(-1, 1)


@frozen
class CRAG(CheckedFields):
    k: Annotated[int, Range(1, MOST_ROWS // SEARCHED), "Passages of each search"] = 10
    upper: Annotated[float, _SCORE, "Upper threshold: a passage at or above it counts as correct"] = -0.3
    lower: Annotated[float, _SCORE, "Lower threshold: passages below it count as incorrect"] = -0.75
    cut: Annotated[Literal["sentences", "whole"], "Refinement of passages: strips of three sentences, or none"] = (
        "sentences"
    )
    n: Annotated[int, Range(1, MOST_ROWS), "Strips kept from the first search"] = 6
    least: Annotated[float, _SCORE, "Minimum score of a strip; -1 keeps the best whatever they score"] = -1.0
    order: Order = "score"


PRESETS = {"paper": {"upper": 0.592, "lower": -0.995}}
"""`paper`: section 5.1, thresholds on PopQA. They belong to the paper's evaluator, so another one decides differently."""


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: CRAG) -> Context:
    trace: list[Step] = []
    # search without the reranker: only the evaluator uses it
    found = search_passages(question, reader, parameters.k, PASSAGE_TOKENS, trace, by="search")
    first = _passages(found, reader)
    # The evaluator reads title, headings and sentences.
    wholes = ["".join(leaf.text for leaf in leaves) for leaves in first]
    texts = [
        search_key(leaves[0].title, leaves[0].headings, whole).strip() if leaves else ""
        for leaves, whole in zip(first, wholes, strict=True)
    ]
    scores = evaluations(question, texts, models)
    best = max(scores, default=-1.0)
    action = action_of(scores, parameters.upper, parameters.lower)
    spans = tuple(span for one in found for span in one.candidate.spans)
    trace.append(Step("evaluate", f"{action}, by {evaluator_name(models)}", spans, score=best))
    usage = Usage()
    ranked: list[Candidate] = []
    if action != "incorrect":
        ranked += _best_strips(question, first, parameters.n, models, parameters, trace)
    if action != "correct":
        named, usage = keywords(question, texts, models)
        trace.append(Step("keywords", ", ".join(named)))
        if models.second_source is not None:
            others = list(models.second_source(" ".join(named), parameters.k))[: parameters.k]
            trace.append(Step("second source", f"{len(others)} texts"))
            passages = []
            for one in others:
                # The id begins with `SECOND`, so that no document of the index has it.
                cuts = tuple(Sentence(start, end, 0) for start, end in split_sentences(one.text))
                doc_id = SECOND + one.id
                leaf = LeafSentences(-1, -1, doc_id, one.title, (), 0, 0, one.text, cuts, None, None)
                passages.append([leaf])
        else:
            known = {leaf for one in found for leaf in one.leaves}
            again = search_passages(" ".join(named), reader, 2 * parameters.k, PASSAGE_TOKENS, trace, by="search")
            passages = _passages([one for one in again if known.isdisjoint(one.leaves)][: parameters.k], reader)
        ranked += _best_strips(question, passages, EXTERNAL, models, parameters, trace)
    if not ranked:
        ranked = _best_strips(question, first, parameters.n, models, parameters, trace)
    ranked.sort(key=lambda one: -one.score)
    context = pack(question, ranked, budget, models, parameters.order, trace)
    return replace(context, usage=context.usage + usage)


def action_of(scores: Sequence[float], upper: float, lower: float) -> Literal["correct", "ambiguous", "incorrect"]:
    """Return the action for the scores of all passages (section 4.4)."""
    best = max(scores, default=-1.0)
    if scores and best >= upper:
        return "correct"
    return "ambiguous" if scores and best >= lower else "incorrect"


def _passages(found: Sequence[LeafRun], reader: IndexReader) -> list[list[LeafSentences]]:
    """Return the leaves of each passage."""
    leaves = reader.sentences(sorted({leaf for one in found for leaf in one.leaves}))
    return [[leaves[leaf] for leaf in one.leaves if leaf in leaves] for one in found]


def _best_strips(
    question: str,
    passages: Sequence[Sequence[LeafSentences]],
    most: int,
    models: Models,
    parameters: CRAG,
    trace: list[Step],
) -> list[Candidate]:
    """Return the best strips of the passages by the evaluator's score."""
    strips = [strip for one in passages for strip in strips_of(one, parameters.cut == "whole")]
    texts = [" ".join(one_line(one.text) for one in strip) for strip in strips]
    scored = zip(strips, evaluations(question, texts, models), strict=True)
    relevant = [pair for pair in scored if pair[1] >= parameters.least]
    kept = sorted(relevant, key=lambda pair: -pair[1])[: most if parameters.cut == "sentences" else (most + 1) // 2]
    candidates = [Candidate(tuple(one.fragment for one in strip), score) for strip, score in kept]
    spans = tuple(span for one in candidates for span in one.spans)
    trace.append(Step("strips", f"the best {len(kept)} of {len(strips)}", spans))
    return candidates


def strips_of(leaves: Sequence[LeafSentences], whole: bool = False) -> list[list[SentenceInLeaf]]:
    """Split a passage into strips of three sentences. With `whole`, return it as a single strip.

    A last strip of a single sentence is joined to the strip before it.
    """
    sentences = [SentenceInLeaf(leaf, number) for leaf in leaves for number in range(len(leaf.sentences))]
    size = max(1, len(sentences)) if whole else STRIP
    strips = [sentences[first : first + size] for first in range(0, len(sentences), size)]
    if len(strips) > 1 and len(strips[-1]) == 1:
        strips[-2:] = [strips[-2] + strips[-1]]
    return strips


# -- the evaluator

# The retrieval evaluator of CRAG (Yan et al. 2024, section 4.3). It scores how relevant a text is to a question, from -1 to 1.
#
# The paper fine-tunes T5-large. We use the configured reranker or trained utility predictor, and map its score s in [0, 1] to
# 2 s - 1. Without one, s is the probability that a passage holds evidence. A logistic regression predicts it from the cosine and
# the share of the question's terms in the passage. It is fitted on the first halves of four question sets (Platt scaling;
# `benchmarks/crag.py fit`).

WORDS = 4
"""Minimum length of a text in words. A shorter text scores -1."""

COSINE, COVERAGE, BIAS = 4.81, 3.11, -5.92
COVERAGE_ALONE, BIAS_ALONE = 3.77, -3.86


def evaluator_name(models: Models) -> str:
    if models.reranker is not None:
        return models.reranker.spec
    return "the question's terms" if models.embedder is None else f"cosines of {models.embedder.spec} and terms"


def evaluations(question: str, texts: Sequence[str], models: Models) -> list[float]:
    """Score each text, in [-1, 1]."""
    if not texts:
        return []
    if models.reranker is not None:
        shares = np.asarray(models.reranker.score(question, texts), np.float64)
    else:
        coverage = np.asarray(WordUtilities().utilities(question, texts))
        if models.embedder is None:
            shares = logistic(COVERAGE_ALONE * coverage + BIAS_ALONE)
        else:
            cosines = np.asarray(EmbedderUtilities(models.embedder).utilities(question, texts))
            shares = logistic(COSINE * cosines + COVERAGE * coverage + BIAS)
    scores = (2 * shares - 1).tolist()
    return [-1.0 if len(text.split()) < WORDS else score for text, score in zip(texts, scores, strict=True)]


STRATEGIES = {
    "crag": Strategy(assemble, CRAG(), "the best strips of passages, chosen by an evaluator (CRAG)", presets=PRESETS)
}
