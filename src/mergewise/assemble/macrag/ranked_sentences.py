"""The sentences of merged chunks, ranked, for budgets that cannot hold the chunks whole. Ours, not the paper's.

    w(s) = cosine(q, s) + lexical * idf(q in s) / idf(q) + r(q, d)

with the cosines spread over [0, 1], the idf taken over the sentences at hand, headings read with every sentence below
them, and r(q, d) as a share of the best document's. A sentence then takes on a share of its better neighbour under the
same heading, since evidence seldom stands alone. docs/evaluation.md has the figures behind the weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

import numpy as np

from mergewise.assemble.shared.fragments import Candidate, Fragment
from mergewise.protocols import FloatArray
from mergewise.text.terms import TermFinder, content_terms
from mergewise.types import LeafSentences

LEXICAL = 0.5
NEIGHBOUR = 0.2
_AHEAD = 3  # times the budget: sentences that do not fit are passed over


@dataclass(frozen=True, slots=True)
class Piece:
    """One sentence of a leaf, with the share that its document has of the best document's score."""

    leaf: LeafSentences
    number: int
    share: float

    @property
    def text(self) -> str:
        leaf, sentence = self.leaf, self.leaf.sentences[self.number]
        return leaf.text[sentence.start - leaf.start : sentence.end - leaf.start]

    @property
    def tokens(self) -> int:
        return self.leaf.sentences[self.number].tokens

    @property
    def place(self) -> tuple[str, tuple[str, ...]]:
        return self.leaf.doc_id, self.leaf.headings

    def fragment(self) -> Fragment:
        """The sentence with the white space up to the next one, so that neighbours join; the first with its headings."""
        leaf, sentences, i = self.leaf, self.leaf.sentences, self.number
        start = leaf.start if i == 0 else sentences[i].start
        end = sentences[i + 1].start if i + 1 < len(sentences) else leaf.end
        return _fragment(leaf).cut(start, end)


def ranked_pieces(question: str, vector: FloatArray | None, pieces: Sequence[Piece], budget: int) -> list[Candidate]:
    """The sentences as candidates, best first, as many as a selection for this budget could come to."""
    if not pieces:
        return []
    scores = smoothed(weights(question, vector, pieces), [piece.place for piece in pieces])
    order = np.argsort(-scores, kind="stable")
    before = np.cumsum([0, *(pieces[i].tokens for i in order)])[:-1]
    order = order[before <= _AHEAD * budget]
    return [Candidate((pieces[i].fragment(),), float(scores[i])) for i in order]


def weights(question: str, vector: FloatArray | None, pieces: Sequence[Piece]) -> FloatArray:
    """w(s) of each sentence; without vectors the words alone decide."""
    shares = np.array([piece.share for piece in pieces], np.float32)
    lexical = LEXICAL * matching(question, pieces)
    if vector is None:
        return np.asarray(lexical + shares, np.float32)
    return np.asarray(cosines(vector, pieces) + lexical + shares, np.float32)


def cosines(vector: FloatArray, pieces: Sequence[Piece]) -> FloatArray:
    """Spread so that the smallest is 0 and the largest 1, since no embedder shares their range."""
    leaves = {piece.leaf.id: piece.leaf for piece in pieces}
    ids = list(leaves)
    starts = np.cumsum([0, *(len(leaves[i].sentences) for i in ids)])
    first = dict(zip(ids, starts.tolist(), strict=False))
    every = np.concatenate([own for i in ids if (own := leaves[i].vectors) is not None]) @ vector
    found = every[[first[piece.leaf.id] + piece.number for piece in pieces]]
    low, high = float(found.min()), float(found.max())
    return np.asarray((found - low) / (high - low) if high > low else np.ones_like(found), np.float32)


def matching(question: str, pieces: Sequence[Piece]) -> FloatArray:
    """Sum of idf(t) over the question's terms in the sentence and its headings, over the sum of all of them."""
    wanted = content_terms(question)
    finder = TermFinder(wanted)
    above: dict[tuple[str, ...], frozenset[str]] = {}
    holding = []
    for piece in pieces:
        headings = piece.leaf.headings
        if headings not in above:
            above[headings] = finder.find(" ".join(headings))
        holding.append(finder.find(piece.text) | above[headings])
    frequency = Counter(term for own in holding for term in own)
    # in a fixed order: sums of floats depend on it, and sets have none
    idf = {term: log(1 + len(pieces) / (1 + frequency[term])) for term in sorted(wanted)}
    total = sum(idf.values()) or 1.0
    return np.array([sum(idf[term] for term in idf if term in own) / total for own in holding], np.float32)


def smoothed(scores: FloatArray, places: Sequence[object]) -> FloatArray:
    """(1 - n) w(s) + n max(w(s-1), w(s+1)) over the neighbours of the same place; alone, w(s) stands."""
    blank = np.float32(-np.inf)
    same = np.array([a == b for a, b in pairwise(places)], bool)
    before, after = np.full_like(scores, blank), np.full_like(scores, blank)
    before[1:] = np.where(same, scores[:-1], blank)
    after[:-1] = np.where(same, scores[1:], blank)
    best = np.maximum(before, after)
    return np.where(np.isfinite(best), (1 - NEIGHBOUR) * scores + NEIGHBOUR * best, scores)


def whole(leaves: Sequence[LeafSentences], parts: Sequence[tuple[int, int]], score: float) -> Candidate:
    """A merged chunk as one candidate: its parts, each as long as the headings above it stand."""
    fragments: list[Fragment] = []
    for leaf in sorted(leaves, key=lambda x: x.start):
        for start, end in parts:
            if start < leaf.end and leaf.start < end:
                fragments.append(_fragment(leaf).cut(max(start, leaf.start), min(end, leaf.end)))
    return Candidate(tuple(fragment for fragment in fragments if fragment.visible[2]), score)


def sentences_of(
    leaves: Mapping[int, LeafSentences], ids: Sequence[int], parts: Sequence[tuple[int, int]]
) -> list[tuple[LeafSentences, int]]:
    """The sentences of these leaves that lie in the parts, in order."""
    return [
        (leaves[i], number)
        for i in ids
        if i in leaves
        for number, sentence in enumerate(leaves[i].sentences)
        if any(start <= sentence.start and sentence.end <= end for start, end in parts)
    ]


def _fragment(leaf: LeafSentences) -> Fragment:
    return Fragment(leaf.doc_id, leaf.title, leaf.headings, leaf.start, leaf.end, leaf.body, leaf.text)
