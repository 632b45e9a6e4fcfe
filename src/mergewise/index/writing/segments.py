"""Segments: what a prompt shows as numbered paragraphs, and what an answer names by its number.

They hold whole sentences, those that the tree cut, up to a number of tokens, so that a sentence that supports something lies
in one segment. (M-RAG cuts after every 128th token, in the middle of a sentence too.) A heading begins a new segment where
the one before is half full. Together they hold every character of the document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mergewise.types import DocumentRows, Leaf, Sentence


@dataclass(frozen=True, slots=True)
class TextSegment:
    """`document.text[start:end]`: number `number` of its document, counted from 0. `sentences` are without headings."""

    number: int
    start: int
    end: int
    tokens: int
    headings: tuple[str, ...] = ()  # those above its first sentence
    sentences: tuple[Sentence, ...] = ()


@dataclass(frozen=True, slots=True)
class _Tile:
    """A sentence, or the headings before one, with the white space after it: together they tile the text."""

    start: int
    end: int
    tokens: int
    headings: tuple[str, ...]
    sentence: Sentence | None = None


def segments_of(document: DocumentRows, size: int) -> list[TextSegment]:
    """The segments of a document, of at most `size` tokens each but where one sentence alone has more."""
    segments: list[TextSegment] = []
    held: list[_Tile] = []
    tokens = 0
    for tile in _tiles(document["leaf"]):
        begins_new = tile.sentence is None and 2 * tokens >= size
        if held and (tokens + tile.tokens > size or begins_new):
            segments.append(_segment(len(segments), held, tokens))
            held, tokens = [], 0
        held.append(tile)
        tokens += tile.tokens
    if held:
        segments.append(_segment(len(segments), held, tokens))
    return segments


def _segment(number: int, tiles: Sequence[_Tile], tokens: int) -> TextSegment:
    headings = next((tile for tile in tiles if tile.sentence is not None), tiles[0]).headings
    sentences = tuple(tile.sentence for tile in tiles if tile.sentence is not None)
    return TextSegment(number, tiles[0].start, tiles[-1].end, tokens, headings, sentences)


def _tiles(leaves: Sequence[Leaf]) -> Iterator[_Tile]:
    for leaf in leaves:
        starts = [sentence.start for sentence in leaf.sentences]
        headed = not starts or bool(leaf.text[: starts[0] - leaf.start].strip())
        bounds = [leaf.start, *(starts if headed else starts[1:]), leaf.end]
        if headed:
            rest = max(0, leaf.tokens - sum(sentence.tokens for sentence in leaf.sentences))
            yield _Tile(bounds[0], bounds[1], rest, leaf.headings)
            bounds = bounds[1:]
        for (start, end), sentence in zip(pairwise(bounds), leaf.sentences, strict=True):
            yield _Tile(start, end, sentence.tokens, leaf.headings, sentence)
