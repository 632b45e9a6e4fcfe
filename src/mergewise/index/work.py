"""The progress of indexing in characters of text. Characters count when they are embedded, not when they are written.

If texts are written first, a character counts partly when it is written and partly when it is embedded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from mergewise.errors import Cancelled
from mergewise.protocols import Embedder, FloatArray, PartEmbedder, languages_known
from mergewise.store.views import Progress
from mergewise.types import Part

TEXTS_AT_ONCE = 512
"""Number of texts that are embedded between two progress messages."""

TEXT_SHARE = 0.07
"""Share of reading, splitting and writing in the work on a character. The rest is embedding."""


class IndexingProgress:
    """Characters done and in total. An unread file counts by its bytes.

    Each progress message also calls `cancel`. If it returns true, `Cancelled` is raised.
    """

    def __init__(self, progress: Progress | None = None, cancel: Callable[[], bool] | None = None) -> None:
        self._progress = progress
        self._cancel = cancel
        self._name = ""
        self._total = 0
        # characters of finished batches
        self._written = 0.0
        # characters done of the current batch
        self._batch = 0.0
        # weight of a character in the current stage
        self._scale = 1.0

    def begin(self, size: int, kept: int = 0, waiting: int = 0, *, texts_first: bool = False) -> None:
        """Begin work on new texts, with `texts_first` the stage that only writes texts.

        `kept` texts are in the index since an earlier run, and `waiting` of them lack vectors.
        """
        if texts_first:
            self._scale = TEXT_SHARE
        self._total = size + max(kept, waiting)
        self._written = max(kept, waiting) - (1 - TEXT_SHARE) * waiting
        self.tell()

    def begin_stage(self, amount: int, stages: int) -> None:
        """Begin a stage of `amount` characters or leaves. `stages` is the number of remaining stages, with this one."""
        self._scale = max(0.0, self._total - self._written) / max(1, amount) / stages
        # no document is read in a later stage
        self._name = ""

    def begin_more(self, size: int) -> None:
        self._total += size

    def look_at(self, name: str) -> None:
        self._name = name
        self.tell()

    def count_read(self, expected: int, characters: int) -> None:
        """Replace the expected size of a text by its real one."""
        self._total += characters - expected
        self.tell()

    def watch(self, embedder: Embedder | None, characters: int, calls: int) -> Embedder | None:
        """Wrap an embedder, so that it reports its progress with a batch of texts. The batch comes in `calls` calls."""
        if embedder is None or (self._progress is None and self._cancel is None):
            return embedder
        kind = _WatchedPartEmbedder if isinstance(embedder, PartEmbedder) else _WatchedEmbedder
        return kind(embedder, self.shares_of(characters, calls))

    def shares_of(self, characters: int, builders: int) -> Callable[[float], None]:
        """Return a callback for the builders of views, which report their shares of a batch that a chat model writes."""

        def tell(share: float) -> None:
            most = characters * self._scale
            self._batch = min(most, self._batch + share * most / max(1, builders))
            self.tell()

        return tell

    def count_written(self, characters: int) -> None:
        """Count a finished batch."""
        self._written += characters * self._scale
        self._batch = 0.0
        self.tell()

    def finish(self) -> None:
        """Report that all work is done. It can no longer be cancelled."""
        self._written, self._batch, self._cancel = self._total, 0.0, None
        self.tell()

    def tell(self) -> None:
        """Report the progress, and raise Cancelled if the work is cancelled."""
        if self._cancel is not None and self._cancel():
            raise Cancelled("the work was cancelled", "repeat the call to do the rest")
        if self._progress is not None:
            self._progress(min(self._total, int(self._written + self._batch)), self._total, self._name)


class _WatchedEmbedder:
    """An embedder that reports its progress after every few texts."""

    def __init__(self, embedder: Embedder, tell: Callable[[float], None]) -> None:
        self.embedder = embedder
        self.spec, self.dimension = embedder.spec, embedder.dimension
        self.languages, self.embed_queries = languages_known(embedder), embedder.embed_queries
        self._tell = tell

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        return np.concatenate([self.embedder.embed_documents(texts[part]) for part in self._parts_of(texts)])

    def _parts_of(self, texts: Sequence[str]) -> Iterator[slice]:
        """Yield slices of `TEXTS_AT_ONCE` texts, at least one, so that an empty result has the right shape."""
        for first in range(0, max(1, len(texts)), TEXTS_AT_ONCE):
            part = slice(first, first + TEXTS_AT_ONCE)
            yield part
            self._tell(sum(map(len, texts[part])) / max(1, sum(map(len, texts))))


class _WatchedPartEmbedder(_WatchedEmbedder):
    """An embedder of parts that reports its progress."""

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Sequence[Part]]) -> tuple[FloatArray, list[FloatArray]]:
        assert isinstance(self.embedder, PartEmbedder)
        rows, part_rows = [], []
        for part in self._parts_of(texts):
            vectors, vectors_of_parts = self.embedder.embed_parts(texts[part], parts[part])
            rows.append(vectors)
            part_rows += vectors_of_parts
        return np.concatenate(rows), part_rows
