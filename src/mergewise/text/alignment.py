"""Alignment: which sentence of the sources supports a sentence that a model wrote, and how well.

    aligner = Aligner(sentences_at(document.text, Span(document.id, 0, len(document.text))))
    alignment = aligner.align("The default timeout is five seconds.")
    alignment.support, alignment.supported, alignment.spans

The support that a source gives a sentence is the mean of two shares: the share of the sentence's words that the source
has, and the share of its pairs of neighbouring words. (A word that comes twice must come twice in the source.) A verbatim
copy has support 1, whatever its case, punctuation and white space; the same words in another order keep the first share
and lose the second. One word can turn a sentence around, so the support is halved by a number or a negation that the
source does not have, and by a capitalised word that no source has (one of them may well have it: a name often stands for
the pronoun of its source). Sources are single sentences and pairs of neighbouring sentences of a document, since models
join sentences, and a text may be split into sentences in more than one way.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mergewise.text.sentences import split_sentences
from mergewise.types import Span

SUPPORTED = 0.6

TOKEN = re.compile(r"[぀-ヿ㐀-鿿가-힯]|[^\W_぀-ヿ㐀-鿿가-힯]+")
NEGATIONS = frozenset("no not never none nor neither without cannot".split())


@dataclass(frozen=True, slots=True)
class SourceSentence:
    """A sentence of a document: `text` is what stands at `span`."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Alignment:
    """`sources` are the one or two sentences that support a sentence best; none where no source shares a word with it."""

    sources: tuple[SourceSentence, ...]
    support: float  # in [0, 1]

    @property
    def supported(self) -> bool:
        return self.support >= SUPPORTED

    @property
    def spans(self) -> tuple[Span, ...]:
        return tuple(source.span for source in self.sources)


def sentences_at(text: str, span: Span) -> list[SourceSentence]:
    """The sentences of `text`, which begins at `span.start` of its document."""
    return [
        SourceSentence(text[start:end], Span(span.doc_id, span.start + start, span.start + end))
        for start, end in split_sentences(text)
    ]


class Aligner:
    """Aligns sentences to `sources`, which are in the order of their documents, so that neighbours stand side by side."""

    def __init__(self, sources: Sequence[SourceSentence]) -> None:
        neighbours = (
            (first, second)
            for first, second in pairwise(sources)
            if first.span.doc_id == second.span.doc_id and first.span.end <= second.span.start
        )
        self._candidates = [*((source,) for source in sources), *neighbours]
        self._postings: dict[_Term, list[tuple[int, int]]] = defaultdict(list)
        self._turning: list[frozenset[str]] = []  # of each candidate the words that can turn a sentence around
        read = {id(source): words(source.text) for source in sources}
        self._vocabulary = {word for said in read.values() for word in said}
        for number, candidate in enumerate(self._candidates):
            said = [word for source in candidate for word in read[id(source)]]
            self._turning.append(frozenset(filter(_turns, said)))
            for term, count in _terms(said).items():
                self._postings[term].append((number, count))

    def align(self, sentence: str) -> Alignment:
        """The source that supports the sentence best. A sentence without words claims nothing: it has support 1 and no source."""
        said = words(sentence)
        if not said:
            return Alignment((), 1.0)
        best, support = None, 0.0
        turning = [word for word in said if _turns(word)]
        for number, share in self._shares(said):
            if share <= support:
                break  # the shares come in falling order, and halving only lowers them
            lacking = turning and not self._turning[number].issuperset(turning)
            if (halved := share / 2 if lacking else share) > support:
                best, support = number, halved
        if not _names(sentence) <= self._vocabulary:
            support /= 2
        return Alignment(() if best is None else self._candidates[best], support)

    def _shares(self, said: Sequence[str]) -> list[tuple[int, float]]:
        """The candidates that share a word with the sentence, and their mean of both shares, best first."""
        singles: Counter[int] = Counter()
        pairs: Counter[int] = Counter()
        for term, count in _terms(said).items():
            shared = pairs if isinstance(term, tuple) else singles
            for number, occurrences in self._postings.get(term, ()):
                shared[number] += min(count, occurrences)
        if len(said) == 1:
            return sorted(singles.items(), key=lambda pair: (-pair[1], pair[0]))
        shares = ((n, (count / len(said) + pairs[n] / (len(said) - 1)) / 2) for n, count in singles.items())
        return sorted(shares, key=lambda pair: (-pair[1], pair[0]))


_Term = str | tuple[str, str]


def words(text: str) -> list[str]:
    """The words, case-folded and in one form of each character; in scripts without spaces, the single characters."""
    return TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())


def _names(sentence: str) -> set[str]:
    """The capitalised words, without the first word, which begins with a capital anyway."""
    later = TOKEN.findall(unicodedata.normalize("NFKC", sentence))[1:]
    return {word.casefold() for word in later if word[0].isupper()}


def _terms(said: Sequence[str]) -> Counter[_Term]:
    """How often each word comes, and each pair of neighbouring words."""
    return Counter([*said, *pairwise(said)])


def _turns(word: str) -> bool:
    return word in NEGATIONS or any(character.isdigit() for character in word)
