"""Building of the slice view of MacRAG: documents to overlapping chunks, to summaries, to overlapping slices (section 3.1).

Where we differ from the paper, and why:
- Chunks consist of the whole sentences of the tree view, so that every span ends at the end of a sentence. The tree view has
  already divided sentences above `TreeSettings.max_leaf_tokens`.
- Compression is extractive unless a chat model is requested: it needs no model, and every slice is verbatim text.
- Headings count as sentences that are always salient, because they name the subject of the sentences below them.
- A short chunk is its own extractive summary: one that is no longer than the summary of a full chunk, or has at most three
  sentences. A summary would save little, and no search finds the sentences that it leaves out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import fsum, log, sqrt

from mergewise.designs.macrag.slices.records import SLICE_GAP, VECTORS, Chunk, Slice, SliceSettings
from mergewise.designs.macrag.slices.summaries import estimate as estimate_of
from mergewise.designs.macrag.slices.summaries import summaries
from mergewise.index.views import estimate_texts, key_of, with_vectors
from mergewise.index.windows import windows
from mergewise.index.writing.segments import tiles_of
from mergewise.models.record import Models
from mergewise.protocols import TokenCounter
from mergewise.store.views import Estimate, OnShare, ViewRows
from mergewise.text.sections import shared_headings
from mergewise.text.sentences import split_long, split_sentences, strip_span
from mergewise.text.spans import texts_at, union
from mergewise.text.terms import content_terms
from mergewise.types import DocumentRows, Part, Rows

# A summary of up to this number of sentences leaves none out.
FEW = 3


def build(
    documents: Sequence[DocumentRows], settings: SliceSettings, models: Models, on_share: OnShare | None = None
) -> list[ViewRows]:
    """Build the chunks and slices of each document. Each model gets the chunks of all documents in one call."""
    chunked = [_chunks(document, settings) for document in documents]
    texts = [chunk.text for chunks in chunked for chunk in chunks]
    written = iter(summaries(texts, models, on_share) if settings.summary == "abstractive" else [None] * len(texts))
    built: list[ViewRows] = []
    for document, chunks in zip(documents, chunked, strict=True):
        summarised = [replace(chunk, summary=text, parts=()) if (text := next(written)) else chunk for chunk in chunks]
        slices = _slices(document, summarised, settings, models.count_tokens)
        built.append({"chunk": Rows(tuple(summarised)), "slice": Rows(tuple(slices))})
    for name in settings.vectors:
        table, column, field = VECTORS[name]
        built = with_vectors(built, table, models.embedder, column, partial(key_of, field=field))
    return built


def estimate(documents: Sequence[DocumentRows], settings: SliceSettings, models: Models) -> Estimate:
    """Estimate the cost of the chat model's summaries of these documents."""
    texts = ([chunk.text for chunk in _chunks(document, settings)] for document in documents)
    return estimate_texts(texts, estimate_of, models)


# -- chunks (section 3.1.1)


def _chunks(document: DocumentRows, settings: SliceSettings) -> list[Chunk]:
    """Cut chunks of whole sentences and extract their summaries. The last chunk ends with the document."""
    leaves, text = document["leaf"], document.document.text
    tiles = [(tile, number) for number, leaf in enumerate(leaves) for tile in tiles_of([leaf])]
    sizes = [tile.tokens if settings.unit == "tokens" else tile.end - tile.start for tile, _ in tiles]
    chunks = []
    for ordinal, (first, end) in enumerate(windows(sizes, settings.chunk, settings.overlap)):
        inside, touching = zip(*tiles[first:end], strict=True)
        headings = [tile.sentence is None for tile in inside]
        # sometimes an extractive summary would save little
        whole = (
            settings.summary == "none"
            or sum(sizes[first:end]) <= settings.summary_share * settings.chunk
            or headings.count(False) <= FEW
        )
        share = 1.0 if whole else settings.summary_share
        parts = extract(text, [strip_span(text, tile.start, tile.end) for tile in inside], headings, share)
        touched = leaves[touching[0] : touching[-1] + 1]
        chunks.append(
            Chunk(
                id=ordinal,
                doc_id=document.document.id,
                title=leaves[0].title,
                headings=shared_headings(touched),
                ordinal=ordinal,
                start=inside[0].start,
                end=inside[-1].end,
                first_leaf=touching[0],
                leaf_count=len(touched),
                tokens=sum(tile.tokens for tile in inside),
                text=text[inside[0].start : inside[-1].end],
                summary=SLICE_GAP.join(texts_at(text, parts)),
                parts=tuple(parts),
            )
        )
    return chunks


