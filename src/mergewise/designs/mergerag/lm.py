"""A small language model of an anchor's words, which measures how surprising a source is to a reader of the anchor.

It approximates L_NLL(c_source | c_anchor) of MergeRAG (Guo et al., section 3.3). A causal model estimates it better, and about
a hundred thousand times slower. Unigrams of the anchor are smoothed by the corpus (Zhai and Lafferty 2004, Dirichlet prior),
and bigrams by the unigrams (MacKay and Peto 1995):

    P(w | a)    = (n_a(w) + mu P(w | C)) / (|a| + mu)
    P(w | v, a) = (n_a(v w) + nu P(w | a)) / (n_a(v) + nu),    n_a(v) = sum over w of n_a(v w)
    L(s | a)    = -1/|s| (log P(s_1 | a) + sum over t > 1 of log P(s_t | s_{t-1}, a))

in nats a word. Words are lower-cased runs of letters and digits, stop words included. Terms that depend on source and anchor
together are summed by products of sparse matrices, over the words and the bigrams that both have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np

from mergewise.protocols import DoubleArray, FloatArray, IntArray
from mergewise.text.terms import WORD
from mergewise.types import frozen

# Weight of the corpus in the smoothing of unigrams, in words.
MU = 100.0
NU = 10.0
# Occurrences of a word that the corpus sample lacks.
UNSEEN = 0.5

_WORD = re.compile(WORD)


@lru_cache(4096)
def words_of(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.lower()))


def corpus_words(texts: Sequence[str]) -> Counter[str]:
    """Count the words of these texts, which replace a corpus."""
    return Counter(word for text in texts for word in words_of(text))


def probabilities(corpus: Counter[str], words: Sequence[str]) -> DoubleArray:
    """Return P(w | C) of the words in a corpus, or in a sample of it, add-half smoothed, so that no word is impossible."""
    occurrences = np.array([corpus[word] for word in words], np.float64)
    return (occurrences + UNSEEN) / (corpus.total() + UNSEEN * (len(corpus) + 1))


@frozen
class WordModel:
    """An `NLLScorer` that needs no model."""

    spec: ClassVar[str] = "lm"

    background: Counter[str]
    mu: float = MU
    nu: float = NU

    def nll(self, sources: Sequence[str], anchors: Sequence[str]) -> FloatArray:
        """Return L(s | a) for each pair, shape (len(sources), len(anchors)), 0 for a source without words."""
        if not sources or not anchors:
            return np.zeros((len(sources), len(anchors)), np.float32)
        vocabulary: dict[str, int] = {}
        numbered = {
            text: np.array([vocabulary.setdefault(word, len(vocabulary)) for word in words_of(text)], np.int64)
            for text in (*sources, *anchors)
        }
        texts = list(numbered)
        s = np.array([texts.index(text) for text in sources])
        a = np.array([texts.index(text) for text in anchors])
        p = probabilities(self.background, list(vocabulary))
        ids = list(numbered.values())
        lengths = np.array([len(text) for text in ids])
        n = _counts(ids, len(p))
        total = self._unigrams(n, lengths, p, s, a) + self._bigrams(ids, n, lengths, p, s, a)
        mean: FloatArray = (-total / np.maximum(lengths[s], 1)[:, None]).astype(np.float32)
        return mean

    def _unigrams(self, n: FloatArray, lengths: IntArray, p: DoubleArray, s: IntArray, a: IntArray) -> FloatArray:
        """Return sum over w of n_s(w) log P(w | a): log mu P(w | C) for every word, and more for the anchor's words."""
        gain = np.zeros_like(n)
        row, word = np.nonzero(n)
        gain[row, word] = np.log1p(n[row, word] / (self.mu * p[word]))
        without = np.einsum("sw,w->s", n, np.log(self.mu * p).astype(np.float32))
        sums: FloatArray = without[s, None] + _products(n[s], gain[a])
        sums -= lengths[s, None] * np.log(lengths[a] + self.mu)
        return sums

    def _bigrams(
        self, ids: Sequence[IntArray], n: FloatArray, lengths: IntArray, p: DoubleArray, s: IntArray, a: IntArray
    ) -> FloatArray:
        """Return the change by bigrams: log nu / (n_a(v) + nu) for every context, and more if the anchor has the bigram."""
        size = len(p)
        before = _counts([text[:-1] for text in ids], size)
        followed = np.log(self.nu / (before + self.nu))
        pairs = [text[:-1] * size + text[1:] for text in ids]
        distinct, numbers = np.unique(np.concatenate(pairs), return_inverse=True)
        n_pairs = _counts(np.split(numbers, np.cumsum([len(text) for text in pairs])[:-1]), len(distinct))
        row, pair = np.nonzero(n_pairs)
        words = distinct[pair] % max(1, size)
        p_unigram = (n[row, words] + self.mu * p[words]) / (lengths[row] + self.mu)
        gain = np.zeros_like(n_pairs)
        gain[row, pair] = np.log1p(n_pairs[row, pair] / (self.nu * p_unigram))
        return _products(before[s], followed[a]) + _products(n_pairs[s], gain[a])


def _products(n_s: FloatArray, gain: FloatArray) -> FloatArray:
    """Return n_s @ gain.T. Most columns have one entry in each matrix: these are added one by one, the others multiplied.

    `einsum` starts no threads: on busy cores, those of a BLAS cost more than such small products.
    """
    in_s, in_a = np.count_nonzero(n_s, axis=0), np.count_nonzero(gain, axis=0)
    single = np.flatnonzero((in_s == 1) & (in_a == 1))
    several = np.flatnonzero((in_s > 0) & (in_a > 0) & (in_s + in_a > 2))
    sums: FloatArray = np.einsum("sw,aw->sa", n_s[:, several], gain[:, several])
    row, column = np.abs(n_s[:, single]).argmax(axis=0), np.abs(gain[:, single]).argmax(axis=0)
    np.add.at(sums, (row, column), n_s[row, single] * gain[column, single])
    return sums


def _counts(texts: Sequence[IntArray], size: int) -> FloatArray:
    """Count how often each text holds each id, shape (len(texts), size)."""
    flat = np.concatenate([ids + number * size for number, ids in enumerate(texts)])
    return np.bincount(flat, minlength=len(texts) * size).reshape(len(texts), size).astype(np.float32)
