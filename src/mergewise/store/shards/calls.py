"""Calls to shards, and the transport that carries them. The gatherer (`reader`) makes the same calls here and on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol

from mergewise.store.lance_reader import LanceReader
from mergewise.store.manifest import Manifest


class Call(NamedTuple):
    """A method of a shard's reader, or a property, with arguments. Calls and their results can be pickled."""

    method: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]

    @classmethod
    def of(cls, method: str, *arguments: Any, **keywords: Any) -> Call:
        return cls(method, arguments, keywords)

    def start(self, reader: LanceReader) -> Any:
        """Return the result, or the future of a search."""
        called = getattr(reader, self.method)
        return called(*self.arguments, **self.keywords) if isinstance(called, Callable) else called


Calls = Mapping[int, Sequence[Call]]
"""Calls by the number of their shard."""


class Shards(Protocol):
    """The shards of one state of an index."""

    @property
    def manifests(self) -> tuple[Manifest, ...]: ...

    def ask(self, calls: Calls) -> Mapping[int, list[Any]]:
        """Return the results of each shard's calls in their order. The first error is raised."""
        ...


def answers(calls: Iterable[tuple[LanceReader, Call]]) -> list[Any]:
    """Answer calls in this process. All searches start before the first result is awaited."""
    started = [call.start(reader) for reader, call in calls]
    return [one.result() if isinstance(one, Future) else one for one in started]


class LocalShards:
    """Shards in this process."""

    def __init__(self, readers: Sequence[LanceReader]) -> None:
        self.readers = tuple(readers)

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        return tuple(reader.manifest for reader in self.readers)

    def ask(self, calls: Calls) -> Mapping[int, list[Any]]:
        results = iter(answers((self.readers[at], call) for at, own in calls.items() for call in own))
        return {at: [next(results) for _ in own] for at, own in calls.items()}
