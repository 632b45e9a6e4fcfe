"""The actor of a node. It holds shards of the last snapshots open and answers calls to them.

Messages are pickled here, because Ray's own pickling calls Python for each record.
"""

from __future__ import annotations

import os
import pickle
from collections import defaultdict, deque
from collections.abc import Iterable
from resource import RUSAGE_SELF, getrusage
from threading import Lock, Thread
from time import monotonic, perf_counter
from typing import Any

import numpy as np

import mergewise
from mergewise import VIEWS
from mergewise.cluster.placement import NodeCache, Placement, sharded_place
from mergewise.errors import MergewiseError, StoreError
from mergewise.extend import (
    LanceReader,
    Manifest,
    ManifestState,
    answers,
    check_time,
    deadline_in,
    remote_parent,
    snapshot_of,
    span,
)

# seconds for which a searcher holds a shard that no placement names any more, and for which an error excludes it from a snapshot
KEPT, EXCLUDED = 60.0, 30.0
_MEASURED = 1000


class NoSuchSnapshot(StoreError):
    """A shard or a snapshot that a searcher does not hold. Another searcher may."""

    retryable = True


class Searcher:
    """The shards that one node holds."""

    def __init__(self, index: str, name: str, cache: NodeCache) -> None:
        self._name, self._cache = name, cache
        self._place = sharded_place(index, cache)
        self._readers: dict[tuple[str, int], LanceReader] = {}
        # the bytes that the shards of the last snapshot need in the cache
        self._copied = 0
        # the last two announced placements, the newest first, and the one that is prepared
        self._placements: list[Placement] = []
        self._prepared: list[Placement] = []
        # the time since when a reader is unneeded
        self._unneeded: dict[tuple[str, int], float] = {}
        self._opening = Lock()
        self._seconds: deque[float] = deque(maxlen=_MEASURED)
        # the last error, its snapshot and its time
        self._failed = ("", "", 0.0)

    def report(self) -> dict[str, Any]:
        """Return the state as JSON values: memory in bytes, and times of answers in milliseconds. Close unneeded readers."""
        placements = self._placements + self._prepared
        needed = {(one.snapshot, at) for one in placements for at in one.shards_of(self._name)}
        now = monotonic()
        self._unneeded = {key: self._unneeded.get(key, now) for key in self._readers.copy() if key not in needed}
        for key, since in self._unneeded.items():
            if now - since > KEPT:
                del self._readers[key]

        self._place.touch()
        held = defaultdict(list)
        for snapshot, at in sorted(self._readers.copy()):
            held[snapshot].append(at)
        p50, p95 = np.percentile(self._seconds.copy() or [0.0], (50, 95))
        error, failed, when = self._failed
        is_recent = monotonic() < when + EXCLUDED
        return {
            "version": mergewise.__version__,
            "pid": os.getpid(),
            "held": dict(held),
            "cache": self._cache,
            "cache_bytes": self._place.cache_bytes,
            "copied": self._copied,
            "announced": self._placements[0].number if self._placements else 0,
            "memory": getrusage(RUSAGE_SELF).ru_maxrss * 1024,
            "p50": round(1000 * p50, 1),
            "p95": round(1000 * p95, 1),
            "error": error if is_recent else "",
            "failed": failed if is_recent else "",
        }

    def prepare(self, placement: Placement) -> None:
        """Begin to open the shards of a placement, unless others are still opening. An error is part of the report."""
        if not self._opening.locked():
            self._prepared = [placement]
            Thread(target=self._prepare, args=(placement,)).start()

    def _prepare(self, placement: Placement) -> None:
        try:
            # recreated tables count their versions from the beginning
            self._place.newer()
            self._open(placement.state, placement.shards_of(self._name))
            # the cache of a bucket keeps the files of the state that it knows
            self._place.know(placement.state)
            parts = [*placement.state.manifest.parts.items()]
            own = (parts[at] for at in placement.shards_of(self._name))
            self._copied = sum(self._place.shard(name).copied_bytes(manifest) for name, manifest in own)
            self._failed = ("", "", 0.0)
        except Exception as error:
            self._failed = (f"{type(error).__name__}: {error}", placement.snapshot, monotonic())

    def _open(self, state: ManifestState, shards: Iterable[int]) -> None:
        """Open shards of a snapshot, with all their files."""
        parts = [*state.manifest.parts.items()]
        snapshot = snapshot_of(manifest for _, manifest in parts)
        with self._opening:
            for at in sorted(shards):
                if (snapshot, at) not in self._readers:
                    self._readers[snapshot, at] = self._reader(*parts[at])

    def _reader(self, name: str, manifest: Manifest) -> LanceReader:
        place = self._place.shard(name)
        # with another number of shards, a shard has another directory
        olds = (own for own in reversed([*self._readers.values()]) if own.directory == place.directory)
        before = next(olds, None)
        if before is not None and before.manifest == manifest:
            return before
        place.check_same()
        reader = LanceReader(place, manifest, VIEWS, before)
        reader.prewarm()
        return reader

    def announce(self, placement: Placement) -> None:
        """Keep a placement for gatherers. The shards of this one and the one before stay open."""
        if not self._placements or placement.number > self._placements[0].number:
            self._placements = [placement, *self._placements[:1]]

    def newer_placement(self, number: int) -> Placement | None:
        """Return the last announced placement if its number is larger."""
        newest = self._placements[0] if self._placements else None
        return newest if newest is not None and newest.number > number else None

    def ask(self, request: bytes) -> bytes:
        """Answer a request: a snapshot, the time in seconds, calls by shard, a state or None, and the carrier of a span.

        With a state, open its shards first. An error is returned, not raised.
        """
        began = perf_counter()
        try:
            snapshot, seconds, calls, state, parent = pickle.loads(request)
            with remote_parent(parent), span("mergewise.shards"), deadline_in(seconds):
                if state is not None:
                    self._open(state, calls)
                check_time()
                try:
                    readers = {at: self._readers[snapshot, at] for at in calls}
                except KeyError as missing:
                    what = f"{self._name} does not hold snapshot and shard {missing}"
                    raise NoSuchSnapshot(what, "ask again") from None
                answer = pickle.dumps(answers(readers, calls), pickle.HIGHEST_PROTOCOL)
        except MergewiseError as error:
            answer = pickle.dumps(error)
        except Exception as error:
            answer = pickle.dumps(StoreError(f"{type(error).__name__}: {error}"))
        self._seconds.append(perf_counter() - began)
        return answer
