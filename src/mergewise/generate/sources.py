"""What a model is given to read: the passages of a context, or the documents that they come from.

Where the documents are more than the model's window has room for, each is what stands around the passages: the passages
themselves first, then sentence by sentence outwards from them. What does not fit is left out whole, worst first; no
passage and no sentence is cut.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from mergewise.text.keys import PATH_MARK
from mergewise.text.sentences import split_sentences
from mergewise.types import GAP, Context, Document, Passage, Span

DocumentLookup = Callable[[str], Document | None]

# Characters a token, generously: what lies farther from a passage would not fit anyway.
_REACH = 8


@dataclass(frozen=True, slots=True)
class Source:
    """A numbered text for a model. `parts` are the pieces of documents that it rests on: an answer's marks lead there."""

    mark: int
    title: str
    headings: tuple[str, ...]
    text: str
    parts: tuple[tuple[Span, str], ...]
    score: float

    @property
    def place(self) -> str:
        return PATH_MARK.join(part for part in (self.title, *self.headings) if part)


Measure = Callable[[Sequence[Source]], list[int]]
"""Tokens of each source as it will be shown."""


def base_sources(context: Context, document: DocumentLookup) -> list[Source]:
    """The passages, numbered as in the context."""
    return [
        Source(mark, p.title, p.headings, p.text, tuple(_parts(p, document)), p.score)
        for mark, p in enumerate(context.passages, 1)
    ]


def _parts(passage: Passage, document: DocumentLookup) -> Iterator[tuple[Span, str]]:
    if passage.verbatim:
        yield from passage.parts()
        return
    for span in passage.spans:
        found = document(span.doc_id)
        if found is not None:
            yield span, found.text[span.start : span.end]


def fit(sources: Sequence[Source], room: int, measure: Measure) -> list[Source]:
    """The best sources that fit together, in the order given; one that is too long is skipped."""
    costs = measure(sources)
    kept: set[int] = set()
    for i in sorted(range(len(sources)), key=lambda i: -sources[i].score):
        if costs[i] <= room:
            room -= costs[i]
            kept.add(i)
    return [source for i, source in enumerate(sources) if i in kept]


def long_sources(context: Context, document: DocumentLookup, room: int, measure: Measure) -> list[Source]:
    """The documents of the passages, by their best passage; whole where all of them fit together."""
    documents = _documents(context, document)
    whole = [_whole(number, d) for number, d in enumerate(documents, 1)]
    if sum(len(source.text) for source in whole) <= room * _REACH and sum(measure(whole)) <= room:
        return whole
    return _around(documents, room, measure)


def each_long_source(context: Context, document: DocumentLookup, room: int, measure: Measure) -> list[Source]:
    """The same for documents that are read one by one: each has all the room."""
    sources: list[Source] = []
    for number, found in enumerate(_documents(context, document), 1):
        whole = _whole(number, found)
        fits = len(whole.text) <= room * _REACH and measure([whole])[0] <= room
        sources += [whole] if fits else [replace(s, mark=number) for s in _around([found], room, measure)]
    return sources


def batches(sources: Sequence[Source], room: int, measure: Measure) -> list[list[Source]]:
    """Consecutive sources that fit into one call together, in as few calls as that takes."""
    groups: list[list[Source]] = []
    left = 0
    for source, cost in zip(sources, measure(sources), strict=True):
        if not groups or cost > left:
            groups.append([])
            left = room
        groups[-1].append(source)
        left -= cost
    return groups


@dataclass(frozen=True, slots=True)
class _Found:
    """A document with the spans in it that were retrieved, best first."""

    document: Document
    hits: tuple[tuple[float, tuple[Span, ...]], ...]  # one entry a passage: its score, and its spans in this document

    @property
    def score(self) -> float:
        return self.hits[0][0]


