"""The ranked sentences of merged chunks, for budgets below the size of the chunks. Not part of the paper.

    w(s) = cosine(q, s) + lexical * idf(q in s) / idf(q) + r(q, d)

The cosines are scaled to [0, 1]. The idf is computed over the candidate sentences, each with its headings. r(q, d) is a share
of the best document's. Then a sentence gets a share of the score of its better neighbour under the same heading, since evidence
is often adjacent. The weights were measured on the first halves of the question sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log

import numpy as np

from mergewise.assemble.fragments import Candidate
from mergewise.assemble.sentences import SentenceInLeaf, neutral, sentence_cosines
from mergewise.protocols import FloatArray
from mergewise.text.languages import Terms
from mergewise.types import LeafSentences, Part

LEXICAL = 0.5
NEIGHBOUR = 0.2
# A multiple of the budget. It is above 1 because sentences that do not fit are skipped.
_AHEAD = 3


def ranked_sentences(
    question: str, vector: FloatArray | None, sentences: Sequence[SentenceInLeaf], shares: Sequence[float], budget: int
) -> list[Candidate]:
    """Return the sentences as candidates, best first, as many as a selection for this budget could reach.

    `shares` are r(q, d) of each sentence's document, over the best document's.
    """
    if not sentences:
        return []
    scores = smooth_scores(weights(question, vector, sentences, shares), [sentence.section for sentence in sentences])
    order = np.argsort(-scores, kind="stable")
    before = np.cumsum([0, *(sentences[i].tokens for i in order)])[:-1]
    order = order[before <= _AHEAD * budget]
    return [Candidate((sentences[i].headed_fragment,), float(scores[i])) for i in order]


def weights(
    question: str, vector: FloatArray | None, sentences: Sequence[SentenceInLeaf], shares: Sequence[float]
) -> FloatArray:
    """Return w(s) of each sentence. Without a vector the cosines are left out."""
    lexical = LEXICAL * matching(question, sentences)
    ranks = np.array(shares, np.float32)
    if vector is None:
        return np.asarray(lexical + ranks, np.float32)
    return np.asarray(cosines(vector, sentences) + lexical + ranks, np.float32)


def cosines(vector: FloatArray, sentences: Sequence[SentenceInLeaf]) -> FloatArray:
    """Return the cosines with the question, scaled to [0, 1], since their range depends on the embedder."""
    leaves = list({sentence.leaf.id: sentence.leaf for sentence in sentences}.values())
    starts = np.cumsum([0, *(len(leaf.sentences) for leaf in leaves)])
    first = dict(zip((leaf.id for leaf in leaves), starts.tolist(), strict=False))
    of_leaves = sentence_cosines(leaves, vector)
    if np.isnan(of_leaves).all():
        return np.zeros(len(sentences), np.float32)
    values = neutral(of_leaves)[[first[sentence.leaf.id] + sentence.number for sentence in sentences]]
    low, high = float(values.min()), float(values.max())
    return np.asarray((values - low) / (high - low) if high > low else np.ones_like(values), np.float32)


def matching(question: str, sentences: Sequence[SentenceInLeaf]) -> FloatArray:
    """Return idf(q in s) / idf(q): the idf of the question's terms in the sentence or its headings, as a share of all."""
    telling = Terms(question)
    paths = list(dict.fromkeys(sentence.leaf.headings for sentence in sentences))
    above = dict(zip(paths, telling.held([" ".join(headings) for headings in paths]), strict=True))
    texts = telling.held([sentence.text for sentence in sentences])
    held = [terms | above[sentence.leaf.headings] for terms, sentence in zip(texts, sentences, strict=True)]
    frequency = Counter(term for terms in held for term in terms)
    # In a fixed order: sums of floats depend on it, and sets have none.
    idf = {term: log(1 + len(sentences) / (1 + frequency[term])) for term in sorted(telling.all)}
    total = sum(idf.values()) or 1.0
    return np.array([sum(idf[term] for term in idf if term in terms) / total for terms in held], np.float32)


def smooth_scores(scores: FloatArray, sections: Sequence[object]) -> FloatArray:
    """Return (1 - n) w(s) + n max(w(s-1), w(s+1)) over the neighbours in the same section, or w(s) for a sentence without any."""
    blank = np.float32(-np.inf)
    same = np.array([a == b for a, b in pairwise(sections)], bool)
    before, after = np.full_like(scores, blank), np.full_like(scores, blank)
    before[1:] = np.where(same, scores[:-1], blank)
    after[:-1] = np.where(same, scores[1:], blank)
    best = np.maximum(before, after)
    return np.where(np.isfinite(best), (1 - NEIGHBOUR) * scores + NEIGHBOUR * best, scores)


def sentences_in(
    leaves: Mapping[int, LeafSentences], ids: Sequence[int], parts: Sequence[Part]
) -> list[SentenceInLeaf]:
    """Return the sentences of these leaves within the parts, in order."""
    return [
        SentenceInLeaf(leaves[i], number)
        for i in ids
        if i in leaves
        for number, sentence in enumerate(leaves[i].sentences)
        if any(start <= sentence.start and sentence.end <= end for start, end in parts)
    ]
