"""Small indexes made by hand, and readers that return what a test tells them to."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache

import numpy as np

from mergewise.index.names import names_of
from mergewise.index.tree import TreeSettings, build_trees
from mergewise.models.minilm import MAX_TOKENS, cut, load_session
from mergewise.models.tokens import count_tokens, encode
from mergewise.protocols import FloatArray
from mergewise.store.memory import MemoryStore
from mergewise.types import ChunkBounds, Definition, Document, DocumentRows, Hit, Leaf, LeafSentences, Section, SliceHit

SMALL = TreeSettings(leaf_tokens=18, max_leaf_tokens=36, section_tokens=90, min_section_tokens=0)


_session = cache(load_session)


def token_vectors(text: str) -> tuple[FloatArray, Sequence[tuple[int, int]]]:
    """The vectors of a text's word pieces by the network alone, and where they stand; the marks stand at (0, 0)."""
    (encoding,) = encode([text], marks=True, offsets=True)
    ids = np.array([cut(encoding.ids, MAX_TOKENS)])
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    (vectors,) = _session().run(["token_vectors"], inputs)
    return vectors[0], cut(encoding.offsets, MAX_TOKENS)


class HashEmbedder:
    """Bags of words hashed into unit vectors: deterministic between runs, and it records what it was asked."""

    spec = "hash"
    dimension = 32

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        self.asked += texts
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split() or [""]:
                row[int(hashlib.md5(word.encode("utf-8", "replace")).hexdigest(), 16) % self.dimension] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-9)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return self.embed_documents(texts)


def rows_of(
    documents: Sequence[Document],
    embedder: HashEmbedder | None = None,
    settings: TreeSettings = SMALL,
    digest: str = "1",
) -> list[DocumentRows]:
    rows = []
    for document, tree in zip(documents, build_trees(documents, count_tokens, settings), strict=True):
        vectors = None if embedder is None else embedder.embed_documents([leaf.text for leaf in tree.leaves])
        names = names_of(document, tree)
        rows.append(DocumentRows(document, digest, tree.leaves, tree.sections, tree.sentences, names, vectors))
    return rows


def memory_store(documents: Sequence[Document], embedder: HashEmbedder | None = None) -> MemoryStore:
    store = MemoryStore(0 if embedder is None else embedder.dimension)
    store.write(rows_of(documents, embedder))
    return store


class ScriptedReader:
    """An `IndexReader` over a store in memory whose searches return given leaves at given scores; it counts its calls."""

    def __init__(self, store: MemoryStore, scores: dict[int, float] | Sequence[tuple[int, float]]) -> None:
        self.store = store
        self.scores = list(scores.items() if isinstance(scores, dict) else scores)
        self.calls: list[str] = []
        self.lost: set[int] = set()  # sections that the index does not have

    def search(self, question: str, k: int) -> list[Hit]:
        leaves = self.store.leaves([leaf for leaf, _ in self.scores])
        return [Hit(leaves[i], score) for i, score in sorted(self.scores, key=lambda s: -s[1])[:k]]

    def sections(self, ids: Sequence[int]) -> dict[int, Section]:
        self.calls.append("sections")
        return {i: s for i, s in self.store.sections(ids).items() if i not in self.lost}

    def leaves(self, ids: Sequence[int]) -> dict[int, Leaf]:
        self.calls.append("leaves")
        return self.store.leaves(ids)

    def vectors(self, ids: Sequence[int]) -> dict[int, FloatArray]:
        return self.store.vectors(ids)

    def rank(self, question: str, k: int) -> list[tuple[int, float]]:
        return sorted(self.scores, key=lambda s: -s[1])[:k]

    def has(self, view: str) -> bool:
        return view in self.store.views

    def slices(self, question: str, k: int) -> list[SliceHit]:
        return []

    def chunk_bounds(self, ids: Sequence[int]) -> dict[int, ChunkBounds]:
        return self.store.chunk_bounds(ids)

    def question_vector(self, question: str) -> FloatArray | None:
        return None

    def sentences(self, ids: Sequence[int]) -> dict[int, LeafSentences]:
        self.calls.append("sentences")
        return self.store.sentences(ids)

    def definitions(self, names: Sequence[str]) -> dict[str, list[Definition]]:
        return self.store.definitions(names)
