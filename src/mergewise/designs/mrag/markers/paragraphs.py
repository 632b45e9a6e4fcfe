"""The numbered paragraphs of a document for markers: whole sentences, or the paper's fixed number of tokens."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from mergewise.designs.mrag.chunks.fixed import fixed_bounds
from mergewise.index.writing.segments import TextSegment, segments_of
from mergewise.models.tokens import count_tokens
from mergewise.text.sentences import strip_span
from mergewise.text.spans import Part
from mergewise.types import DocumentRows, Sentence


def paragraphs_of(document: DocumentRows, size: int, *, whole_sentences: bool) -> list[TextSegment]:
    """Split a document into paragraphs of up to `size` tokens, by the built-in tokenizer.

    Without `whole_sentences`, a paragraph ends after its last whole word (M-RAG section 2.1). A part of a sentence then counts
    as a sentence of the paragraph.
    """
    if whole_sentences or not document["leaf"]:
        return segments_of(document, size)
    text = document.document.text
    bounds = fixed_bounds(text, size, count_tokens)
    sizes = count_tokens([text[start:end] for start, end in bounds])
    starts = [leaf.start for leaf in document["leaf"]]
    return [
        TextSegment(
            number,
            start,
            end,
            tokens,
            document["leaf"][bisect_right(starts, start) - 1].headings,
            tuple(_sentences_within(document, (start, end))),
        )
        for number, ((start, end), tokens) in enumerate(zip(bounds, sizes, strict=True))
    ]


def _sentences_within(document: DocumentRows, bounds: Part) -> Iterator[Sentence]:
    """Yield the part of each sentence inside the bounds."""
    leaves = [leaf for leaf in document["leaf"] if leaf.start < bounds[1] and bounds[0] < leaf.end]
    for sentence in [s for leaf in leaves for s in leaf.sentences if s.start < bounds[1] and bounds[0] < s.end]:
        start, end = strip_span(document.document.text, max(sentence.start, bounds[0]), min(sentence.end, bounds[1]))
        if start < end:
            yield Sentence(start, end, count_tokens([document.document.text[start:end]])[0])
