"""How far the way into an index is, in characters of text: what is embedded counts as it is embedded, not when it is written.

Where all texts are written first, a character counts in part when it is written, and else when it is embedded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from mergewise.errors import Cancelled
from mergewise.protocols import Embedder, FloatArray, PartEmbedder, languages_known
from mergewise.store.views import Progress

Result = TypeVar("Result")

TEXTS_AT_ONCE = 512
"""Texts that are embedded between two messages."""

TEXT_SHARE = 0.07
"""What of the work on a character is reading, cutting and writing it; all else is embedding (docs/evaluation.md)."""


class IndexingProgress:
    """Characters done and in all. Of a file that was not read yet, its bytes stand for its characters.

    Whenever there is something to tell, `cancel` is asked whether the work is called off; `Cancelled` is then raised.
    """

    def __init__(self, progress: Progress | None = None, cancel: Callable[[], bool] | None = None) -> None:
        self._progress = progress
        self._cancel = cancel
        self._name = ""
        self._total = 0
        # characters of batches that are through
        self._written = 0.0
        self._batch = 0.0  # characters of the present one
        # what a character counts that is done now
        self._scale = 1.0

    @property
    def is_watched(self) -> bool:
        return self._progress is not None

    def begin(self, sizes: Iterable[int]) -> None:
        self._total = sum(sizes)
        self.tell()

    def begin_texts(self) -> None:
        """What is done from here on are texts alone."""
        self._scale = TEXT_SHARE

    def begin_stage(self, amount: int, stages: int) -> None:
        """What is done from here on are so many characters (or leaves), one of so many stages that are left."""
        self._scale = max(0.0, self._total - self._written) / max(1, amount) / stages

    def begin_more(self, size: int) -> None:
        self._total += size

    def look_at(self, name: str) -> None:
        self._name = name
        self.tell()

    def count_read(self, expected: int, characters: int) -> None:
        """A text has as many characters instead of those that were expected."""
        self._total += characters - expected
        self.tell()

    def watch(self, embedder: Embedder | None, characters: int, calls: int) -> Embedder | None:
        """The embedder, which tells how far it is with a batch of texts that it gets in so many calls."""
        if embedder is None or (self._progress is None and self._cancel is None):
            return embedder
        kind = _WatchedPartEmbedder if isinstance(embedder, PartEmbedder) else _WatchedEmbedder
        return kind(embedder, self.shares_of(characters, calls))

    def shares_of(self, characters: int, builders: int) -> Callable[[float], None]:
        """What the builders of so many views tell, each by and by, of a batch whose rows a chat model writes."""

        def tell(share: float) -> None:
            most = characters * self._scale
            self._batch = min(most, self._batch + share * most / max(1, builders))
            self.tell()

        return tell

    def count_written(self, characters: int) -> None:
        """A batch is through."""
        self._written += characters * self._scale
        self._batch = 0.0
        self.tell()

    def finish(self) -> None:
        """All is done: there is nothing to call off any more."""
        self._written, self._batch, self._cancel = self._total, 0.0, None
        self.tell()

    def tell(self) -> None:
        """Say how far it is, and ask whether it is to go on."""
        if self._cancel is not None and self._cancel():
            raise Cancelled("the work was called off", "the same call does the rest")
        if self._progress is not None:
            self._progress(min(self._total, int(self._written + self._batch)), self._total, self._name)


class _WatchedEmbedder:
    """An embedder that says after every few texts which share of them is through."""

    def __init__(self, embedder: Embedder, tell: Callable[[float], None]) -> None:
        self.embedder = embedder
        self._tell = tell

    @property
    def spec(self) -> str:
        return self.embedder.spec

    @property
    def dimension(self) -> int:
        return self.embedder.dimension

    @property
    def languages(self) -> frozenset[str] | None:
        return languages_known(self.embedder)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return self.embedder.embed_queries(texts)

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        rows = [self._tell_after(self.embedder.embed_documents(texts[part]), part, texts) for part in _parts_of(texts)]
        return np.concatenate(rows)

    def _tell_after(self, result: Result, part: slice, texts: Sequence[str]) -> Result:
        self._tell(sum(map(len, texts[part])) / max(1, sum(map(len, texts))))
        return result


class _WatchedPartEmbedder(_WatchedEmbedder):
    """The same of one that gives vectors of parts."""

    def embed_parts(
        self, texts: Sequence[str], parts: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[FloatArray, list[FloatArray]]:
        assert isinstance(self.embedder, PartEmbedder)
        rows, part_rows = [], []
        for part in _parts_of(texts):
            of_texts, of_parts = self._tell_after(self.embedder.embed_parts(texts[part], parts[part]), part, texts)
            rows.append(of_texts)
            part_rows += of_parts
        return np.concatenate(rows), part_rows


def _parts_of(texts: Sequence[str]) -> list[slice]:
    """At least one, so that the shape of nothing is right too."""
    return [slice(first, first + TEXTS_AT_ONCE) for first in range(0, max(1, len(texts)), TEXTS_AT_ONCE)]
