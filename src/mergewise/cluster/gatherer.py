"""The transport of the gatherer: one message a searcher, with a deadline, hedging and failover.

searcher   of each shard the first of its replicas, in an order of this process, that has not failed or been slow lately
deadline   travels with the message in seconds, and a message that is not needed any more is cancelled in the searcher's queue
hedging    a message that takes longer than 95 % of its searcher's answers is sent to the next replicas, too: at most 5 % of all
failover   a dead or silent searcher, a missing snapshot, or files that cannot be read: the message goes to the next replicas
"""

from __future__ import annotations

import logging
import os
import pickle
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any
from zlib import crc32

import numpy as np

import mergewise
from mergewise.cluster.actors import Actors
from mergewise.cluster.placement import REFRESH, Placement
from mergewise.concurrency import check_time
from mergewise.designs import VIEWS
from mergewise.errors import ShardsMissing, StoreError, UsageError
from mergewise.index.cluster import join, load_ray
from mergewise.store.lance import LanceStore
from mergewise.store.lance_reader import LanceReader
from mergewise.store.manifest import ShardedManifest
from mergewise.store.places.place import Place
from mergewise.store.shards.calls import Call, Calls, answers
from mergewise.store.shards.reader import ShardedReader
from mergewise.store.shards.store import ShardedStore

log = logging.getLogger("mergewise")

# share of messages that may be hedged, and seconds until the first ones are
HEDGED, FIRST_HEDGE = 0.05, 0.5
# seconds for which a searcher that failed or was slow is the last choice: at first, and at most after further failures
AVOIDED, LONGEST = 1.0, 16.0
# seconds without an answer after which a searcher counts as dead
SILENT = 30.0
# number of last answers of a searcher whose times are kept, and how many must be known
_MEASURED, _FEWEST = 200, 20
# longest wait in seconds without a look at the deadline
LOOK = 0.5


@dataclass(eq=False)
class Message:
    """Calls on their way to a searcher."""

    searcher: str
    shards: list[int]
    sent: float
    is_hedged: bool = False


class Searchers:
    """What this process knows of the searchers, over all questions."""

    def __init__(self, actors: Actors) -> None:
        self.actors = actors
        self.messages = self.hedges = 0
        # until when a searcher is avoided, and for how long
        self._avoided: dict[str, tuple[float, float]] = {}
        self._seconds: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_MEASURED))

    def in_order(self, shard: int, searchers: Sequence[str]) -> list[str]:
        """Sort the replicas of a shard, best first. Each process has its own order, so that all replicas have work."""
        now, own = monotonic(), os.getpid()
        late = {name: max(0.0, self._avoided.get(name, (0.0, 0.0))[0] - now) for name in searchers}
        return sorted(searchers, key=lambda name: (late[name], crc32(f"{own} {shard} {name}".encode())))

    def avoid(self, searcher: str) -> None:
        seconds = min(LONGEST, 2 * self._avoided.get(searcher, (0.0, AVOIDED / 2))[1])
        self._avoided[searcher] = monotonic() + seconds, seconds

    def send(self, message: Message, snapshot: str, calls: Calls) -> Any:
        """Send a message, and return the reference of its answer. Raises ValueError if the searcher does not live."""
        self.messages += 1
        request = pickle.dumps({at: calls[at] for at in message.shards}, pickle.HIGHEST_PROTOCOL)
        return self.actors.get(message.searcher).ask.remote(snapshot, check_time(), request)

    def newer_placement(self, known: Placement) -> Placement | None:
        """Ask a searcher for a newer placement, or all searchers if those of the known one died or were slow."""
        now = monotonic()
        named = {name for own in known.searchers for name in own}
        good = [name for name in self.in_order(0, sorted(named)) if self._avoided.get(name, (0.0, 0.0))[0] < now]
        asked = good[:1] or self.actors.searchers()
        newest, heard = self.actors.newest_placement(asked, known.number)
        for name in {*asked} - heard:
            self.avoid(name)
        return newest

    def note_answer(self, message: Message) -> None:
        self._seconds[message.searcher].append(monotonic() - message.sent)
        self._avoided.pop(message.searcher, None)

    def hedged_after(self, message: Message) -> float:
        """Return the time at which the message is sent to other replicas, too."""
        if message.is_hedged or self.hedges > HEDGED * self.messages:
            return message.sent + SILENT
        known = self._seconds[message.searcher]
        wait = FIRST_HEDGE if len(known) < _FEWEST else float(np.percentile(np.array(known), 95))
        return message.sent + wait


