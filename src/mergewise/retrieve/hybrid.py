"""Hybrid search: full text and vectors at the same time, fused into one ranking."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from mergewise.errors import UsageError
from mergewise.protocols import Embedder, FloatArray, Reranker, StoreReader
from mergewise.retrieve.fusion import Ranking, convex, reciprocal_rank
from mergewise.text.keys import search_key
from mergewise.types import Chunk, ChunkBounds, Definition, Hit, Leaf, LeafSentences, Section, SliceHit


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How the two searches become one. `weight` is the share of the vectors in the convex fusion, `depth` the rows of each."""

    fusion: Literal["convex", "reciprocal-rank"] = "convex"
    weight: float = 0.4
    depth: int = 100


@cache
def _threads() -> ThreadPoolExecutor:
    """Kept between questions: starting a thread costs as much as a small search."""
    return ThreadPoolExecutor(8, thread_name_prefix="mergewise-search")


class HybridReader:
    """The `IndexReader` that strategies see: one state of a store, an embedder or none, and a condition for all searches."""

    def __init__(
        self,
        store: StoreReader,
        embedder: Embedder | None,
        where: str | None = None,
        settings: SearchSettings = SearchSettings(),
        reranker: Reranker | None = None,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._where = where
        self._settings = settings
        self._reranker = reranker
        self._questions: dict[str, FloatArray] = {}

    def search(self, question: str, k: int) -> list[Hit]:
        """The `k` best leaves, best first. Without an embedder the ranking is that of the full text.

        A reranker puts those found into its own order, with its scores.
        """
        text, vector = self._both_searches(question, max(k, self._settings.depth))
        fused = self._fuse(text, vector)
        best = sorted(fused, key=lambda row: (-fused[row], row))[:k]
        leaves = self._store.leaves(best)
        bm25, cosine = dict(text), dict(vector)
        hits = [Hit(leaves[row], fused[row], bm25.get(row), cosine.get(row)) for row in best if row in leaves]
        return hits if self._reranker is None else _reranked(question, hits, self._reranker)

    def rank(self, question: str, k: int) -> list[tuple[int, float]]:
        if self._reranker is not None:
            return [(hit.row.id, hit.score) for hit in self.search(question, k)]
        text, vector = self._both_searches(question, max(k, self._settings.depth))
        fused = self._fuse(text, vector)
        return sorted(fused.items(), key=lambda pair: (-pair[1], pair[0]))[:k]

    def question_vector(self, question: str) -> FloatArray | None:
        if self._embedder is None:
            return None
        if question not in self._questions:
            self._questions[question] = self._embedder.embed_queries([question])[0]
        return self._questions[question]

    def slices(self, question: str, k: int) -> list[SliceHit]:
        self._demand_slices()
        text, vector = self._both_searches(question, max(k, self._settings.depth), "slice")
        fused = self._fuse(text, vector)
        best = sorted(fused, key=lambda row: (-fused[row], row))[:k]
        found = self._store.slices(best)
        return [replace(found[row], score=fused[row]) for row in best if row in found]

    def rank_chunks(self, question: str, k: int, view: str) -> list[tuple[int, float]]:
        self._demand_slices()
        if view not in self._store.vector_views:
            raise UsageError(
                f"this index has no vectors of its {view} view",
                "make one with open(..., slices=SliceSettings(vectors=('slice', 'chunk', 'summary')))",
            )
        fused = self._fuse(*self._both_searches(question, max(k, self._settings.depth), view))
        return sorted(fused.items(), key=lambda pair: (-pair[1], pair[0]))[:k]

    def chunks(self, ids: Sequence[int]) -> dict[int, Chunk]:
        return self._store.chunks(ids)

    def chunk_bounds(self, ids: Sequence[int]) -> dict[int, ChunkBounds]:
        return self._store.chunk_bounds(ids)

    def has(self, view: str) -> bool:
        return view in self._store.views

    def _demand_slices(self) -> None:
        if not self.has("slice"):
            raise UsageError("this index has no slice view", "build it: mergewise index PATH... --views leaf,slice")

    def _both_searches(self, question: str, depth: int, view: str = "leaf") -> tuple[Ranking, Ranking]:
        if self._embedder is None:
            return self._store.text_search(question, depth, self._where, view), []
        text = _threads().submit(self._store.text_search, question, depth, self._where, view)
        query = self.question_vector(question)
        assert query is not None  # there is an embedder
        vector = self._store.vector_search(query, depth, self._where, view)
        return text.result(), vector

    def _fuse(self, text: Ranking, vector: Ranking) -> dict[int, float]:
        if self._embedder is None:
            return convex(text, vector, 0.0)
        if self._settings.fusion == "reciprocal-rank":
            return reciprocal_rank([text, vector])
        return convex(text, vector, self._settings.weight)

    def sections(self, ids: Sequence[int]) -> dict[int, Section]:
        return self._store.sections(ids)

    def leaves(self, ids: Sequence[int]) -> dict[int, Leaf]:
        return self._store.leaves(ids)

    def vectors(self, ids: Sequence[int]) -> dict[int, FloatArray]:
        return self._store.vectors(ids)

    def sentences(self, ids: Sequence[int]) -> dict[int, LeafSentences]:
        return self._store.sentences(ids)

    def definitions(self, names: Sequence[str]) -> dict[str, list[Definition]]:
        return self._store.definitions(names, self._where)


def _reranked(question: str, hits: Sequence[Hit], reranker: Reranker) -> list[Hit]:
    texts = [search_key(hit.row.title, hit.row.headings, hit.row.text).strip() for hit in hits]
    scores = reranker.score(question, texts) if hits else ()
    scored = [replace(hit, score=float(score)) for hit, score in zip(hits, scores, strict=True)]
    return sorted(scored, key=lambda hit: (-hit.score, hit.row.id))