# -- compression (section 3.1.2)


def extract(text: str, sentences: Sequence[Part], headings: Sequence[bool], share: float) -> list[Part]:
    """Compress(c): return the most salient sentences, in order, up to `share` of the characters. Headings are always kept.

    At least one sentence is kept. Empty sentences are dropped.
    """
    present = [i for i, (start, end) in enumerate(sentences) if start < end]
    room = share * sum(sentences[i][1] - sentences[i][0] for i in present if not headings[i])
    kept = {i for i in present if headings[i]}
    plain = [i for i in present if not headings[i]]
    weights = salience([text[slice(*sentences[i])] for i in plain])
    for rank, (i, _) in enumerate(sorted(zip(plain, weights, strict=True), key=lambda pair: (-pair[1], pair[0]))):
        length = sentences[i][1] - sentences[i][0]
        if rank == 0 or length <= room + 1e-6:
            kept.add(i)
            room -= length
    return [sentences[i] for i in sorted(kept)]


def salience(sentences: Sequence[str]) -> list[float]:
    """Return how well each sentence represents its chunk: the weight of its terms over the root of their number.

    A term weighs more the more of the chunk's sentences hold it. The first sentence gets a bonus, since it introduces the rest.
    """
    terms = [content_terms(sentence) for sentence in sentences]
    holding = Counter(term for sentence in terms for term in sentence)
    weights = [fsum(log(1 + holding[term]) for term in own) / sqrt(max(1, len(own))) for own in terms]
    return [weight * (1.25 if i == 0 else 1.0) for i, weight in enumerate(weights)]


# -- slices (section 3.1.3)


def _slices(
    document: DocumentRows, chunks: Sequence[Chunk], settings: SliceSettings, count_tokens: TokenCounter
) -> list[Slice]:
    """Cut the summaries of one document's chunks into slices, each with the parts of the document that it represents."""
    text, leaves = document.document.text, document["leaf"]

    def size(piece: str) -> int:
        return len(piece) if settings.slice_unit == "characters" else count_tokens([piece])[0]

    def runs(whole: str, sentences: Sequence[Part]) -> Iterator[list[Part]]:
        """Yield overlapping runs of sentences. Sentences too long to leave room for the overlap are divided."""
        limit = max(1, settings.slice - settings.slice_overlap)
        pieces = [piece for a, b in sentences for piece in split_long(whole, a, b, limit, size)]
        sizes = [size(whole[a:b]) + 1 for a, b in pieces]
        for first, end in windows(sizes, settings.slice, settings.slice_overlap):
            stripped = [strip_span(whole, a, b) for a, b in union(pieces[first:end])]
            yield [(a, b) for a, b in stripped if a < b]

    slices: list[Slice] = []
    for chunk in chunks:
        cut: list[tuple[list[Part], str, tuple[str, ...]]] = []
        if chunk.parts:
            for parts in runs(text, chunk.parts):
                # The headings above the start of the slice.
                begun = (i for i in chunk.leaves if leaves[i].start <= parts[0][0])
                headings = leaves[max(begun, default=chunk.first_leaf)].headings
                cut.append((parts, SLICE_GAP.join(texts_at(text, parts)), headings))
        else:
            for parts in runs(chunk.summary, split_sentences(chunk.summary)):
                piece = chunk.summary[parts[0][0] : parts[-1][1]]
                cut.append(([(chunk.start, chunk.end)], piece, chunk.headings))
        slices += [
            Slice(number, chunk.doc_id, chunk.id, tuple(parts), chunk.title, headings, piece)
            for number, (parts, piece, headings) in enumerate(cut, len(chunks) + len(slices))
        ]
    return slices