class ClusterShards:
    """The `Shards` protocol over the searchers of a placement."""

    def __init__(
        self,
        searchers: Searchers,
        placement: Placement,
        empty: Callable[[int], LanceReader] | None,
        missing: Set[int] = frozenset(),
    ) -> None:
        self.searchers = searchers
        # a later placement of the same snapshot may replace it
        self.placement = placement
        self.manifests, self.snapshot = placement.manifests, placement.snapshot
        self._empty = empty
        self.missing_at_first = self.missing = missing

    @property
    def gaps(self) -> str:
        missing = ", ".join(map(str, sorted(self.missing)))
        return (
            f"{len(self.missing)} of {len(self.manifests)} shards could not be searched: {missing}" if missing else ""
        )

    def ask(self, calls: Calls) -> dict[int, list[Any]]:
        present = {at: own for at, own in calls.items() if at not in self.missing}
        results = _Round(self, present).results() if present else {}
        return results | {at: self._answer_empty(at, own) for at, own in calls.items() if at not in results}

    def give_up(self, shard: int, error: Exception | None) -> None:
        """Answer a shard like an empty one from now on, or raise ShardsMissing."""
        if self._empty is None:
            reason = "no searcher holds it" if error is None else str(error)
            raise ShardsMissing(
                f"shard {shard} of {len(self.manifests)} is not available: {reason}",
                "ask again; see `mergewise cluster status`",
            )
        log.warning("shard %d of %d is not available: answers are partial", shard, len(self.manifests))
        self.missing = self.missing | {shard}

    def _answer_empty(self, at: int, calls: Sequence[Call]) -> list[Any]:
        assert self._empty is not None
        reader = self._empty(at)
        return answers((reader, call) for call in calls)


class _Round:
    """The messages of one `ask`."""

    def __init__(self, shards: ClusterShards, calls: Calls) -> None:
        self._shards, self._calls = shards, calls
        self._searchers = shards.searchers
        self._ray = self._searchers.actors.ray
        self._snapshot = shards.snapshot
        self._results: dict[int, list[Any]] = {}
        self._tried: dict[int, set[str]] = {at: set() for at in calls}
        self._running: dict[Any, Message] = {}

    def results(self) -> dict[int, list[Any]]:
        try:
            self._send(self._calls)
            while self._running and self._lacking(self._calls):
                check_time()
                until = min(self._searchers.hedged_after(one) for one in self._running.values())
                done, _ = self._ray.wait(list(self._running), timeout=min(max(0.001, until - monotonic()), LOOK))
                for ref in done:
                    self._take(ref)
                self._hedge()
            return self._results
        finally:
            for ref, message in self._running.items():
                # another searcher was quicker, or the question is over
                self._ray.cancel(ref)
                if message.is_hedged:
                    self._searchers.avoid(message.searcher)

    def _lacking(self, shards: Iterable[int]) -> list[int]:
        return [at for at in shards if at not in self._results and at not in self._shards.missing]

    def _send(self, shards: Iterable[int], error: Exception | None = None) -> None:
        """Send the calls of each shard to its next replica. A shard without one is given up, unless a message still runs."""
        messages: dict[str, list[int]] = defaultdict(list)
        for at in shards:
            order = self._searchers.in_order(at, self._shards.placement.searchers[at])
            replica = next((name for name in order if name not in self._tried[at]), None)
            if replica is not None:
                self._tried[at].add(replica)
                messages[replica].append(at)
            elif not any(at in one.shards for one in self._running.values()):
                self._shards.give_up(at, error)
        for searcher, own in messages.items():
            message = Message(searcher, own, monotonic())
            try:
                self._running[self._searchers.send(message, self._snapshot, self._calls)] = message
            except ValueError as dead:
                self._fail(message, dead)

    def _take(self, ref: Any) -> None:
        message = self._running.pop(ref)
        try:
            outcome = pickle.loads(self._ray.get(ref))
        except self._ray.exceptions.RayError as error:
            self._fail(message, error)
            return
        if isinstance(outcome, dict):
            self._searchers.note_answer(message)
            self._results = outcome | self._results
        elif isinstance(outcome, StoreError | OSError):
            self._searchers.avoid(message.searcher)
            self._send(self._lacking(message.shards), outcome)
        else:
            raise outcome

    def _fail(self, message: Message, error: Exception) -> None:
        """Note that a searcher died, and send its message to others."""
        self._searchers.avoid(message.searcher)
        self._searchers.actors.forget(message.searcher)
        self._send(self._lacking(message.shards), error)

    def _hedge(self) -> None:
        """Send late messages to other replicas, too. A silent searcher counts as dead."""
        for ref, message in list(self._running.items()):
            now = monotonic()
            if now >= message.sent + SILENT:
                del self._running[ref]
                self._fail(message, StoreError(f"{message.searcher} is silent"))
            elif now >= self._searchers.hedged_after(message):
                message.is_hedged = True
                others = [at for at in self._lacking(message.shards) if self._has_other_replica(at)]
                self._searchers.hedges += bool(others)
                self._send(others)

    def _has_other_replica(self, at: int) -> bool:
        return not self._tried[at].issuperset(self._shards.placement.searchers[at])


