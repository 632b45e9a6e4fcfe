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
class Segment:
    """`document.text[start:end]`: number `number` of its document, counted from 0. `sentences` are without headings."""

    number: int
    start: int
    end: int
    tokens: int
    headings: tuple[str, ...] = ()  # those above its first sentence
    sentences: tuple[Sentence, ...] = ()


@dataclass(frozen=True, slots=True)
class _Piece:
    """A sentence, or the headings before one, with the white space after it: pieces tile the text."""

    start: int
    end: int
    tokens: int
    headings: tuple[str, ...]
    sentence: Sentence | None = None


def segments_of(document: DocumentRows, size: int) -> list[Segment]:
    """The segments of a document, of at most `size` tokens each but where one sentence alone has more."""
    segments: list[Segment] = []
    held: list[_Piece] = []
    tokens = 0
    for piece in _pieces(document["leaf"]):
        begins_new = piece.sentence is None and 2 * tokens >= size
        if held and (tokens + piece.tokens > size or begins_new):
            segments.append(_segment(len(segments), held, tokens))
            held, tokens = [], 0
        held.append(piece)
        tokens += piece.tokens
    if held:
        segments.append(_segment(len(segments), held, tokens))
    return segments


def _segment(number: int, pieces: Sequence[_Piece], tokens: int) -> Segment:
    said = [piece for piece in pieces if piece.sentence is not None]
    return Segment(
        number,
        pieces[0].start,
        pieces[-1].end,
        tokens,
        (said or pieces)[0].headings,
        tuple(piece.sentence for piece in said if piece.sentence is not None),
    )


def _pieces(leaves: Sequence[Leaf]) -> Iterator[_Piece]:
    for leaf in leaves:
        starts = [sentence.start for sentence in leaf.sentences]
        headed = not starts or bool(leaf.text[: starts[0] - leaf.start].strip())
        bounds = [leaf.start, *(starts if headed else starts[1:]), leaf.end]
        if headed:
            rest = max(0, leaf.tokens - sum(sentence.tokens for sentence in leaf.sentences))
            yield _Piece(bounds[0], bounds[1], rest, leaf.headings)
            bounds = bounds[1:]
        for (start, end), sentence in zip(pairwise(bounds), leaf.sentences, strict=True):
            yield _Piece(start, end, sentence.tokens, leaf.headings, sentence)
