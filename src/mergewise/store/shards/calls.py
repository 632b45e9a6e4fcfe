"""Calls to shards, the transport that carries them, and searches that share messages.

The gatherer (`reader`) makes the same calls in this process and on a cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeAlias
from weakref import ref

from mergewise.protocols import Ranking
from mergewise.store.lance_reader import LanceReader
from mergewise.store.manifest import Manifest


class Call(NamedTuple):
    """A call of a method of `LanceReader`. Calls and their results can be pickled."""

    method: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]

    @classmethod
    def of(cls, method: str, *arguments: Any, **keywords: Any) -> Call:
        return cls(method, arguments, keywords)


Calls: TypeAlias = Mapping[int, Sequence[Call]]
"""Calls by the number of their shard."""
Answers: TypeAlias = Mapping[int, list[Any]]
"""Results by the number of their shard, in the order of its calls."""
Search: TypeAlias = Generator[Calls, Answers, Ranking]
"""A search in several rounds. It yields the calls of a round and receives their results."""


class Shards(Protocol):
    """The shards of one state of an index."""

    @property
    def manifests(self) -> tuple[Manifest, ...]: ...

    @property
    def gaps(self) -> str:
        """Description of missing shards. Empty if none is missing."""

    def ask(self, calls: Calls) -> Answers:
        """Send each shard its calls. The first error is raised."""


def answers(readers: Mapping[int, LanceReader], calls: Calls) -> Answers:
    """Answer calls in this process. All searches start before the first result is awaited."""
    started = [
        getattr(readers[at], call.method)(*call.arguments, **call.keywords) for at, own in calls.items() for call in own
    ]
    finished = (one.result() if isinstance(one, Future) else one for one in started)
    results = iter([one() if callable(one) else one for one in finished])
    return {at: list(islice(results, len(own))) for at, own in calls.items()}


class LocalShards:
    """Shards in this process."""

    gaps = ""

    def __init__(self, readers: Sequence[LanceReader]) -> None:
        self.readers = tuple(readers)
        self.manifests = tuple(reader.manifest for reader in self.readers)

    def ask(self, calls: Calls) -> Answers:
        return answers(dict(enumerate(self.readers)), calls)


class PendingSearch(Future[Ranking]):
    """The result of a search, which starts when the first result of its batch is needed, together with the others."""

    def __init__(self, shards: Shards, search: Search, batch: list[ref[PendingSearch]]) -> None:
        super().__init__()
        self.search = search
        self._shards, self._batch = shards, batch
        # a weak reference, because nobody waits for an abandoned search
        batch.append(ref(self))

    def result(self, timeout: float | None = None) -> Ranking:
        if not self.done():
            pending = [one for reference in self._batch if (one := reference()) is not None]
            self._batch.clear()
            _complete(pending, self._shards)
        return super().result()


def _complete(pending: Iterable[PendingSearch], shards: Shards) -> None:
    """Run searches to their ends. Each round is one message to each shard."""
    answered: dict[PendingSearch, Answers | None] = dict.fromkeys(pending)
    while answered:
        asked: dict[PendingSearch, Calls] = {}
        for one, own in answered.items():
            try:
                asked[one] = next(one.search) if own is None else one.search.send(own)
            except StopIteration as end:
                one.set_result(end.value)
            except Exception as error:
                one.set_exception(error)
        message = defaultdict[int, list[Call]](list)
        for calls in asked.values():
            for at, some in calls.items():
                message[at] += some
        try:
            results = {at: iter(own) for at, own in shards.ask(message).items()} if message else {}
        except Exception as error:
            for one in asked:
                one.set_exception(error)
            return
        answered = {
            one: {at: list(islice(results[at], len(own))) for at, own in calls.items()} for one, calls in asked.items()
        }
