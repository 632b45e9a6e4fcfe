"""Hybrid search: full text and vectors at the same time, fused into one ranking."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Annotated, Any, Literal, TypeVar

from mergewise.errors import UsageError
from mergewise.index.tree import TreeReader
from mergewise.protocols import Embedder, FloatArray, Ranking, Reranker, StoreReader
from mergewise.ranges import MOST_ROWS, SHARE, Range, check_fields
from mergewise.retrieve.fusion import convex, reciprocal_rank, spread
from mergewise.store.views import Registry
from mergewise.text.keys import search_key
from mergewise.types import Definition, Hit, Leaf, LeafSentences, Section, Span

log = logging.getLogger("mergewise")

Row = TypeVar("Row")
Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How two rankings become one. `weight` is that of the vectors in the convex fusion, `depth` the rows of each ranking."""

    fusion: Literal["convex", "reciprocal-rank"] = "convex"
    weight: Annotated[float, SHARE] = 0.4
    depth: Annotated[int, Range(1, MOST_ROWS)] = 100

    def __post_init__(self) -> None:
        check_fields(self)


class HybridReader:
    """The `IndexReader` that strategies see: one state of a store, an embedder or none, and a condition for all searches.

    It is also the `RowReader` that the readers of views work with. The reader of the tree answers for leaves and sections.
    """

    def __init__(
        self,
        store: StoreReader,
        embedder: Embedder | None,
        registry: Registry,
        where: str | None = None,
        settings: SearchSettings = SearchSettings(),
        reranker: Reranker | None = None,
    ) -> None:
        self._store = store
        self._registry = registry
        self._embedder = embedder
        self._where = where
        self._search = settings
        self._reranker = reranker
        self._questions: dict[str, FloatArray] = {}
        self._readers: dict[str, Any] = {}
        self._tree = TreeReader(self)

    # -- IndexReader

    def search(self, question: str, k: int) -> list[Hit]:
        """The `k` best leaves, best first. Without an embedder, full-text search alone ranks them.

        With a reranker, these leaves get the reranker's scores and are sorted by them.
        """
        text, vector = self._both_searches(question, k, None, "vector")
        ranking = self._fuse(text, vector, k)
        leaves = self.leaves([row for row, _ in ranking])
        bm25, cosine = dict(text), dict(vector)
        hits = [Hit(leaves[row], score, bm25.get(row), cosine.get(row)) for row, score in ranking if row in leaves]
        return hits if self._reranker is None else _rerank(question, hits, self._reranker)

    def rank(self, question: str, k: int) -> list[tuple[int, float]]:
        if self._reranker is not None:
            return [(hit.row.id, hit.score) for hit in self.search(question, k)]
        return self._tree.rank(question, k)

    def leaves(self, ids: Sequence[int]) -> dict[int, Leaf]:
        return self._tree.leaves(ids)

    def sections(self, ids: Sequence[int]) -> dict[int, Section]:
        return self._tree.sections(ids)

    def sentences(self, ids: Sequence[int]) -> dict[int, LeafSentences]:
        return self._tree.sentences(ids)

    def leaves_under(self, spans: Sequence[Span]) -> list[int]:
        return self._tree.leaves_under(spans)

    def definitions(self, names: Sequence[str]) -> dict[str, list[Definition]]:
        return self._tree.definitions(names)

    def question_vector(self, question: str) -> FloatArray | None:
        if self._embedder is None:
            return None
        if question not in self._questions:
            self._questions[question] = self._embedder.embed_queries([question])[0]
        return self._questions[question]

    def has(self, view: str) -> bool:
        return view in self._store.views

    def view(self, name: str) -> Any:
        if not self.has(name):
            raise UsageError(f"this index has no {name} view", f"build it: mergewise index PATH... --views leaf,{name}")
        if name not in self._readers:
            self._readers[name] = self._registry[name].reader(self)
        return self._readers[name]

    # -- RowReader

    def rank_rows(self, question: str, k: int, table: str, column: str = "vector") -> Ranking:
        return self._fuse(*self._both_searches(question, k, table, column), k)

    def rank_by_vectors(self, question: str, k: int, table: str, column: str = "vector") -> Ranking:
        query = self.question_vector(question)
        if query is None:
            raise UsageError("this index has no vectors", "search by full text, or index with an embedder")
        found = self._store.vector_search(query, max(k, self._search.depth), self._where, table, column).result()
        return sorted(spread(found).items(), key=lambda pair: (-pair[1], pair[0]))[:k]

    def rows(self, table: str, record: type[Row], ids: Sequence[int]) -> dict[int, Row]:
        return self._store.rows(table, record, ids)

    def vectors(self, ids: Sequence[int], table: str | None = None, column: str = "vector") -> dict[int, FloatArray]:
        return self._store.vectors(ids, table, column)

    def whole(self, table: str, columns: Sequence[str]) -> Any:
        return self._store.whole(table, columns)

    def once(self, name: str, make: Callable[[], Kept]) -> Kept:
        return self._store.once(name, make)

    def numbers(self) -> frozenset[int] | None:
        """Of documents that say the same, the first alone: searches leave the others out as well."""
        copies = self._store.copies(self._where)
        if not copies:
            return None if self._where is None else self._store.numbers(self._where)
        return self._store.once(
            f"first numbers {self._where}", lambda: frozenset(self._store.numbers(self._where) - copies.keys())
        )

    def leaf_ranges(self, doc_ids: Sequence[str]) -> dict[str, range]:
        return self._store.leaf_ranges(doc_ids)

    def settings(self, view: str) -> Mapping[str, Any]:
        return self._store.views[view]

    # -- both searches

    def _both_searches(self, question: str, k: int, table: str | None, column: str) -> tuple[Ranking, Ranking]:
        """Both rankings. Full text is searched while the question is embedded, and while its vector is searched."""
        began = perf_counter()
        depth = max(k, self._search.depth)
        text = self._store.text_search(question, depth, self._where, table)
        query = self.question_vector(question)
        vector = None if query is None else self._store.vector_search(query, depth, self._where, table, column)
        found = text.result(), [] if vector is None else vector.result()
        took = 1000 * (perf_counter() - began)
        log.debug("searched: %d rows by text, %d by vectors, %.1f ms", len(found[0]), len(found[1]), took)
        return found

    def _fuse(self, text: Ranking, vector: Ranking, k: int) -> list[tuple[int, float]]:
        if self._embedder is None:
            fused = convex(text, vector, 0.0)
        elif self._search.fusion == "reciprocal-rank":
            fused = reciprocal_rank([text, vector])
        else:
            fused = convex(text, vector, self._search.weight)
        return sorted(fused.items(), key=lambda pair: (-pair[1], pair[0]))[:k]


def _rerank(question: str, hits: Sequence[Hit], reranker: Reranker) -> list[Hit]:
    texts = [search_key(hit.row.title, hit.row.headings, hit.row.text).strip() for hit in hits]
    scores = reranker.score(question, texts) if hits else ()
    scored = [replace(hit, score=float(score)) for hit, score in zip(hits, scores, strict=True)]
    return sorted(scored, key=lambda hit: (-hit.score, hit.row.id))
