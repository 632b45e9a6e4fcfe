"""Markers by rules, without a model. They replace the paper's extractor and are recorded as `made="rules"`.

A value is a verbatim run of neighbouring sentences of one section. It has at most the length of the paper's values (50 to 65
tokens, Figure 5), and ends at a change of topic. A run that begins with a reference to earlier text includes the sentence before.
A list item, a row or code includes the sentence that introduces it (`text.units`). So values overlap. A key is the title and
headings, then the most informative sentence that rules can turn into a question (`question`), then salient phrases of the other
sentences. If no sentence gives a question, a key has only phrases, in any language. A model's key asks what a reader would ask.
These keys only repeat the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum, log, sqrt

from mergewise.designs.mrag.markers.grounding import ValueSentence
from mergewise.designs.mrag.markers.question import as_question
from mergewise.designs.mrag.markers.records import Draft
from mergewise.index.writing.segments import TextSegment
from mergewise.text.alignment import words
from mergewise.text.markup import readable, says_something
from mergewise.text.question import needs_previous
from mergewise.text.sections import heading_path
from mergewise.text.terms import STOP_WORDS, content_terms
from mergewise.types import GAP, DocumentRows

TOKENS = 64  # maximum tokens of a run, without sentences added from outside
CHANGED = 32  # minimum tokens of a run that a change of topic ends
LONGEST_KEY = 240  # maximum characters of a question or of phrases
PHRASES = 4
_LEAD_ROUNDS = 3
_LONGEST_PHRASE = 6  # words

_PHRASE_END = re.compile(r"(?<!\d)[^\w\s'’.&/-]|[^\w\s'’.&/-](?!\d)|(?<=\w)[.](?=\s|\Z)|\n")
_UNSPACED = re.compile(r"[぀-ヿ㐀-鿿가-힯\u0e00-\u0eff]")


@dataclass(frozen=True)
class _DocumentSentence:
    """A sentence of a document, with the white space `after` it."""

    start: int
    end: int
    after: str
    tokens: int
    headings: tuple[str, ...]
    segment: int
    lead: int | None  # number of the sentence that introduces it
    text: str

    @cached_property
    def plain(self) -> str:
        return readable(self.text)

    @cached_property
    def terms(self) -> frozenset[str]:
        return content_terms(self.plain)


def drafts(document: DocumentRows, segments: Sequence[TextSegment], most: int) -> list[Draft]:
    """Make markers that cover every segment with content, each with at most `most` segments."""
    sentences = _sentences(document, segments)
    weights = _Weights(sentences)
    title = document["leaf"][0].title if document["leaf"] else ""
    made: list[Draft] = []
    for run in _runs(sentences, most):
        # Add the leads of the run's sentences, and the sentence before a run that begins with a reference to it.
        needed = set(run)
        fresh: list[int] = list(run)
        for _ in range(_LEAD_ROUNDS):
            fresh = [lead for i in fresh if (lead := sentences[i].lead) is not None and lead not in needed]
            needed.update(fresh)
        opens, before = sentences[run[0]], run[0] - 1
        points_back = opens.lead is None and needs_previous(opens.plain.lstrip(), headed=False)
        if points_back and before >= 0 and sentences[before].headings == opens.headings:
            needed.add(before)
        numbers = sorted(needed)
        while len({sentences[i].segment for i in numbers}) > most:
            numbers = numbers[1:]  # drop a lead that is far away
        inside, own = [sentences[i] for i in numbers], [sentences[i] for i in run]
        # Every key of a section already has its heading.
        heading = words(readable(own[0].headings[-1])) if own[0].headings else None
        if not any(says_something(sentence.plain) and words(sentence.plain) != heading for sentence in own):
            continue
        value, placed = _value(inside)
        key = heading_path(title, own[0].headings) + "\n" + weights.key(own)
        segment_numbers = tuple(sorted({sentence.segment for sentence in inside}))
        made.append(Draft(key.strip(), value, segment_numbers, placed, "rules"))
    return made


# -- sentences, and runs of them


def _sentences(document: DocumentRows, segments: Sequence[TextSegment]) -> list[_DocumentSentence]:
    """List every sentence of the document with its segment and its lead."""
    text = document.document.text
    segment_of = {s.start: segment.number for segment in segments for s in segment.sentences}
    sentences: list[_DocumentSentence] = []
    first: list[int] = []  # number of the first sentence of each leaf
    for at, leaf in enumerate(document["leaf"]):
        first.append(len(sentences))
        leads = {lead.number: (lead.back, lead.of) for lead in leaf.leads}
        starts = [*(sentence.start for sentence in leaf.sentences[1:]), leaf.end]
        for number, ((start, end, tokens, *_), following) in enumerate(zip(leaf.sentences, starts, strict=False)):
            back, of = leads.get(number, (at + 1, 0))
            lead = first[at - back] + of if back <= at else None
            after = text[end:following]
            after = after if not after.strip() else ""
            sentences.append(
                _DocumentSentence(start, end, after, tokens, leaf.headings, segment_of[start], lead, text[start:end])
            )
    return sentences


def _runs(sentences: Sequence[_DocumentSentence], most: int) -> Iterator[list[int]]:
    """Yield runs of neighbouring sentences on one topic in one section, as numbers. A run has at most `most` segments."""
    run: list[int] = []
    for number in range(len(sentences)):
        if run and (
            sentences[number].segment - sentences[run[0]].segment >= most or _is_run_end(run, number, sentences)
        ):
            yield run
            run = []
        run.append(number)
    if run:
        yield run


def _is_run_end(run: Sequence[int], number: int, sentences: Sequence[_DocumentSentence]) -> bool:
    """Check whether the run ends before this sentence: a new section or topic begins, or the run is full."""
    sentence = sentences[number]
    tokens = sum(sentences[i].tokens for i in run)
    if sentences[run[-1]].headings != sentence.headings or tokens + sentence.tokens > TOKENS:
        return True
    if tokens < CHANGED or (sentence.lead is not None and sentence.lead >= run[0]):
        return False
    return not any(sentence.terms & sentences[i].terms for i in run) and not needs_previous(
        sentence.plain, headed=False
    )


def _value(inside: Sequence[_DocumentSentence]) -> tuple[str, tuple[ValueSentence, ...]]:
    """Join the sentences, with a mark for omitted sentences.

    The white space after the last sentence is kept, so that adjacent values can be joined.
    """
    value = ""
    placed: list[ValueSentence] = []
    for number, sentence in enumerate(inside):
        start = len(value)
        value += sentence.text
        placed.append(ValueSentence(start, len(value), ((sentence.start, sentence.end),)))
        touches = number + 1 == len(inside) or sentence.end + len(sentence.after) == inside[number + 1].start
        value += sentence.after if touches else GAP
    return value, tuple(placed)


# -- keys


class _Weights:
    """Weights of the words of a document. Rare words weigh more."""

    def __init__(self, sentences: Sequence[_DocumentSentence]) -> None:
        self._total = len(sentences)
        self._holding = Counter(term for sentence in sentences for term in sentence.terms)

    def key(self, run: Sequence[_DocumentSentence]) -> str:
        """Build a key: a question from the sentence with the highest weight, and salient phrases of the others."""
        ranked = sorted(run, key=lambda sentence: -self.of(sentence.terms))
        for sentence in ranked:
            asked = as_question(sentence.plain.strip())
            if asked is not None and len(asked) <= LONGEST_KEY:
                others = [other for other in ranked if other is not sentence]
                return f"{asked} {self._phrases(others)}".strip() if others else asked
        return self._phrases(ranked)

    def of(self, terms: frozenset[str]) -> float:
        return fsum(log(1 + self._total / max(1, self._holding[t])) for t in terms) / sqrt(max(1, len(terms)))

    def _phrases(self, ranked: Sequence[_DocumentSentence]) -> str:
        """Choose the phrases with the highest weights."""
        found: dict[str, float] = {}
        for number, sentence in enumerate(ranked):
            for phrase in _phrases_of(sentence.plain):
                found.setdefault(phrase, self.of(content_terms(phrase)) / (1 + 0.2 * number))
        chosen: list[str] = []
        size = 0
        for phrase in sorted(found, key=lambda phrase: -found[phrase]):
            lowered = phrase.lower()
            if (
                len(chosen) < PHRASES
                and size + len(phrase) <= LONGEST_KEY
                and not any(lowered in c.lower() for c in chosen)
            ):
                chosen.append(phrase)
                size += len(phrase)
        return ", ".join(chosen) or ranked[0].plain.strip()[:LONGEST_KEY]


def _phrases_of(text: str) -> Iterator[str]:
    """Yield runs of up to six words without a stop word or punctuation. Scripts without spaces are split by clause."""
    for clause in filter(None, map(str.strip, _PHRASE_END.split(text))):
        if _UNSPACED.search(clause):
            yield clause[:80]
            continue
        run: list[str] = []
        for word in [*clause.split(), ""]:
            if word and word.lower() not in STOP_WORDS and len(run) < _LONGEST_PHRASE:
                run.append(word)
                continue
            if run:
                yield " ".join(run)
            run = [word] if word and word.lower() not in STOP_WORDS else []
