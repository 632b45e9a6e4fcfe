"""Segments of a document. A prompt shows them as numbered paragraphs, and an answer refers to their numbers.

A segment holds whole sentences of the tree, up to a number of tokens, so that a supporting sentence is in one segment. (M-RAG
cuts after every 128th token, even inside a sentence.) A heading begins a new segment if the current one is half full. Together
the segments hold every character of the document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from mergewise.types import DocumentRows, Leaf, Sentence


class TextSegment(NamedTuple):
    """The segment `number` of a document, counted from 0: `document.text[start:end]`. `sentences` do not include headings."""

    number: int
    start: int
    end: int
    tokens: int
    # the headings above the first sentence
    headings: tuple[str, ...] = ()
    sentences: tuple[Sentence, ...] = ()


class Tile(NamedTuple):
    """A sentence, or the headings before it, with the white space after it. Together the tiles cover the text."""

    start: int
    end: int
    tokens: int
    headings: tuple[str, ...]
    sentence: Sentence | None = None


def segments_of(document: DocumentRows, size: int) -> list[TextSegment]:
    """Split a document into segments of at most `size` tokens. A longer sentence is a segment by itself."""
    segments: list[TextSegment] = []
    tiles: list[Tile] = []
    tokens = 0
    for tile in tiles_of(document["leaf"]):
        begins_new = tile.sentence is None and 2 * tokens >= size
        if tiles and (tokens + tile.tokens > size or begins_new):
            segments.append(_segment(len(segments), tiles, tokens))
            tiles, tokens = [], 0
        tiles.append(tile)
        tokens += tile.tokens
    if tiles:
        segments.append(_segment(len(segments), tiles, tokens))
    return segments


def _segment(number: int, tiles: Sequence[Tile], tokens: int) -> TextSegment:
    headings = next((tile for tile in tiles if tile.sentence is not None), tiles[0]).headings
    sentences = tuple(tile.sentence for tile in tiles if tile.sentence is not None)
    return TextSegment(number, tiles[0].start, tiles[-1].end, tokens, headings, sentences)


def tiles_of(leaves: Sequence[Leaf]) -> Iterator[Tile]:
    """Yield the sentences of leaves and the headings before them, in order."""
    for leaf in leaves:
        starts = [sentence.start for sentence in leaf.sentences]
        headed = not starts or bool(leaf.text[: starts[0] - leaf.start].strip())
        bounds = [leaf.start, *(starts if headed else starts[1:]), leaf.end]
        if headed:
            rest = max(0, leaf.tokens - sum(sentence.tokens for sentence in leaf.sentences))
            yield Tile(bounds[0], bounds[1], rest, leaf.headings)
            bounds = bounds[1:]
        for (start, end), sentence in zip(pairwise(bounds), leaf.sentences, strict=True):
            yield Tile(start, end, sentence.tokens, leaf.headings, sentence)
