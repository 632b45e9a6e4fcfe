"""The named actors of one index on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from mergewise.cluster.placement import CONTROL, COORDINATOR, Placement, full_name
from mergewise.errors import StoreError
from mergewise.extend import Place

# seconds within which a searcher must answer a question about its state, and Ray's head any question
PATIENCE = 2.0


class HeadSilent(StoreError, ValueError):
    """A head of Ray that does not answer, so that no actor is found by its name."""


class JoinedRay:
    """Ray's functions, as long as this process belongs to the cluster. Later, Ray would start or join another one by itself."""

    def __init__(self, ray: Any) -> None:
        self._ray, self._context = ray, ray.get_runtime_context()
        self._node = self._context.get_node_id()

    def check(self) -> None:
        """Raise StoreError if this process has left the cluster."""
        with suppress(RuntimeError):
            if self._context.get_node_id() == self._node:
                return
        raise StoreError("this process has left the Ray cluster of the index", "open the index again")

    def __getattr__(self, name: str) -> Any:
        self.check()
        return getattr(self._ray, name)


class Actors:
    """Calls to the actors of an index by their names. A handle is looked up once."""

    def __init__(self, ray: Any, place: Place) -> None:
        self.ray = JoinedRay(ray)
        self.namespace = f"mergewise-{blake2b(full_name(place).encode(), digest_size=8).hexdigest()}"
        self._handles: dict[str, Any] = {}
        self._pool = ThreadPoolExecutor(4, "mergewise-ray")

    def start(self, actor: type, name: str, options: dict[str, Any], *arguments: Any) -> Any:
        """Start a named actor that outlives this process, unless it lives. Return its handle."""
        named = {"name": name, "namespace": self.namespace, "lifetime": "detached", "get_if_exists": True}
        return self.ray.remote(num_cpus=0, **options)(actor).options(**named).remote(*arguments)

    def get(self, name: str) -> Any:
        """Return the handle of an actor. Raises ValueError if no such actor lives, or Ray's head does not answer."""
        self.ray.check()
        if name not in self._handles:
            self._handles[name] = self._ask_head(self.ray.get_actor, name, namespace=self.namespace)
        return self._handles[name]

    def _ask_head(self, call: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Call Ray, which would wait a minute for a dead head."""
        try:
            return self._pool.submit(call, *arguments, **keywords).result(PATIENCE)
        except TimeoutError:
            raise HeadSilent("Ray's head does not answer", "start the cluster again") from None

    def forget(self, name: str) -> None:
        self._handles.pop(name, None)

    def searchers(self) -> list[str]:
        """List the searchers that live or start. Raises StoreError if Ray's head does not answer."""
        actors = self._ask_head(self.ray.util.list_named_actors, all_namespaces=True)
        return sorted({one["name"] for one in actors if one["namespace"] == self.namespace} - {COORDINATOR})

    def ask_all(self, names: Iterable[str], method: str, *arguments: Any) -> dict[str, Any]:
        """Call a control method of searchers at the same time.

        Return the results by name, and an error for a dead searcher. Searchers that stay silent for `PATIENCE` are left out.
        """
        results: dict[str, Any] = {}
        started = {}
        for name in names:
            try:
                started[getattr(self.get(name), method).options(concurrency_group=CONTROL).remote(*arguments)] = name
            except ValueError as error:
                results[name] = error
        for ref in self.ray.wait([*started], num_returns=len(started), timeout=PATIENCE)[0] if started else ():
            try:
                results[started[ref]] = self.ray.get(ref)
            except self.ray.exceptions.RayError as error:
                self.forget(started[ref])
                results[started[ref]] = error
        return results

    def newest_placement(self, names: Iterable[str], number: int = 0) -> tuple[Placement | None, set[str]]:
        """Return the newest placement of these searchers, if its number is larger, and the searchers that answered."""
        results = self.ask_all(names, "newer_placement", number).items()
        answers = {name: one for name, one in results if not isinstance(one, Exception)}
        known = [one for one in answers.values() if one is not None]
        return max(known, key=lambda one: one.number, default=None), {*answers}
