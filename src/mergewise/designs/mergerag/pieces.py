"""Chunks as sentences, which MergeRAG's fusion operators keep or drop, each with its exact span in a document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TypeAlias

from mergewise.assemble.fragments import Fragment, SectionKey, fragment_of, join_touching
from mergewise.protocols import TokenCounter
from mergewise.text.blocks import heading_cost_line
from mergewise.text.sections import heading_path
from mergewise.text.sentences import split_sentences
from mergewise.text.terms import content_terms
from mergewise.types import GAP, Hit, Span, frozen
from mergewise.types.answers import best_first


@frozen
class ChunkSource:
    """The source of a first chunk, neighbouring leaves or a part of a passage, and its relevance S(c; q)."""

    fragment: Fragment
    score: float


@dataclass(frozen=True, slots=True, eq=False)
class ChunkSentence:
    """One sentence of a chunk. `fragment` includes the white space after it, so that neighbours touch."""

    chunk: int  # the first chunk that holds it
    first: bool  # true if it opens that chunk
    fragment: Fragment
    text: str
    tokens: int
    terms: frozenset[str]

    @property
    def section(self) -> SectionKey:
        return self.fragment.section


Content: TypeAlias = tuple[ChunkSentence, ...]
"""The sentences of a chunk."""


def sources_of(hits: Sequence[Hit], chunk_tokens: int) -> list[ChunkSource]:
    """Return a source for each leaf, best first. Touching leaves below one parent are joined, up to `chunk_tokens`."""
    runs: list[list[Hit]] = []
    for hit in sorted(hits, key=lambda h: (h.row.doc_id, h.row.id)):
        leaf, run = hit.row, runs[-1] if runs else []
        last = run[-1].row if run else None
        touch = last is not None and (last.end, last.doc_id, last.ancestors) == (
            leaf.start,
            leaf.doc_id,
            leaf.ancestors,
        )
        if touch and sum(one.row.tokens for one in run) + leaf.tokens <= chunk_tokens:
            run.append(hit)
        else:
            runs.append([hit])
    sources = [ChunkSource(fragment_of([hit.row for hit in run]), max(hit.score for hit in run)) for run in runs]
    return best_first(sources)


def chunk_texts(hits: Sequence[Hit], count_tokens: TokenCounter) -> list[str]:
    """Return the texts of the first chunks, one for each leaf, best first."""
    return [text_of(chunk) for chunk in sentences_of(sources_of(hits, 0), count_tokens) if chunk]


def sentences_of(sources: Sequence[ChunkSource], count_tokens: TokenCounter) -> list[list[ChunkSentence]]:
    """Return the sentences of each source, in order. All tokens are counted in one call."""
    cuts: list[list[tuple[Fragment, str]]] = []
    for source in sources:
        # Pieces that tile the fragment, a sentence in each.
        fragment = source.fragment
        begin, _, text = fragment.visible
        starts = [begin + start for start, _ in split_sentences(text)]
        bounds = pairwise([fragment.start, *starts[1:], fragment.end]) if starts else ()
        pieces = [fragment.cut(start, end) for start, end in bounds]
        cuts.append([(piece, piece.visible[2]) for piece in pieces])
    texts = [text for chunk in cuts for _, text in chunk]
    counts = iter(count_tokens(texts) if texts else ())
    return [
        [
            ChunkSentence(number, i == 0, cut, text, next(counts), content_terms(text))
            for i, (cut, text) in enumerate(chunk)
        ]
        for number, chunk in enumerate(cuts)
    ]


class ChunkLengths:
    """l(c) by the token counter in use: the sentences, a heading line at each start of a section, and a mark for each gap.

    Headings in front of a sentence count only if the sentence continues the one before it.
    """

    def __init__(self, sentences: Iterable[ChunkSentence], count_tokens: TokenCounter) -> None:
        sentences = list(sentences)
        lines = {s.section: heading_cost_line(s.fragment.title, s.fragment.headings) for s in sentences}
        # The heading lines in front of the text.
        leads = {s: lead for s in sentences if (lead := s.fragment.text[: s.fragment.body - s.fragment.start].strip())}
        self._gap, *counts = count_tokens([GAP, *lines.values(), *leads.values()])
        self._headings = dict(zip(lines, counts, strict=False))
        self._leads = dict(zip(leads, counts[len(lines) :], strict=True))

    def heading(self, sentence: ChunkSentence) -> int:
        return self._headings[sentence.section]

    def __call__(self, sentences: Sequence[ChunkSentence]) -> int:
        shown = sorted(sentences, key=lambda s: (s.fragment.doc_id, s.fragment.start))
        sections = [section for section, _ in groupby(shown, key=lambda s: s.section)]
        pairs = [(a, b) for a, b in pairwise(sentences) if a.section == b.section]
        gaps = sum(not _touch(a, b) for a, b in pairs)
        leads = sum(self._leads.get(b, 0) for a, b in pairs if _touch(a, b))
        return (
            sum(s.tokens for s in sentences) + sum(map(self._headings.__getitem__, sections)) + gaps * self._gap + leads
        )


def _touch(left: ChunkSentence, right: ChunkSentence) -> bool:
    return left.fragment.doc_id == right.fragment.doc_id and left.fragment.end == right.fragment.start


def fragments_of(sentences: Sequence[ChunkSentence]) -> tuple[Fragment, ...]:
    """Return the sentences as fragments. Sentences that follow each other in the document become one fragment."""
    return tuple(join_touching(sentence.fragment for sentence in sentences))


def spans_of(sentences: Sequence[ChunkSentence]) -> tuple[Span, ...]:
    """Return the spans of the visible text of the sentences, one for each run."""
    return tuple(Span(f.doc_id, *f.visible[:2]) for f in fragments_of(sentences))


def text_of(sentences: Sequence[ChunkSentence]) -> str:
    """Return the chunk as a model reads it: the sentences below their heading path."""
    blocks = []
    for _, group in groupby(sentences, key=lambda s: s.section):
        members = list(group)
        line = heading_path(members[0].fragment.title, members[0].fragment.headings)
        blocks.append("\n".join(filter(None, (line, " ".join(s.text for s in members)))))
    return "\n".join(blocks)
