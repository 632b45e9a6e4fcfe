"""Which sentence of the sources a written sentence rests on, and how far: how text that a model wrote is held to its sources.

    aligner = Aligner([s for passage in passages for s in sentences_of(passage)])
    alignment = aligner.align("The default timeout is five seconds.")
    alignment.support, alignment.supported, alignment.spans

Support is the mean of two shares: of the sentence's words and of its pairs of neighbouring words, those that the source
has too, each as often as there. A verbatim copy has 1, whatever its case, punctuation and white space; words in another
order keep their own share but lose that of the pairs. One word is enough to turn a sentence around, so the support is
halved by a figure or a negation that the source does not have, and by a capitalised word that no source has at all (a
name may well stand for the pronoun of its source). Sources are single sentences, and pairs of neighbours in one document,
since a model likes to join them and sentences may be split in different places.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mergewise.text.sentences import split_sentences
from mergewise.types import Passage, Span

SUPPORTED = 0.6

_WORD = re.compile(r"[぀-ヿ㐀-鿿가-힯]|[^\W_぀-ヿ㐀-鿿가-힯]+")
_NEGATIONS = frozenset("no not never none nor neither without cannot".split())


@dataclass(frozen=True, slots=True)
class SourceSentence:
    """A sentence of a document: `text` is what stands at `span`."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Alignment:
    """`sources` are the one or two sentences that support a sentence best, none where they share no word with it."""

    sources: tuple[SourceSentence, ...]
    support: float  # in [0, 1]

    @property
    def supported(self) -> bool:
        return self.support >= SUPPORTED

    @property
    def spans(self) -> tuple[Span, ...]:
        return tuple(source.span for source in self.sources)


def sentences_of(passage: Passage) -> list[SourceSentence]:
    """The sentences of a verbatim passage, each where it stands in its document."""
    return [sentence for span, text in passage.parts() for sentence in sentences_at(text, span)]


def sentences_at(text: str, span: Span) -> list[SourceSentence]:
    """The sentences of `text`, which begins at `span.start` of its document."""
    return [
        SourceSentence(text[start:end], Span(span.doc_id, span.start + start, span.start + end))
        for start, end in split_sentences(text)
    ]


class Aligner:
    """Aligns sentences to `sources`, which are in the order of their documents, so that neighbours stand side by side."""

    def __init__(self, sources: Sequence[SourceSentence]) -> None:
        self._candidates = [*((source,) for source in sources), *_neighbours(sources)]
        self._postings: dict[_Term, list[tuple[int, int]]] = defaultdict(list)
        self._vocabulary = {word for source in sources for word in words(source.text)}
        for number, candidate in enumerate(self._candidates):
            for term, count in _terms([word for s in candidate for word in words(s.text)]).items():
                self._postings[term].append((number, count))

    def align(self, sentence: str) -> Alignment:
        """The best source of the sentence. A sentence without words claims nothing: its support is 1, by no source."""
        said = words(sentence)
        if not said:
            return Alignment((), 1.0)
        best, support = None, 0.0
        turning = [word for word in said if _turns(word)]
        for number, share in self._shares(said):
            if share <= support:
                break  # the shares fall, and nothing raises them
            lacking = turning and not self._words(number).issuperset(turning)
            if (halved := share / 2 if lacking else share) > support:
                best, support = number, halved
        if not _names(sentence) <= self._vocabulary:
            support /= 2
        return Alignment(() if best is None else self._candidates[best], support)

    def _shares(self, said: Sequence[str]) -> list[tuple[int, float]]:
        """The candidates that share a word with the sentence, by the mean of both shares, best first."""
        singles: Counter[int] = Counter()
        pairs: Counter[int] = Counter()
        for term, count in _terms(said).items():
            found = pairs if isinstance(term, tuple) else singles
            for number, there in self._postings.get(term, ()):
                found[number] += min(count, there)
        if len(said) == 1:
            return sorted(singles.items(), key=lambda s: (-s[1], s[0]))
        shares = ((n, (count / len(said) + pairs[n] / (len(said) - 1)) / 2) for n, count in singles.items())
        return sorted(shares, key=lambda s: (-s[1], s[0]))

    def _words(self, number: int) -> set[str]:
        return {word for source in self._candidates[number] for word in words(source.text)}


_Term = str | tuple[str, str]


def words(text: str) -> list[str]:
    """Words without case, punctuation and forms of the same character; of scripts that put no spaces, characters."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _names(sentence: str) -> set[str]:
    """Capitalised words, but for the first one, which is capital anyway."""
    found = _WORD.findall(unicodedata.normalize("NFKC", sentence))[1:]
    return {word.casefold() for word in found if word[0].isupper()}


def _terms(said: Sequence[str]) -> Counter[_Term]:
    """Words and pairs of neighbouring words, with how often they come."""
    return Counter([*said, *pairwise(said)])


def _turns(word: str) -> bool:
    return word in _NEGATIONS or any(character.isdigit() for character in word)


def _neighbours(sources: Sequence[SourceSentence]) -> Iterator[tuple[SourceSentence, SourceSentence]]:
    for first, second in pairwise(sources):
        if first.span.doc_id == second.span.doc_id and first.span.end <= second.span.start:
            yield first, second