class ClusterStore(ShardedStore):
    """The store of an index that a cluster searches. It cannot be changed.

    Args:
        place: Place of the index.
        address: Address of the Ray cluster.
        partial: Answer without the shards that no searcher holds, instead of raising ShardsMissing.
    """

    def __init__(self, place: Place, address: str, *, partial: bool = False) -> None:
        super().__init__(place, VIEWS)
        ray = load_ray()
        join(ray, address)
        actors = Actors(ray, place)
        self._searchers = Searchers(actors)
        self._partial, self._is_partial = partial, False
        self._looked_at = monotonic()
        found, _ = actors.newest_placement(actors.searchers())
        if found is None:
            raise UsageError(
                f"no searchers of {place} on this cluster", f"start them: mergewise cluster start --index {place}"
            )
        self._cluster = self._shards_of(found)

    @property
    def manifest(self) -> ShardedManifest:
        return self._checked(self._cluster.placement.state.manifest)

    def reader(self) -> ShardedReader:
        """Return the reader of the last announced snapshot."""
        with self._opening:
            self._refresh()
            if self._reader is None or self._reader.shards is not self._cluster:
                # a reader without all shards has values of empty shards
                before = None if self._is_partial else self._reader
                self._is_partial = bool(self._cluster.missing)
                self._reader = ShardedReader(self._cluster, self.directory, VIEWS, before)
            return self._reader

    def _refresh(self) -> None:
        """Look for a newer placement from time to time. Search for shards that were missing again."""
        known, now = self._cluster, monotonic()
        if now > self._looked_at + REFRESH:
            self._looked_at = now
            newer = self._searchers.newer_placement(known.placement)
            if newer is not None and newer.snapshot == known.snapshot:
                known.placement = newer
            if known.missing or (newer is not None and newer.snapshot != known.snapshot):
                self._cluster = self._shards_of(newer or known.placement)
        elif known.missing != known.missing_at_first:
            # a shard was lost during a question, so the reader has mixed values
            self._cluster = self._shards_of(known.placement, known.missing)

    def _shards_of(self, placement: Placement, missing: Set[int] = frozenset()) -> ClusterShards:
        if placement.version != mergewise.__version__:
            raise UsageError(
                f"the searchers of {self.place} have mergewise {placement.version} (expected {mergewise.__version__})",
                "install the same version on all nodes",
            )
        return ClusterShards(self._searchers, placement, self._empty_shard if self._partial else None, missing)

    def _empty_shard(self, at: int) -> LanceReader:
        """Return a reader of a shard without documents, with the same views."""
        empty = replace(self.manifest.shards[at], tables={}, mapped={}, unembedded={})
        return LanceReader(self.place.shard(list(self.manifest.parts)[at]), empty, VIEWS)

    @contextmanager
    def _change(self) -> Iterator[list[LanceStore]]:
        raise UsageError(f"{self.place} is open for questions only", "open it without `ray` to change it")
        yield []
