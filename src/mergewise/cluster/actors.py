"""The named actors of one index on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from mergewise.cluster.placement import CONTROL, COORDINATOR, Placement, full_name
from mergewise.store.places.place import Place

# seconds within which a searcher must answer a question about its state
PATIENCE = 2.0


class Actors:
    """Calls to the actors of an index by their names. A handle is looked up once."""

    def __init__(self, ray: Any, place: Place) -> None:
        self.ray = ray
        self.namespace = f"mergewise-{blake2b(full_name(place).encode(), digest_size=8).hexdigest()}"
        self._handles: dict[str, Any] = {}

    def start(self, actor: type, name: str, options: dict[str, Any], *arguments: Any) -> Any:
        """Start a named actor that outlives this process, unless it lives. Return its handle."""
        named = {"name": name, "namespace": self.namespace, "lifetime": "detached", "get_if_exists": True}
        return self.ray.remote(num_cpus=0, **options)(actor).options(**named).remote(*arguments)

    def get(self, name: str) -> Any:
        """Return the handle of an actor. Raises ValueError if no such actor lives."""
        if name not in self._handles:
            self._handles[name] = self.ray.get_actor(name, namespace=self.namespace)
        return self._handles[name]

    def forget(self, name: str) -> None:
        self._handles.pop(name, None)

    def searchers(self) -> list[str]:
        """List the searchers that live or start."""
        actors = self.ray.util.list_named_actors(all_namespaces=True)
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
