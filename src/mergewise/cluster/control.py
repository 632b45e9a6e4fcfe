"""Start and stop of the actors of an index, and their state."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mergewise.cluster.actors import Actors
from mergewise.cluster.coordinator import Coordinator
from mergewise.cluster.placement import CACHE, COORDINATOR, NodeCache, full_name, sharded_place
from mergewise.errors import StoreError, UsageError
from mergewise.extend import join_cluster, leave_cluster, load_ray, place_of


class Control:
    """The commands for the actors of an index on a Ray cluster.

    Args:
        index: Directory or URL of the index. All nodes must see it under this name.
        address: Address of the cluster: "local", "auto" or HOST:PORT.
    """

    def __init__(self, index: str | os.PathLike[str], address: str) -> None:
        place = sharded_place(index)
        self._index = full_name(place)
        self._ray = load_ray()
        join_cluster(self._ray, address)
        self._actors = Actors(self._ray, place)

    @property
    def address(self) -> str:
        return str(self._ray.get_runtime_context().gcs_address)

    def start(self, replicas: int, cache: NodeCache = CACHE, *, needs_token: bool = True) -> None:
        """Start the coordinator, which starts a searcher on each node. A running one gets the number of replicas and the cache.

        Raises:
            UsageError: if the size of the cache is invalid, or if the cluster takes commands without a token, unless
                `needs_token` is False.
        """
        # check the size here
        place_of(self._index, None, *cache)
        mode = self._ray.get(self._ray.remote(num_cpus=0)(os.getenv).remote("RAY_AUTH_MODE", ""))
        if needs_token and mode != "token":
            raise UsageError(
                "this Ray cluster needs no token: whoever reaches its ports can run programs on it",
                "set RAY_AUTH_MODE=token on all nodes, or pass --no-auth",
            )
        options = {"max_restarts": -1, "max_task_retries": -1, "max_concurrency": 4}
        actor = self._actors.start(Coordinator, COORDINATOR, options, self._index, replicas, cache)
        self._ray.get(actor.configure.remote(replicas, cache))

    def state(self) -> dict[str, Any]:
        """Return the state of nodes and shards as JSON values."""
        return dict(self._call("state"))

    def drain(self, node: str) -> None:
        """Move the shards of a node to other nodes. Raises UsageError for an unknown node."""
        self._call("drain", node)

    def stop(self) -> None:
        """End all actors of the index."""
        for name in (COORDINATOR, *self._actors.searchers()):
            with suppress(ValueError):
                self._ray.kill(self._actors.get(name))

    def leave(self) -> None:
        """Leave the cluster. A local one ends."""
        leave_cluster(self._ray)

    def wait(self, is_done: Callable[[dict[str, Any]], bool], patience: float) -> dict[str, Any]:
        """Wait for a state and return it. Raises StoreError if it takes longer than `patience` seconds."""
        until = time.monotonic() + patience
        while not is_done(state := self.state()):
            if time.monotonic() > until:
                reason = state["error"] or "shards are opening"
                raise StoreError(f"the cluster is not ready after {patience:.0f} seconds: {reason}")
            time.sleep(0.2)
        return state

    def _call(self, method: str, *arguments: Any) -> Any:
        try:
            return self._ray.get(getattr(self._actors.get(COORDINATOR), method).remote(*arguments))
        except (ValueError, self._ray.exceptions.RayActorError):
            raise UsageError("no coordinator of this index on this cluster", "run `mergewise cluster start`") from None
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
