"""Single sentences for strategies, by leaf and position, and the idf of terms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from mergewise.assemble.fragments import Fragment, SectionKey
from mergewise.protocols import FloatArray
from mergewise.text.sections import heading_path
from mergewise.types import Leaf, LeafSentences, Part, Sentence, Span


class SentenceInLeaf(NamedTuple):
    """The sentence at position `number` of a leaf."""

    leaf: LeafSentences
    number: int

    @property
    def sentence(self) -> Sentence:
        return self.leaf.sentences[self.number]

    @property
    def text(self) -> str:
        leaf, sentence = self.leaf, self.sentence
        return leaf.text[sentence.start - leaf.start : sentence.end - leaf.start]

    @property
    def tokens(self) -> int:
        return self.sentence.tokens

    @property
    def section(self) -> SectionKey:
        return section_of(self.leaf)

    @property
    def span(self) -> Span:
        return Span(self.leaf.doc_id, self.sentence.start, self.sentence.end)

    @property
    def below_path(self) -> str:
        """The sentence below its title and headings, as a reranker reads it."""
        path = heading_path(self.leaf.title, self.leaf.headings)
        return f"{path}\n{self.text}" if path else self.text

    @property
    def fragment(self) -> Fragment:
        """The sentence with the white space up to the next one, so that neighbours join."""
        return fragment_at(self.leaf, self.number)

    @property
    def bare_fragment(self) -> Fragment:
        """The sentence alone."""
        return leaf_fragment(self.leaf).cut(self.sentence.start, self.sentence.end)

    @property
    def headed_fragment(self) -> Fragment:
        """The `fragment`, extended to the leaf's start for its first sentence, so that it joins the leaf before."""
        start = self.leaf.start if self.number == 0 else self.sentence.start
        return leaf_fragment(self.leaf).cut(start, next_start(self.leaf, self.number))


def section_of(leaf: LeafSentences) -> SectionKey:
    return leaf.doc_id, leaf.headings


def sentence_vectors(leaves: Sequence[LeafSentences]) -> FloatArray | None:
    """Return the vectors of all sentences, (sentences, dimension), with zeros for leaves that are not embedded yet.

    Returns None if no leaf has vectors.
    """
    known = next((leaf.vectors for leaf in leaves if leaf.vectors is not None), None)
    if known is None:
        return None
    nothing = np.zeros((1, known.shape[1]), np.float32)
    return np.concatenate(
        [nothing.repeat(len(leaf.sentences), axis=0) if leaf.vectors is None else leaf.vectors for leaf in leaves]
    )


def sentence_cosines(leaves: Sequence[LeafSentences], question: FloatArray | None) -> FloatArray:
    """Return the cosines of all sentences with the question. Sentences that are not embedded yet have NaN."""
    waits = np.repeat([leaf.vectors is None for leaf in leaves], [len(leaf.sentences) for leaf in leaves])
    vectors = sentence_vectors(leaves)
    if question is None or vectors is None:
        return np.full(len(waits), np.nan, np.float32)
    # Not a matrix product: waking the threads of BLAS would cost more.
    return np.where(waits, np.float32(np.nan), np.einsum("ij,j->i", vectors, question))


def neutral(cosines: FloatArray) -> FloatArray:
    """Replace NaN by the mean of the other cosines, or by 0 if all are missing."""
    waits = np.isnan(cosines)
    return np.where(waits, 0.0 if waits.all() else cosines[~waits].mean(), cosines)


def leaf_fragment(leaf: LeafSentences | Leaf) -> Fragment:
    return Fragment(leaf.doc_id, leaf.title, leaf.headings, leaf.start, leaf.end, leaf.body, leaf.text)


def fragments_within(leaves: Iterable[LeafSentences | Leaf], parts: Sequence[Part]) -> tuple[Fragment, ...]:
    """Return the text of the leaves within these parts of their document, a fragment for each leaf and part.

    Headings may change between leaves.
    """
    fragments = (
        leaf_fragment(leaf).cut(max(start, leaf.start), min(end, leaf.end))
        for leaf in leaves
        for start, end in parts
        if start < leaf.end and leaf.start < end
    )
    return tuple(fragment for fragment in fragments if fragment.visible[2])


def fragment_at(leaf: LeafSentences | Leaf, number: int) -> Fragment:
    """Return a sentence of a leaf with the white space up to the next one, so that neighbours join."""
    return leaf_fragment(leaf).cut(leaf.sentences[number].start, next_start(leaf, number))


def next_start(leaf: LeafSentences | Leaf, number: int) -> int:
    """Return the start of the next sentence of the leaf, or the end of the leaf."""
    following = leaf.sentences[number + 1 : number + 2]
    return following[0].start if following else leaf.end


def inverse_frequency(holding: int, total: int) -> float:
    """Return BM25's idf of a term in `holding` of `total` texts, in Lucene's form, which is never negative."""
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))
