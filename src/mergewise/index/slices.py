"""The slice view of MacRAG: documents to overlapping chunks, to summaries of them, to overlapping slices (section 3.1).

Where we differ from the paper, and why:
- chunks consist of whole sentences, those that the tree view cut, so that every span ends where a sentence does; a
  sentence above `TreeSettings.max_leaf_tokens` was divided there already;
- compression is extractive unless a chat model is asked for: no model, and every slice is verbatim text of its document;
- headings count as sentences that are always salient: they name what the sentences below them are about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, pairwise
from math import log, sqrt
from typing import Any, Literal, TypeAlias

from mergewise.errors import UsageError
from mergewise.index.windows import windows
from mergewise.protocols import Embedder, FloatArray, TokenCounter
from mergewise.text.keys import search_key
from mergewise.text.sections import shared_path
from mergewise.text.sentences import split_long, split_sentences, strip_span
from mergewise.text.terms import content_terms
from mergewise.types import SLICE_GAP, Chunk, DocumentRows, Leaf, Slice, SliceRows

Unit: TypeAlias = Literal["tokens", "characters"]
Part: TypeAlias = tuple[int, int]
Summarise: TypeAlias = Callable[[Sequence[str]], Sequence[str | None]]
"""The summary of each text by a model; None where it has none to give."""

VECTORS = ("slice", "chunk", "summary")


@dataclass(frozen=True, slots=True)
class SliceSettings:
    """Sizes as in appendix A.5: chunks of 400 tokens (or 1500 characters), slices of 450 characters overlapping by 300.

    `summary_share` is how much of a chunk's text an extractive summary keeps: the paper's are 800 to 1000 of 1500
    characters. `summary="none"` slices the chunk itself (the ablation). `vectors` names what is embedded: "slice", and
    for multi-view retrieval also "chunk" and "summary".
    """

    chunk: int = 400
    overlap: int = 100
    unit: Unit = "tokens"
    summary: Literal["extractive", "abstractive", "none"] = "extractive"
    summary_share: float = 0.6
    slice: int = 450
    slice_overlap: int = 300
    slice_unit: Unit = "characters"
    vectors: tuple[str, ...] = ("slice",)

    def __post_init__(self) -> None:
        for name, size, overlap in (
            ("chunk", self.chunk, self.overlap),
            ("slice", self.slice, self.slice_overlap),
        ):
            if not 0 <= overlap < size:
                raise UsageError(f"a {name} of {size} cannot overlap by {overlap}", "overlap by less than the size")
        if not 0 < self.summary_share <= 1:
            raise UsageError(f"a summary cannot have {self.summary_share} of its chunk", "a share above 0, at most 1")
        if "slice" not in self.vectors or not set(self.vectors) <= set(VECTORS):
            raise UsageError(f"vectors of {', '.join(self.vectors)}", "slice, and also chunk and summary")

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "vectors": list(self.vectors)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> SliceSettings:
        return cls(**{**stored, "vectors": tuple(stored["vectors"])})


def build_slices(
    documents: Sequence[DocumentRows],
    count_tokens: TokenCounter,
    settings: SliceSettings = SliceSettings(),
    summarise: Summarise | None = None,
) -> list[SliceRows]:
    """The slice view of each document, without vectors. `summarise` is asked once, for the chunks of all of them."""
    chunked = [_chunks(document, settings) for document in documents]
    written = iter(_written([chunk.text for chunks in chunked for chunk in chunks], settings, summarise))
    built = []
    for document, chunks in zip(documents, chunked, strict=True):
        maker = _Slicer(document, settings, count_tokens)
        summarised = [replace(chunk, summary=text, parts=()) if (text := next(written)) else chunk for chunk in chunks]
        built.append(maker.rows(summarised))
    return built


def _written(texts: Sequence[str], settings: SliceSettings, summarise: Summarise | None) -> Sequence[str | None]:
    if settings.summary != "abstractive":
        return [None] * len(texts)
    if summarise is None:
        raise UsageError("this index has summaries by a chat model", "name one: --chat openai:MODEL")
    return summarise(texts)


# -- chunks (section 3.1.1)


@dataclass(frozen=True, slots=True)
class _Unit:
    """A sentence or heading of a document, `start .. end` with the white space after it: units tile the text."""

    start: int
    end: int
    tokens: int
    leaf: int
    heading: bool = False


def _units(leaves: Sequence[Leaf], document: DocumentRows) -> Iterator[_Unit]:
    for number, (leaf, sentences) in enumerate(zip(leaves, document.sentences, strict=True)):
        starts = [sentence.start for sentence in sentences]
        headed = not starts or bool(leaf.text[: starts[0] - leaf.start].strip())
        bounds = [leaf.start, *(starts if headed else starts[1:]), leaf.end]
        said = [sentence.tokens for sentence in sentences]
        tokens = [max(0, leaf.tokens - sum(said)), *said] if headed else said
        for i, ((start, end), count) in enumerate(zip(pairwise(bounds), tokens, strict=True)):
            yield _Unit(start, end, count, number, heading=headed and i == 0)


def _chunks(document: DocumentRows, settings: SliceSettings) -> list[Chunk]:
    """Chunks of whole sentences with their extractive summaries; with the last one the document ends."""
    leaves, text = document.leaves, document.document.text
    units = list(_units(leaves, document))
    sizes = [unit.tokens if settings.unit == "tokens" else unit.end - unit.start for unit in units]
    chunks = []
    for ordinal, (first, end) in enumerate(windows(sizes, settings.chunk, settings.overlap)):
        own = units[first:end]
        share = 1.0 if settings.summary == "none" else settings.summary_share
        parts = extract(text, [strip_span(text, u.start, u.end) for u in own], [u.heading for u in own], share)
        touched = leaves[own[0].leaf : own[-1].leaf + 1]
        chunks.append(
            Chunk(
                id=ordinal,
                doc_id=document.document.id,
                title=leaves[0].title,
                headings=shared_path([leaf.headings for leaf in touched]),
                ordinal=ordinal,
                start=own[0].start,
                end=own[-1].end,
                first_leaf=own[0].leaf,
                leaf_count=len(touched),
                tokens=sum(unit.tokens for unit in own),
                text=text[own[0].start : own[-1].end],
                summary=SLICE_GAP.join(text[a:b] for a, b in parts),
                parts=tuple(parts),
            )
        )
    return chunks


# -- compression (section 3.1.2)


def extract(text: str, sentences: Sequence[Part], headings: Sequence[bool], share: float) -> list[Part]:
    """Compress(c): the most salient sentences, in order, up to `share` of the characters; headings are always kept.

    At least one sentence is kept, and empty ones never are.
    """
    standing = [i for i, (start, end) in enumerate(sentences) if start < end]
    room = share * sum(sentences[i][1] - sentences[i][0] for i in standing if not headings[i])
    kept = {i for i in standing if headings[i]}
    said = [i for i in standing if not headings[i]]
    weights = salience([text[slice(*sentences[i])] for i in said])
    ranked = sorted(zip(said, weights, strict=True), key=lambda pair: (-pair[1], pair[0]))
    for rank, (i, _) in enumerate(ranked):
        length = sentences[i][1] - sentences[i][0]
        if rank == 0 or length <= room + 1e-6:
            kept.add(i)
            room -= length
    return [sentences[i] for i in sorted(kept)]


def salience(sentences: Sequence[str]) -> list[float]:
    """How much a sentence says of what its chunk is about: the weight of its terms over the root of their number.

    A term weighs the more, the more of the chunk's sentences have it; the first sentence introduces the rest.
    """
    terms = [content_terms(sentence) for sentence in sentences]
    holding = Counter(term for own in terms for term in own)
    weights = [sum(log(1 + holding[term]) for term in own) / sqrt(max(1, len(own))) for own in terms]
    return [weight * (1.25 if i == 0 else 1.0) for i, weight in enumerate(weights)]


# -- slices (section 3.1.3)


class _Slicer:
    """Cuts the summaries of one document."""

    def __init__(self, document: DocumentRows, settings: SliceSettings, count_tokens: TokenCounter) -> None:
        self.document = document
        self.settings = settings
        self.count_tokens = count_tokens
        self.starts = [leaf.start for leaf in document.leaves]

    def rows(self, chunks: Sequence[Chunk]) -> SliceRows:
        slices: list[Slice] = []
        for chunk in chunks:
            for parts, text in self._slices(chunk):
                slices.append(
                    Slice(
                        id=len(chunks) + len(slices),
                        doc_id=chunk.doc_id,
                        chunk=chunk.id,
                        parts=tuple(parts),
                        title=chunk.title,
                        headings=self._headings(chunk, parts[0][0]),
                        text=text,
                    )
                )
        return SliceRows(tuple(chunks), tuple(slices))

    def _slices(self, chunk: Chunk) -> Iterator[tuple[list[Part], str]]:
        """L_i: the slices of the summary, each with the parts of the document that it stands for."""
        if chunk.parts:
            text = self.document.document.text
            for parts in self._cut(text, chunk.parts):
                yield parts, SLICE_GAP.join(text[a:b] for a, b in parts)
        else:
            for parts in self._cut(chunk.summary, split_sentences(chunk.summary)):
                yield [(chunk.start, chunk.end)], chunk.summary[parts[0][0] : parts[-1][1]]

    def _cut(self, text: str, sentences: Sequence[Part]) -> Iterator[list[Part]]:
        """Overlapping runs of sentences, of which those that would not leave room for the overlap are divided."""
        limit = max(1, self.settings.slice - self.settings.slice_overlap)
        pieces = [piece for a, b in sentences for piece in split_long(text, a, b, limit, self._size)]
        sizes = [self._size(text[a:b]) + 1 for a, b in pieces]
        for first, end in windows(sizes, self.settings.slice, self.settings.slice_overlap):
            stripped = [strip_span(text, a, b) for a, b in joined(pieces[first:end])]
            yield [(a, b) for a, b in stripped if a < b]

    def _size(self, text: str) -> int:
        return len(text) if self.settings.slice_unit == "characters" else self.count_tokens([text])[0]

    def _headings(self, chunk: Chunk, start: int) -> tuple[str, ...]:
        """Those above the place where the slice begins."""
        if not chunk.parts:
            return chunk.headings
        own = range(chunk.first_leaf, chunk.first_leaf + chunk.leaf_count)
        leaf = max((i for i in own if self.starts[i] <= start), default=chunk.first_leaf)
        return self.document.leaves[leaf].headings


def joined(parts: Iterable[Part]) -> list[Part]:
    """Parts that touch or overlap as one, in order, so that no character is lost or doubled."""
    union: list[Part] = []
    for start, end in sorted(parts):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((start, end))
    return union


# -- vectors


def embed_slices(embedder: Embedder, built: Sequence[SliceRows], settings: SliceSettings) -> list[SliceRows]:
    """e = Embed(slice) for all documents in one call, and the optional views with a call each."""
    columns: dict[str, list[list[str]]] = {
        "slice": [[search_key(x.title, x.headings, x.text).strip() for x in rows.slices] for rows in built],
        "chunk": [[search_key(x.title, x.headings, x.text).strip() for x in rows.chunks] for rows in built],
        "summary": [[search_key(x.title, x.headings, x.summary).strip() for x in rows.chunks] for rows in built],
    }
    embedded = {view: _by_document(embedder, columns[view]) for view in settings.vectors}
    none: list[FloatArray | None] = [None] * len(built)
    return [
        replace(rows, vectors=own, chunk_vectors=chunks, summary_vectors=summaries)
        for rows, own, chunks, summaries in zip(
            built,
            embedded["slice"],
            embedded.get("chunk", none),
            embedded.get("summary", none),
            strict=True,
        )
    ]


def _by_document(embedder: Embedder, keys: Sequence[Sequence[str]]) -> list[FloatArray | None]:
    vectors = embedder.embed_documents([key for own in keys for key in own])
    ends = list(accumulate((len(own) for own in keys), initial=0))
    return [vectors[a:b] for a, b in pairwise(ends)]
