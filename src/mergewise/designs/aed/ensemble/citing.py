"""Citations of a short answer. Streams write no marks, so the answer is matched with the sentences of the sources.

A sentence of the answer cites the source sentence with most of its words, at least half of them. Ties go to the sentence with
most words of the question. The model's own background is never cited. The numbers are appended to the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mergewise.generate.citations import Claims, Locator
from mergewise.generate.sources import DocumentLookup, Source
from mergewise.text.alignment import SourceSentence, sentences_at
from mergewise.text.sentences import split_sentences
from mergewise.text.support.judge import ENOUGH
from mergewise.text.terms import content_terms
from mergewise.types import Citation


@dataclass(frozen=True, slots=True)
class AnswerGrounding:
    """Support of an answer: its citations, its sentences without support, and the number of sentences that were checked."""

    citations: tuple[Citation, ...]
    unverified: tuple[str, ...]
    judged: int

    @property
    def marks(self) -> str:
        """Marks to append to the answer."""
        numbers = dict.fromkeys(citation.number for citation in self.citations)
        return " " + "".join(f"[{number}]" for number in numbers) if numbers else ""

    @property
    def unsupported(self) -> float | None:
        return len(self.unverified) / self.judged if self.judged else None


def ground(text: str, question: str, sources: Sequence[Source], document: DocumentLookup) -> AnswerGrounding:
    claims, locator = Claims(sources), Locator(document)
    known = list(_source_sentences(sources))
    asked = content_terms(question)
    citations: dict[tuple[int, object], Citation] = {}
    unverified: list[str] = []
    judged = 0
    for start, end in split_sentences(text):
        stated = text[start:end]
        found = _best(content_terms(stated), asked, known)
        if found is not None:
            number, sentence = found
            citations.setdefault((number, sentence.span), locator.citation(number, sentence.text, sentence.span))
        supported = claims.is_supported(stated, () if found is None else (found[0],))
        judged += supported is not None
        if supported is False:
            unverified.append(stated)
    return AnswerGrounding(tuple(citations.values()), tuple(unverified), judged)


_Known = tuple[int, SourceSentence, frozenset[str]]


def _source_sentences(sources: Sequence[Source]) -> Iterator[_Known]:
    for source in sources:
        for span, part in source.parts:
            for sentence in sentences_at(part, span):
                yield source.number, sentence, content_terms(sentence.text)


def _best(stated: frozenset[str], asked: frozenset[str], known: Sequence[_Known]) -> tuple[int, SourceSentence] | None:
    if not stated or not known:
        return None
    number, sentence, terms = max(known, key=lambda one: (len(stated & one[2]), len(asked & one[2])))
    return (number, sentence) if len(stated & terms) >= ENOUGH * len(stated) else None
