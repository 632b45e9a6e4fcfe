"""Sources for a model: the passages of a context, or their documents.

If the documents do not fit the model's window, it gets the passages and then the sentences around them, nearest first. The
worst passages are left out first. No passage or sentence is cut.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from mergewise.text.sections import heading_path
from mergewise.text.sentences import split_sentences, strip_span
from mergewise.text.spans import union
from mergewise.types import GAP, Context, Document, Span, frozen
from mergewise.types.answers import best_first

DocumentLookup = Callable[[str], Document | None]

# maximum characters per token: a text of more than `room * _REACH` characters does not fit, and is not measured
_REACH = 8


@frozen
class Source:
    """A numbered text for a model. Citations lead to its `parts`, the pieces of documents that it consists of or is based on."""

    number: int
    title: str
    headings: tuple[str, ...]
    text: str
    parts: tuple[tuple[Span, str], ...]
    score: float

    @property
    def path(self) -> str:
        return heading_path(self.title, self.headings)


Measure = Callable[[Sequence[Source]], list[int]]
"""Counts the tokens of each source as a prompt shows it."""


def base_sources(context: Context, document: DocumentLookup) -> list[Source]:
    """Return the passages, numbered as in the context."""
    sources = []
    for number, passage in enumerate(context.passages, 1):
        parts = list(passage.parts()) if passage.verbatim else []
        for span in () if passage.verbatim else passage.spans:
            if (source := document(span.doc_id)) is not None:
                parts.append((span, source.text[span.start : span.end]))
        sources.append(Source(number, passage.title, passage.headings, passage.text, tuple(parts), passage.score))
    return sources


def fit(sources: Sequence[Source], room: int, measure: Measure) -> list[Source]:
    """Select the best sources that fit together, in the order given. A source that is too long is skipped."""
    costs = measure(sources)
    kept: set[int] = set()
    for i in sorted(range(len(sources)), key=lambda i: -sources[i].score):
        if costs[i] <= room:
            room -= costs[i]
            kept.add(i)
    return [source for i, source in enumerate(sources) if i in kept]


def long_sources(context: Context, document: DocumentLookup, room: int, measure: Measure) -> list[Source]:
    """Return the documents of the passages, best first: complete if all fit together, else the text around the passages."""
    documents = _retrieved_documents(context, document)
    whole = _excerpts(documents, list(map(_whole, documents)))
    if sum(len(source.text) for source in whole) <= room * _REACH and sum(measure(whole)) <= room:
        return whole
    return _around(documents, room, measure)


def each_long_source(context: Context, document: DocumentLookup, room: int, measure: Measure) -> list[Source]:
    """Return the documents of the passages for a model that reads them one by one. Each may fill all the room."""
    sources: list[Source] = []
    for number, retrieved in enumerate(_retrieved_documents(context, document), 1):
        whole = _excerpts([retrieved], [_whole(retrieved)])
        fits = len(whole[0].text) <= room * _REACH and measure(whole)[0] <= room
        own = whole if fits else _around([retrieved], room, measure)
        sources += [replace(source, number=number) for source in own]
    return sources


def batches(sources: Sequence[Source], room: int, measure: Measure) -> list[list[Source]]:
    """Divide the sources among calls, in their order, filling each call up to `room` tokens."""
    groups: list[list[Source]] = []
    left = 0
    for source, cost in zip(sources, measure(sources), strict=True):
        if not groups or cost > left:
            groups.append([])
            left = room
        groups[-1].append(source)
        left -= cost
    return groups


class _Retrieved(NamedTuple):
    """A document, with the score and spans of each of its retrieved passages, best first."""

    document: Document
    hits: tuple[tuple[float, tuple[Span, ...]], ...]

    @property
    def score(self) -> float:
        return self.hits[0][0]


def _retrieved_documents(context: Context, document: DocumentLookup) -> list[_Retrieved]:
    hits: dict[str, list[tuple[float, tuple[Span, ...]]]] = {}
    for passage in best_first(context.passages):
        for doc_id in dict.fromkeys(span.doc_id for span in passage.spans):
            spans = tuple(span for span in passage.spans if span.doc_id == doc_id)
            hits.setdefault(doc_id, []).append((passage.score, spans))
    documents = ((document(doc_id), tuple(entries)) for doc_id, entries in hits.items())
    return [_Retrieved(whole, entries) for whole, entries in documents if whole is not None]


def _whole(retrieved: _Retrieved) -> Span:
    document = retrieved.document
    return Span(document.id, *strip_span(document.text, 0, len(document.text)))


def _around(documents: Sequence[_Retrieved], room: int, measure: Measure) -> list[Source]:
    """Fill the room with the passages, best first, then with the nearest sentences until one does not fit."""
    taken: list[Span] = []
    for _, spans in sorted([hit for retrieved in documents for hit in retrieved.hits], key=lambda p: -p[0]):
        if sum(measure(_excerpts(documents, [*taken, *spans]))) <= room:
            taken += spans
    steps = _outwards(documents, taken, room * _REACH)
    fits = bisect_right(
        range(len(steps) + 1), room, key=lambda n: sum(measure(_excerpts(documents, [*taken, *steps[:n]])))
    )
    return _excerpts(documents, [*taken, *steps[: max(0, fits - 1)]])


def _excerpts(documents: Sequence[_Retrieved], spans: Sequence[Span]) -> list[Source]:
    """Make one source per document from the spans. Spans with only white space between them are joined."""
    sources = []
    for number, retrieved in enumerate(documents, 1):
        document = retrieved.document
        runs = union(((span.start, span.end) for span in spans if span.doc_id == document.id), document.text)
        parts = tuple((Span(document.id, start, end), document.text[start:end]) for start, end in runs)
        if parts:
            text = GAP.join(text for _, text in parts)
            sources.append(Source(number, document.title, (), text, parts, retrieved.score))
    return sources


def _outwards(documents: Sequence[_Retrieved], taken: Sequence[Span], most: int) -> list[Span]:
    """List the sentences around the spans, nearest first, up to `most` characters."""
    distant: list[tuple[int, Span]] = []
    for retrieved in documents:
        document = retrieved.document
        hits = [span for span in taken if span.doc_id == document.id]
        for start, end in union(
            ((max(0, hit.start - most), min(len(document.text), hit.end + most)) for hit in hits), document.text
        ):
            for left, right in split_sentences(document.text[start:end]):
                sentence = Span(document.id, start + left, start + right)
                # skip sentences that the window cuts
                if (left > 0 or start == 0) and (right < end - start or end == len(document.text)):
                    # Characters between the spans, or -1 if a hit contains the sentence.
                    distances = (
                        -1 if hit.contains(sentence) else max(0, hit.start - sentence.end, sentence.start - hit.end)
                        for hit in hits
                    )
                    distant.append((min(distances), sentence))
    nearest = [sentence for distance, sentence in sorted(distant, key=lambda s: s[0]) if distance >= 0]
    sizes = accumulate(len(sentence) for sentence in nearest)
    return [sentence for sentence, size in zip(nearest, sizes, strict=True) if size <= most]
