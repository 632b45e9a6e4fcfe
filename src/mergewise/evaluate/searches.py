"""Searches shared by all methods that answer one question.

Each ranking is computed once and each row is read once. Each text is embedded once for all questions, because questions share
passages.

A cached result is charged with the seconds that it first took. So the search time of a method does not depend on the methods
before it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from mergewise.extend import HybridReader, IndexState, ReaderArguments
from mergewise.protocols import Embedder, FloatArray, Ranking, SearchKind
from mergewise.types import Where

Result = TypeVar("Result")
Row = TypeVar("Row")
Id = TypeVar("Id", bound=Hashable)
VECTOR_BYTES = 64_000_000
"""Maximum of bytes of text vectors that are kept for later questions."""
_TEXTS = "documents"


@dataclass(slots=True)
class SearchMemory:
    """A cache of rankings and rows of one state of an index.

    `spent` is the time of all computed results, in seconds. `charged` is the time of all requested results.
    """

    spent: float = 0.0
    charged: float = 0.0
    _known: dict[Hashable, tuple[Any, float]] = field(default_factory=dict)
    _rows: dict[Hashable, dict[Any, tuple[Any, float]]] = field(default_factory=dict)
    _embedder: SharingEmbedder | None = None

    def find(self, key: Hashable, search: Callable[[], Result]) -> Result:
        if key not in self._known:
            began, spent, charged = perf_counter(), self.spent, self.charged
            result = search()
            took = perf_counter() - began
            self._known[key] = result, took
            # a search's own requests are part of its time
            self.spent, self.charged = spent + took, charged
        known, took = self._known[key]
        self.charged += took
        return known  # type: ignore[no-any-return]

    def read(self, key: Hashable, ids: Sequence[Id], rows: Callable[[Sequence[Id]], dict[Id, Row]]) -> dict[Id, Row]:
        """Return the existing rows by id. Each row is charged with its share of the time of its read."""
        known = self._rows.setdefault(key, {})
        new = [row for row in ids if row not in known]
        if new:
            began = perf_counter()
            found = rows(list(dict.fromkeys(new)))
            took = perf_counter() - began
            self.spent += took
            known |= {row: (found.get(row), took / len(new)) for row in new}
        self.charged += sum(known[row][1] for row in ids)
        return {row: known[row][0] for row in ids if known[row][0] is not None}

    def embedder(self, embedder: Embedder) -> SharingEmbedder:
        """Return the embedder with shared vectors. Each call returns the same object, because caches use it as a key."""
        if self._embedder is None or self._embedder.embedder is not embedder:
            self._rows.pop(_TEXTS, None)
            self._embedder = SharingEmbedder(self, embedder)
        return self._embedder

    def forget(self) -> None:
        """Clear the cache, before other questions or another index. Vectors of texts stay up to `VECTOR_BYTES`."""
        texts = self._rows.pop(_TEXTS, {})
        self._known.clear()
        self._rows.clear()
        if sum(vector.nbytes for vector, _ in texts.values()) <= VECTOR_BYTES:
            self._rows[_TEXTS] = texts


class SharingEmbedder:
    """An `Embedder` that embeds each question and each text once. Everything else is delegated to `embedder`."""

    def __init__(self, memory: SearchMemory, embedder: Embedder) -> None:
        self._memory, self.embedder = memory, embedder

    def __getattr__(self, name: str) -> Any:
        return getattr(self.embedder, name)

    @property
    def spec(self) -> str:
        return self.embedder.spec

    @property
    def dimension(self) -> int:
        return self.embedder.dimension

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        return self._vectors(_TEXTS, texts, self.embedder.embed_documents)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return self._vectors("queries", texts, self.embedder.embed_queries)

    def _vectors(self, kind: str, texts: Sequence[str], embed: Callable[[Sequence[str]], FloatArray]) -> FloatArray:
        known = self._memory.read(kind, texts, lambda new: dict(zip(new, embed(new), strict=True)))
        return np.array([known[text] for text in texts], np.float32).reshape(len(texts), self.dimension)


class SharingReader(HybridReader):
    """A reader that caches its searches in `memory`. `given` holds the arguments of `HybridReader` except the kind."""

    def __init__(self, memory: SearchMemory, given: ReaderArguments, kind: SearchKind = "hybrid") -> None:
        super().__init__(*given, kind)
        self._memory = memory

    def searching_by(self, kind: SearchKind) -> HybridReader:
        # raises the error for a kind that this index lacks
        super().searching_by(kind)
        return self if kind == self._kind else SharingReader(self._memory, self._given, kind)

    def _searches(self, question: str, k: int, table: str | None, column: str) -> tuple[Ranking, Ranking, Ranking]:
        key = self._kind, self._where, self._counted, question, max(k, self._search.depth), table, column
        return self._memory.find(key, partial(super()._searches, question, k, table, column))

    def rows(self, table: str, record: type[Row], ids: Sequence[int]) -> dict[int, Row]:
        return self._memory.read((table, record), ids, partial(super().rows, table, record))


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedState(IndexState):
    """A state of an index whose readers share their searches."""

    memory: SearchMemory

    def reader(self, where: Where | None, counted: Where | None = None) -> HybridReader:
        return SharingReader(self.memory, self.arguments(where, counted))


def shared_state(state: IndexState, memory: SearchMemory) -> SharedState:
    embedder = state.models.embedder
    models = replace(state.models, embedder=None if embedder is None else memory.embedder(embedder))
    return SharedState(state.store, state.settings, models, state.ceilings, memory=memory)
