"""The transport of the gatherer: one message a searcher, with a deadline and failover.

searcher   of each shard the first of its replicas, in an order of this thread, that has not failed lately
deadline   travels with the message in seconds, and a message that is not needed any more is cancelled in the searcher's queue
failover   a dead or silent searcher, a missing snapshot, or files that cannot be read: the message goes to the next replicas,
           and at last with the manifests, so that a searcher of the newest placement opens the snapshot again
"""

from __future__ import annotations

import os
import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import get_ident
from time import monotonic
from typing import Any

import mergewise
from mergewise import VIEWS
from mergewise.cluster.actors import Actors
from mergewise.cluster.placement import REFRESH, Placement, searchers_of
from mergewise.errors import ShardsMissing, StoreError, UsageError, first_line
from mergewise.extend import (
    Answers,
    Calls,
    LanceReader,
    LanceStore,
    Place,
    ShardedManifest,
    ShardedReader,
    ShardedStore,
    answers,
    carrier,
    check_time,
    join_cluster,
    load_ray,
)

# seconds for which a searcher that failed is the last choice: at first, and at most after further failures
AVOIDED, LONGEST = 1.0, 16.0
# seconds without an answer after which a searcher counts as dead, and longest wait without a look at the deadline
SILENT, LOOK = 30.0, 0.5


@dataclass(eq=False, slots=True)
class ShardMessage:
    """Calls on their way to a searcher."""

    searcher: str
    shards: list[int]
    sent: float


class Searchers(Actors):
    """The searchers of an index, and what this process knows of them, over all questions."""

    def __init__(self, ray: Any, place: Place) -> None:
        super().__init__(ray, place)
        self.messages = 0
        # until when a searcher is avoided, and for how long
        self._avoided: dict[str, tuple[float, float]] = {}

    def in_order(self, searchers: Iterable[str]) -> list[str]:
        """Sort searchers, best first.

        Each thread has its own order, so that all searchers have work. It is the same for all shards, so that a round has few
        messages.
        """
        now, own = monotonic(), (os.getpid(), get_ident())
        late = {name: max(0.0, self._avoided.get(name, (0.0, 0.0))[0] - now) for name in searchers}
        return sorted(late, key=lambda name: (late[name], hash((*own, name))))

    def avoid(self, searcher: str) -> None:
        seconds = min(LONGEST, 2 * self._avoided.get(searcher, (0.0, AVOIDED / 2))[1])
        self._avoided[searcher] = monotonic() + seconds, seconds

    def trust(self, searcher: str) -> None:
        self._avoided.pop(searcher, None)

    def look(self, known: Placement, *, at_all: bool) -> tuple[Placement | None, set[str]]:
        """Ask a searcher, or all, for a newer placement. Return it, and the searchers that answered."""
        order = self.in_order(known.names)
        for asked in (order[: None if at_all else 1], order):
            newer, heard = self.newest_placement(asked, known.number)
            for name in {*asked} - heard:
                self.avoid(name)
            if heard:
                return newer, heard
        return self.newest_placement(self.searchers(), known.number)


class ClusterShards:
    """The `Shards` protocol over the searchers of a placement. `missing` shards are answered as empty ones."""

    def __init__(self, searchers: Searchers, placement: Placement, missing: Mapping[int, LanceReader]) -> None:
        self.searchers, self.missing = searchers, missing
        # a later placement of the same snapshot may replace it
        self.placement = placement
        self.manifests, self.snapshot = placement.manifests, placement.snapshot

    @property
    def gaps(self) -> str:
        names = ", ".join(map(str, self.missing))
        return f"{len(self.missing)} of {len(self.manifests)} shards could not be searched: {names}" if names else ""

    def ask(self, calls: Calls) -> Answers:
        empty = answers(self.missing, {at: own for at, own in calls.items() if at in self.missing})
        return {**empty, **_Round(self, {at: own for at, own in calls.items() if at not in empty}).answers()}


