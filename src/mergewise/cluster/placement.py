"""The state that searchers, the coordinator and gatherers share: the searchers of each shard of one snapshot.

All actors of an index have one namespace, and a searcher is named by the id of its node. So everybody finds them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import blake2b

from mergewise.errors import UsageError
from mergewise.extend import CACHE_SIZE, Manifest, ManifestState, Place, ShardedManifest, place_of, snapshot_of
from mergewise.types import frozen

COORDINATOR = "coordinator"
# the thread pool of a searcher that stays free of questions
CONTROL = "control"
# seconds between two looks at the index, at the searchers, and at the announced placement
REFRESH = 1.0
NodeCache = tuple[str | None, str]
"""The copies of a bucket's files on each node: their directory and their size, as for `mergewise.open`."""
CACHE: NodeCache = (None, CACHE_SIZE)


@frozen
class Placement:
    """The searchers that hold each shard of one snapshot, ready for questions.

    Attributes:
        number: Number of the announcement, which grows.
        version: Version of mergewise of the searchers.
        state: Manifests of all shards.
        searchers: Names of the searchers of each shard.
        replicas: Wanted number of searchers of each shard.
        drained: Names of the searchers that get no shards.
        cache: Wanted cache of each searcher.
    """

    number: int
    version: str
    state: ManifestState
    searchers: tuple[tuple[str, ...], ...]
    replicas: int
    drained: frozenset[str]
    cache: NodeCache

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        return tuple(self.state.manifest.parts.values())

    @property
    def snapshot(self) -> str:
        return snapshot_of(self.manifests)

    @property
    def names(self) -> set[str]:
        return {name for own in self.searchers for name in own}

    def shards_of(self, searcher: str) -> set[int]:
        return {at for at, names in enumerate(self.searchers) if searcher in names}


def searchers_of(shard: int, searchers: Iterable[str], replicas: int) -> tuple[str, ...]:
    """Choose the searchers of a shard by rendezvous hashing: a change of the searchers moves few shards."""

    def weight(searcher: str) -> bytes:
        return blake2b(f"{shard} {searcher}".encode()).digest()

    return tuple(sorted(searchers, key=weight)[:replicas])


def sharded_place(index: str | os.PathLike[str], cache: NodeCache = CACHE) -> Place:
    """Return the place of an index in shards. Raises UsageError for another index."""
    place = place_of(index, None, *cache)
    if not isinstance(place.known(), ShardedManifest):
        raise UsageError(
            f"no index in shards: {place}", "copy one into shards: mergewise reshard --shards N --into DIR"
        )
    return place


def full_name(place: Place) -> str:
    """Return the name of an index on all nodes: its URL or its absolute path."""
    return str(place) if place.refresh is not None else os.path.realpath(place.directory)
