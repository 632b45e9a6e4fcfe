"""Single sentences as strategies see them: each by its leaf and its number in it; and the idf of terms."""

from __future__ import annotations

import math
from typing import NamedTuple

from mergewise.assemble.fragments import Fragment, SectionKey
from mergewise.types import Leaf, LeafSentences, Sentence, Span


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
        return self.leaf.doc_id, self.leaf.headings

    @property
    def span(self) -> Span:
        return Span(self.leaf.doc_id, self.sentence.start, self.sentence.end)

    @property
    def fragment(self) -> Fragment:
        """The sentence with the white space up to the next one, so that neighbours join."""
        return fragment_at(self.leaf, self.number)

    @property
    def headed_fragment(self) -> Fragment:
        """`fragment`, but a leaf's first sentence has the headings before it too, so that it joins the leaf before."""
        start = self.leaf.start if self.number == 0 else self.sentence.start
        return leaf_fragment(self.leaf).cut(start, _next_start(self.leaf, self.number))


def leaf_fragment(leaf: LeafSentences | Leaf) -> Fragment:
    return Fragment(leaf.doc_id, leaf.title, leaf.headings, leaf.start, leaf.end, leaf.body, leaf.text)


def fragment_at(leaf: LeafSentences | Leaf, number: int) -> Fragment:
    """A sentence of a leaf with the white space up to the next one, so that neighbours join."""
    return leaf_fragment(leaf).cut(leaf.sentences[number].start, _next_start(leaf, number))


def _next_start(leaf: LeafSentences | Leaf, number: int) -> int:
    """Where the next sentence of the leaf begins, or the leaf ends."""
    following = leaf.sentences[number + 1 : number + 2]
    return following[0].start if following else leaf.end


def inverse_frequency(holding: int, total: int) -> float:
    """BM25's idf of a term that stands in `holding` of `total` texts, in Lucene's form, which is never negative."""
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))