def _documents(context: Context, document: DocumentLookup) -> list[_Found]:
    hits: dict[str, list[tuple[float, tuple[Span, ...]]]] = {}
    for passage in sorted(context.passages, key=lambda p: -p.score):
        for doc_id in dict.fromkeys(span.doc_id for span in passage.spans):
            spans = tuple(span for span in passage.spans if span.doc_id == doc_id)
            hits.setdefault(doc_id, []).append((passage.score, spans))
    found = ((document(doc_id), tuple(entries)) for doc_id, entries in hits.items())
    return [_Found(d, entries) for d, entries in found if d is not None]


def _whole(mark: int, found: _Found) -> Source:
    d = found.document
    text = d.text.strip()
    start = len(d.text) - len(d.text.lstrip())
    return Source(mark, d.title, (), text, ((Span(d.id, start, start + len(text)), text),), found.score)


def _around(documents: Sequence[_Found], room: int, measure: Measure) -> list[Source]:
    """As much of the documents as fits: passages by score, then the sentences nearest to them until one does not fit."""
    taken: list[Span] = []
    passages = [(score, spans) for found in documents for score, spans in found.hits]
    for _, spans in sorted(passages, key=lambda p: -p[0]):
        if sum(measure(_excerpts(documents, [*taken, *spans]))) <= room:
            taken += spans
    steps = _outwards(documents, taken, room * _REACH)
    fits = bisect_right(
        range(len(steps) + 1), room, key=lambda n: sum(measure(_excerpts(documents, [*taken, *steps[:n]])))
    )
    return _excerpts(documents, [*taken, *steps[: max(0, fits - 1)]])


def _excerpts(documents: Sequence[_Found], spans: Sequence[Span]) -> list[Source]:
    """What the spans hold, a source a document; neighbouring spans run on."""
    sources = []
    for number, found in enumerate(documents, 1):
        d = found.document
        runs = _runs([span for span in spans if span.doc_id == d.id], d.text)
        parts = tuple((Span(d.id, start, end), d.text[start:end]) for start, end in runs)
        if parts:
            text = GAP.join(text for _, text in parts)
            sources.append(Source(number, d.title, (), text, parts, found.score))
    return sources


def _runs(spans: Sequence[Span], text: str) -> list[tuple[int, int]]:
    """The union of the spans; what only white space divides is one run."""
    runs: list[tuple[int, int]] = []
    for span in sorted(spans):
        if runs and not text[runs[-1][1] : span.start].strip():
            runs[-1] = (runs[-1][0], max(runs[-1][1], span.end))
        else:
            runs.append((span.start, span.end))
    return runs


def _outwards(documents: Sequence[_Found], taken: Sequence[Span], most: int) -> list[Span]:
    """The sentences around the spans, nearest first, `most` characters of them."""
    distant: list[tuple[int, Span]] = []
    for found in documents:
        d = found.document
        hits = [span for span in taken if span.doc_id == d.id]
        for start, end in _runs([_stretched(span, most, len(d.text)) for span in hits], d.text):
            for left, right in split_sentences(d.text[start:end]):
                sentence = Span(d.id, start + left, start + right)
                # what the window cuts is no whole sentence
                if (left > 0 or start == 0) and (right < end - start or end == len(d.text)):
                    distant.append((min(_distance(sentence, hit) for hit in hits), sentence))
    nearest = [sentence for distance, sentence in sorted(distant, key=lambda s: s[0]) if distance >= 0]
    sizes = accumulate(len(sentence) for sentence in nearest)
    return [sentence for sentence, size in zip(nearest, sizes, strict=True) if size <= most]


def _stretched(span: Span, reach: int, length: int) -> Span:
    return Span(span.doc_id, max(0, span.start - reach), min(length, span.end + reach))


def _distance(sentence: Span, hit: Span) -> int:
    """Characters between them; -1 where the hit holds the sentence."""
    return -1 if hit.contains(sentence) else max(0, hit.start - sentence.end, sentence.start - hit.end)
