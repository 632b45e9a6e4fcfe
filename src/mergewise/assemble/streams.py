"""Streams of an ensemble: their utility, and what becomes of them where contexts are merged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from mergewise.types import Context, Passage, Stream


def utility(scores: Sequence[float], beta: float) -> float:
    """U of AED-RAG's Eq. 11; the scores are best first."""
    return sum(beta**j * score for j, score in enumerate(scores))


def with_streams_of(merged: Context, given: Sequence[Context]) -> Context:
    """The merged context, to be decoded as the contexts were that it was made of.

    A stream has the passages that overlap with its own in one of them, and the utilities of those, best first. It is gone where
    no passage is left of it. The settings are those of the first context that has streams.
    """
    settings = next((context.ensemble for context in given if context.ensemble is not None), None)
    if settings is None:
        return merged
    names = dict.fromkeys(stream.name for context in given if context.ensemble for stream in context.ensemble.streams)
    streams = (_stream(name, merged, given, settings.beta) for name in names)
    return replace(merged, ensemble=replace(settings, streams=tuple(one for one in streams if one.passages)))


def _stream(name: str, merged: Context, given: Sequence[Context], beta: float) -> Stream:
    found = sorted(_left(name, merged, given), key=lambda pair: -pair[0])
    scores = tuple(score for score, _ in found)
    numbers = tuple(dict.fromkeys(number for _, own in found for number in own))
    return Stream(name, numbers, scores, utility(scores, beta))


def _left(name: str, merged: Context, given: Sequence[Context]) -> Iterator[tuple[float, list[int]]]:
    """The utility of each candidate of which something is left, and the numbers of the passages that have it."""
    written = {passage.text for context in given for passage in context.passages if not passage.verbatim}
    for context in given:
        for stream in context.ensemble.streams if context.ensemble else ():
            if stream.name == name:
                for place, score in enumerate(stream.utilities):
                    own = [context.passages[number - 1] for number in _passages(stream, place)]
                    numbers = [n for n, one in enumerate(merged.passages, 1) if _shows(one, own, written)]
                    if numbers:
                        yield score, numbers


def _passages(stream: Stream, place: int) -> Sequence[int]:
    """The passages of a candidate: its own where each has one, else those from its place on."""
    return stream.passages[place : place + 1] if len(stream.passages) == len(stream.utilities) else stream.passages


def _shows(passage: Passage, own: Sequence[Passage], written: Collection[str]) -> bool:
    """Whether it has something of these passages; what was written, such as a set of triplets, is itself or gone."""
    if not passage.verbatim and passage.text in written:
        return any(passage.text == one.text for one in own)
    return any(span.overlaps(other) for span in passage.spans for one in own if one.verbatim for other in one.spans)
