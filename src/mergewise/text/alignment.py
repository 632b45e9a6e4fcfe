"""Alignment of a sentence by a model with the source sentences that support it, and a measure of the support.

    aligner = Aligner(sentences_at(document.text, Span(document.id, 0, len(document.text))))
    alignment = aligner.align("The default timeout is five seconds.")
    alignment.support, alignment.supported, alignment.spans

The support by a source is the mean of two shares: the share of the sentence's words that the source has, and the share of its
pairs of neighbouring words. A repeated word must be repeated in the source too. A verbatim copy has support 1, whatever its
case, punctuation and white space. The same words in another order keep the first share and lose the second. One word can
reverse the meaning of a sentence. So the support is halved by a number or negation that the source lacks, and by a capitalised
word that all sources lack. (For such a word any source will do: a name often replaces the pronoun of its source.) Sources are
single sentences and pairs of neighbouring sentences of a document, since models join sentences, and a text may be split into
sentences in more than one way.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from mergewise.text.sentences import split_sentences
from mergewise.types import Span

SUPPORTED = 0.6

TOKEN = re.compile(r"[぀-ヿ㐀-鿿가-힯]|[^\W_぀-ヿ㐀-鿿가-힯]+")
NEGATIONS = frozenset("no not never none nor neither without cannot".split())


class SourceSentence(NamedTuple):
    """A sentence of a document, `text` at `span`."""

    text: str
    span: Span


class Alignment(NamedTuple):
    """The one or two `sources` that support a sentence best, and the support. `sources` is empty if no source shares a word."""

    sources: tuple[SourceSentence, ...]
    support: float  # in [0, 1]

    @property
    def supported(self) -> bool:
        return self.support >= SUPPORTED

    @property
    def spans(self) -> tuple[Span, ...]:
        return tuple(source.span for source in self.sources)


def sentences_at(text: str, span: Span) -> list[SourceSentence]:
    """Split `text`, which begins at `span.start` of its document, into sentences."""
    return [
        SourceSentence(text[start:end], Span(span.doc_id, span.start + start, span.start + end))
        for start, end in split_sentences(text)
    ]


class Aligner:
    """An aligner of sentences with `sources`, which must be in the order of their documents, so that neighbours are adjacent."""

    def __init__(self, sources: Sequence[SourceSentence]) -> None:
        neighbours = (
            (first, second)
            for first, second in pairwise(sources)
            if first.span.doc_id == second.span.doc_id and first.span.end <= second.span.start
        )
        self._candidates = [*((source,) for source in sources), *neighbours]
        self._postings: dict[_Term, list[tuple[int, int]]] = defaultdict(list)
        self._turning: list[frozenset[str]] = []  # for each candidate, the words that can reverse a sentence
        read = {id(source): words(source.text) for source in sources}
        self._vocabulary = {word for tokens in read.values() for word in tokens}
        for number, candidate in enumerate(self._candidates):
            tokens = [word for source in candidate for word in read[id(source)]]
            self._turning.append(frozenset(filter(_can_reverse, tokens)))
            for term, count in _terms(tokens).items():
                self._postings[term].append((number, count))

    def align(self, sentence: str) -> Alignment:
        """Return the source that supports the sentence best. A sentence without words has support 1 and no source."""
        tokens = words(sentence)
        if not tokens:
            return Alignment((), 1.0)
        best, support = None, 0.0
        turning = [word for word in tokens if _can_reverse(word)]
        for number, share in self._shares(tokens):
            if share <= support:
                break  # the shares come in falling order, and halving only lowers them
            lacking = turning and not self._turning[number].issuperset(turning)
            if (halved := share / 2 if lacking else share) > support:
                best, support = number, halved
        # The capitalised words, except the first word, which is always capitalised.
        later = TOKEN.findall(unicodedata.normalize("NFKC", sentence))[1:]
        if not {word.casefold() for word in later if word[0].isupper()} <= self._vocabulary:
            support /= 2
        return Alignment(() if best is None else self._candidates[best], support)

    def _shares(self, tokens: Sequence[str]) -> list[tuple[int, float]]:
        """Return the candidates that share a word with the sentence, with the mean of both shares, best first."""
        singles: Counter[int] = Counter()
        pairs: Counter[int] = Counter()
        for term, count in _terms(tokens).items():
            shared = pairs if isinstance(term, tuple) else singles
            for number, occurrences in self._postings.get(term, ()):
                shared[number] += min(count, occurrences)
        if len(tokens) == 1:
            return sorted(singles.items(), key=lambda pair: (-pair[1], pair[0]))
        shares = ((n, (count / len(tokens) + pairs[n] / (len(tokens) - 1)) / 2) for n, count in singles.items())
        return sorted(shares, key=lambda pair: (-pair[1], pair[0]))


_Term = str | tuple[str, str]


def words(text: str) -> list[str]:
    """Return the words, case-folded and normalised, or single characters in scripts without spaces."""
    return TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())


def _terms(tokens: Sequence[str]) -> Counter[_Term]:
    """Count each word, and each pair of neighbouring words."""
    return Counter([*tokens, *pairwise(tokens)])


def _can_reverse(word: str) -> bool:
    return word in NEGATIONS or any(character.isdigit() for character in word)
