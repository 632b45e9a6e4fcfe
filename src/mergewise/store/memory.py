"""An index in memory: the same protocol as the one on disk, slow and obvious. For tests, and for texts of a moment."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from mergewise.errors import UsageError
from mergewise.protocols import FloatArray
from mergewise.store.audit import audit
from mergewise.store.rows import placed, with_checked_metadata
from mergewise.text.keys import search_key
from mergewise.types import (
    AddReport,
    Chunk,
    ChunkBounds,
    Definition,
    Document,
    DocumentInfo,
    DocumentRows,
    Leaf,
    LeafSentences,
    Problem,
    Section,
    Slice,
    SliceHit,
    SliceRows,
)

K1, B = 1.2, 0.75
_WORD = re.compile(r"\w+")


class MemoryStore:
    """`Store` and `StoreReader` in one: there is a single state. `dimension` is 0 without vectors."""

    def __init__(self, dimension: int = 0) -> None:
        self.dimension = dimension
        self._rows: dict[str, DocumentRows] = {}
        self._next_id = 0
        self._kinds: dict[str, type] = {}

    # -- Store

    def reader(self) -> MemoryStore:
        return self

    def write(self, rows: Sequence[DocumentRows], *, force: bool = False) -> AddReport:
        added = replaced = 0
        good, failed = with_checked_metadata(rows, self._kinds)
        for row in good:
            standing = self._rows.get(row.document.id)
            if standing is not None and standing.digest == row.digest and not force:
                continue
            added, replaced = added + (standing is None), replaced + (standing is not None)
            self._rows.pop(row.document.id, None)
            self._rows[row.document.id], self._next_id = placed(row, self._next_id)
        return AddReport(added, replaced, len(good) - added - replaced, tuple(failed))

    def remove(self, doc_ids: Sequence[str]) -> int:
        return sum(self._rows.pop(doc_id, None) is not None for doc_id in set(doc_ids))

    def optimize(self) -> None:
        """Nothing to do."""

    def check(self) -> list[Problem]:
        return audit(self, self.dimension)

    def repair(self) -> None:
        """Nothing to do: a change cannot be interrupted."""

    # -- StoreReader

    def documents(self) -> list[DocumentInfo]:
        return [
            DocumentInfo(d.id, d.title, d.metadata, len(d.text), len(rows.leaves))
            for d, rows in ((rows.document, rows) for rows in self._rows.values())
        ]

    def document(self, doc_id: str) -> Document | None:
        rows = self._rows.get(doc_id)
        return None if rows is None else rows.document

    def digests(self, doc_ids: Sequence[str]) -> dict[str, str]:
        return {doc_id: self._rows[doc_id].digest for doc_id in doc_ids if doc_id in self._rows}

    def stored(self, doc_ids: Sequence[str]) -> list[DocumentRows]:
        return [self._rows[doc_id] for doc_id in doc_ids if doc_id in self._rows]

    def row_counts(self) -> dict[str, int]:
        own = [rows.slices for rows in self._rows.values() if rows.slices is not None]
        of_slices = {"chunk": sum(len(x.chunks) for x in own), "slice": sum(len(x.slices) for x in own)}
        return {
            "documents": len(self._rows),
            "leaf": sum(len(rows.leaves) for rows in self._rows.values()),
            "section": sum(len(rows.sections) for rows in self._rows.values()),
            "name": sum(len(rows.names) for rows in self._rows.values()),
            **(of_slices if own else {}),
        }

    def text_search(
        self, question: str, k: int, where: str | None = None, view: str = "leaf"
    ) -> list[tuple[int, float]]:
        """BM25 (Robertson and Zaragoza 2009) with the idf that is never negative."""
        _refuse(where)
        texts = {row.id: _words(search_key(row.title, row.headings, row.text)) for row in self._searched(view)}
        average = sum(map(len, texts.values())) / max(1, len(texts))
        holding = Counter(word for words in texts.values() for word in set(words))
        scores = {}
        for leaf_id, words in texts.items():
            counts = Counter(words)
            length = K1 * (1 - B + B * len(words) / average)
            scores[leaf_id] = sum(
                math.log(1 + (len(texts) - holding[w] + 0.5) / (holding[w] + 0.5))
                * counts[w] * (K1 + 1) / (counts[w] + length)
                for w in set(_words(question)) if counts[w]
            )  # fmt: skip
        return _top({i: score for i, score in scores.items() if score > 0}, k)

    def vector_search(
        self, vector: FloatArray, k: int, where: str | None = None, view: str = "leaf"
    ) -> list[tuple[int, float]]:
        _refuse(where)
        rows = self._vectors() if view == "leaf" else self._slice_vectors(view)
        return _top({i: float(vector @ row) for i, row in rows.items()}, k)

    # -- the slice view

    @property
    def views(self) -> tuple[str, ...]:
        sliced = bool(self._rows) and all(rows.slices is not None for rows in self._rows.values())
        return ("leaf", "slice") if sliced else ("leaf",)

    @property
    def vector_views(self) -> tuple[str, ...]:
        columns = {"slice": "vectors", "chunk": "chunk_vectors", "summary": "summary_vectors"}
        return tuple(
            view
            for view, column in columns.items()
            if any(getattr(rows, column) is not None for rows in self._sliced())
        )

    def slices(self, ids: Sequence[int]) -> dict[int, SliceHit]:
        found = [x for rows in self._sliced() for x in rows.slices if x.id in set(ids)]
        return {x.id: SliceHit(x.id, x.doc_id, x.chunk, x.parts) for x in found}

    def chunk_bounds(self, ids: Sequence[int]) -> dict[int, ChunkBounds]:
        return {
            x.id: ChunkBounds(x.id, number, x.start, x.end, x.first_leaf, x.leaf_count, x.tokens)
            for number, rows in enumerate(self._sliced())
            for x in rows.chunks
            if x.id in set(ids)
        }

    def chunks(self, ids: Sequence[int]) -> dict[int, Chunk]:
        return {x.id: x for rows in self._sliced() for x in rows.chunks if x.id in set(ids)}

    def _sliced(self) -> list[SliceRows]:
        return [rows.slices for rows in self._rows.values() if rows.slices is not None]

    def _searched(self, view: str) -> Sequence[Leaf | Chunk | Slice]:
        if view == "leaf":
            return self._leaves()
        return [x for rows in self._sliced() for x in (rows.slices if view == "slice" else rows.chunks)]

    def _slice_vectors(self, view: str) -> dict[int, FloatArray]:
        column = {"slice": "vectors", "chunk": "chunk_vectors", "summary": "summary_vectors"}[view]
        found: dict[int, FloatArray] = {}
        for rows in self._sliced():
            vectors: FloatArray | None = getattr(rows, column)
            if vectors is not None:
                ids = [x.id for x in rows.slices] if view == "slice" else [x.id for x in rows.chunks]
                found |= zip(ids, vectors.astype(np.float32), strict=True)
        return found

    def leaves(self, ids: Sequence[int]) -> dict[int, Leaf]:
        return {leaf.id: leaf for leaf in self._leaves() if leaf.id in set(ids)}

    def sections(self, ids: Sequence[int]) -> dict[int, Section]:
        return {x.id: x for rows in self._rows.values() for x in rows.sections if x.id in set(ids)}

    def vectors(self, ids: Sequence[int]) -> dict[int, FloatArray]:
        return {i: vector for i, vector in self._vectors().items() if i in set(ids)}

    def sentences(self, ids: Sequence[int]) -> dict[int, LeafSentences]:
        found = {}
        for number, rows in enumerate(self._rows.values()):
            for i, (leaf, sentences) in enumerate(zip(rows.leaves, rows.sentences, strict=True)):
                if leaf.id in set(ids):
                    found[leaf.id] = LeafSentences(
                        id=leaf.id,
                        document=number,
                        doc_id=leaf.doc_id,
                        title=leaf.title,
                        headings=leaf.headings,
                        start=leaf.start,
                        body=leaf.body,
                        text=leaf.text,
                        sentences=sentences,
                        vectors=_sentence_vectors(rows, i),
                    )
        return found

    def definitions(self, names: Sequence[str], where: str | None = None) -> dict[str, list[Definition]]:
        _refuse(where)
        found: dict[str, list[Definition]] = {}
        for number, rows in enumerate(self._rows.values()):
            for name in rows.names:
                if name.name in set(names):
                    found.setdefault(name.name, []).append(Definition(number, name.first_leaf, name.leaf_count))
        return {name: sorted(places, key=lambda place: place.first_leaf) for name, places in found.items()}

    def _leaves(self) -> list[Leaf]:
        return [leaf for rows in self._rows.values() for leaf in rows.leaves]

    def _vectors(self) -> dict[int, FloatArray]:
        return {
            leaf.id: np.asarray(vector, np.float32)
            for rows in self._rows.values()
            if rows.vectors is not None
            for leaf, vector in zip(rows.leaves, rows.vectors, strict=True)
        }


def _sentence_vectors(rows: DocumentRows, leaf: int) -> FloatArray | None:
    if rows.vectors is None:
        return None
    if rows.sentence_vectors is None:
        return np.repeat(rows.vectors[leaf][None].astype(np.float32), len(rows.sentences[leaf]), axis=0)
    vectors = rows.sentence_vectors[leaf].astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9), np.float32)


def _refuse(where: str | None) -> None:
    if where is not None:
        raise UsageError("an index in memory has no conditions", "open a directory to use `where`")


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _top(scores: dict[int, float], k: int) -> list[tuple[int, float]]:
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]