class _Round:
    """The messages of one `ask`."""

    def __init__(self, shards: ClusterShards, calls: Calls) -> None:
        self._shards, self._calls = shards, calls
        self._searchers, self._ray = shards.searchers, shards.searchers.ray
        self._answers: dict[int, list[Any]] = {}
        # the replicas of each shard that were not asked yet
        self._left = {at: {*shards.placement.searchers[at]} for at in calls}
        # shards that searchers must open for this snapshot
        self._reopened: set[int] = set()
        self._running: dict[Any, ShardMessage] = {}

    def answers(self) -> dict[int, list[Any]]:
        try:
            self._send(self._calls)
            while len(self._answers) < len(self._calls):
                check_time()
                for ref in self._ray.wait([*self._running], timeout=LOOK)[0]:
                    self._take(ref, self._running.pop(ref))
                for ref, message in [*self._running.items()]:
                    if monotonic() > message.sent + SILENT:
                        del self._running[ref]
                        self._fail(message, StoreError(f"{message.searcher} is silent"))
            return self._answers
        finally:
            for ref in self._running:
                self._ray.cancel(ref)

    def _send(self, shards: Iterable[int], error: object = "no searcher holds it") -> None:
        """Send the calls of each shard to its next replica. Without one, let the searchers open it, or raise ShardsMissing."""
        placement = self._shards.placement
        messages: dict[str, list[int]] = defaultdict(list)
        for at in shards:
            if not self._left[at] and at not in self._reopened:
                # successors of dead searchers hold newer snapshots only
                self._reopened.add(at)
                newest = self._searchers.look(placement, at_all=True)[0] or placement
                self._left[at] = {*searchers_of(at, newest.names, newest.replicas)}
            if not self._left[at]:
                what = f"shard {at} of {len(self._shards.manifests)} is not available: {error}"
                raise ShardsMissing(what, "ask again; see `mergewise cluster status`")
            best = self._searchers.in_order(self._left[at])[0]
            self._left[at].remove(best)
            messages[best].append(at)
        for name, own in messages.items():
            message = ShardMessage(name, own, monotonic())
            state = placement.state if self._reopened.intersection(own) else None
            asked = self._shards.snapshot, check_time(), {at: self._calls[at] for at in own}, state, carrier()
            try:
                ask = self._searchers.get(name).ask
            except ValueError as dead:
                self._fail(message, dead)
                continue
            self._searchers.messages += 1
            self._running[ask.remote(pickle.dumps(asked, pickle.HIGHEST_PROTOCOL))] = message

    def _take(self, ref: Any, message: ShardMessage) -> None:
        try:
            outcome = pickle.loads(self._ray.get(ref))
        except self._ray.exceptions.RayError as error:
            self._searchers.forget(message.searcher)
            outcome = StoreError(first_line(error))
        if isinstance(outcome, StoreError):
            self._fail(message, outcome)
        elif isinstance(outcome, Exception):
            raise outcome
        else:
            self._searchers.trust(message.searcher)
            self._answers |= outcome

    def _fail(self, message: ShardMessage, error: Exception) -> None:
        self._searchers.avoid(message.searcher)
        self._send(message.shards, error)


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
        join_cluster(ray, address)
        self._searchers, self._partial, self._looked_at = Searchers(ray, place), partial, monotonic()
        found, _ = self._searchers.newest_placement(self._searchers.searchers())
        if found is None:
            start = f"start them: mergewise cluster start --index {place}"
            raise UsageError(f"no searchers of {place} on this cluster", start)
        self._cluster = self._shards_of(found, ())

    @property
    def manifest(self) -> ShardedManifest:
        return self._checked(self._cluster.placement.state.manifest)

    def reader(self) -> ShardedReader:
        """Return the reader of the last announced snapshot."""
        with self._opening:
            self._look_for_placement()
            if self._reader is None or self._reader.shards is not self._cluster:
                # a reader without all shards has values of empty shards
                before = None if self._partial else self._reader
                self._reader = ShardedReader(self._cluster, self.directory, VIEWS, before)
            return self._reader

    def refresh(self) -> None:
        """Look for a newer placement now."""
        with self._opening:
            self._looked_at = -REFRESH
            self._look_for_placement()

    def _look_for_placement(self) -> None:
        """Look for a newer placement from time to time, and with `partial` for searchers."""
        if monotonic() < self._looked_at + REFRESH:
            return
        self._looked_at, known = monotonic(), self._cluster
        newer, heard = self._searchers.look(known.placement, at_all=self._partial)
        placement = newer or known.placement
        missing = [at for at, own in enumerate(placement.searchers) if self._partial and heard.isdisjoint(own)]
        if placement.snapshot != known.snapshot or missing != [*known.missing]:
            self._cluster = self._shards_of(placement, missing)
        else:
            known.placement = placement

    def _shards_of(self, placement: Placement, missing: Sequence[int]) -> ClusterShards:
        if placement.version != mergewise.__version__:
            what = f"the searchers have mergewise {placement.version} (expected {mergewise.__version__})"
            raise UsageError(what, "install one version everywhere")
        parts = [*self._checked(placement.state.manifest).parts.items()]
        empty = {at: replace(parts[at][1], tables={}, mapped={}, unembedded={}) for at in missing}
        readers = {at: LanceReader(self.place.shard(parts[at][0]), own, VIEWS) for at, own in empty.items()}
        return ClusterShards(self._searchers, placement, readers)

    @contextmanager
    def _change(self, *, cleans: bool = False) -> Iterator[list[LanceStore]]:
        raise UsageError(f"{self.place} is open for questions only", "open it without `ray` to change it")
        yield []
