"""Searches of one question, remembered: many points of a tuning look for the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any

from mergewise.protocols import FloatArray, Ranking, StoreReader


class RememberedSearches:
    """A `StoreReader` that makes each search once, until it forgets them. All else is asked of `store`."""

    def __init__(self, store: StoreReader) -> None:
        self._store = store
        self._known: dict[Hashable, Future[Ranking]] = {}
        self.made = self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def text_search(
        self, question: str, k: int, where: str | None = None, table: str | None = None, *, words: bool = False
    ) -> Future[Ranking]:
        key = ("text", question, k, where, table, words)
        return self._once(key, lambda: self._store.text_search(question, k, where, table, words=words))

    def vector_search(
        self, vector: FloatArray, k: int, where: str | None = None, table: str | None = None, column: str = "vector"
    ) -> Future[Ranking]:
        key = ("vector", vector.tobytes(), k, where, table, column)
        return self._once(key, lambda: self._store.vector_search(vector, k, where, table, column))

    def forget(self) -> None:
        """To be called before the next question."""
        self._known.clear()

    def _once(self, key: Hashable, search: Callable[[], Future[Ranking]]) -> Future[Ranking]:
        self.asked += 1
        if key not in self._known:
            self.made += 1
            self._known[key] = search()
        return self._known[key]
