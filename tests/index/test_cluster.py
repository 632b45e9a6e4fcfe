"""Workers of a cluster with a fake Ray, whose nodes misbehave. `tests/integrations/test_ray.py` uses the real Ray."""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Timer
from types import SimpleNamespace
from typing import Any

import pytest
from tests.index.errands import square
from tests.index.test_executors import ALL_VIEWS, add, rows_by_table
from tests.support import new_store, until

import mergewise as mw
from mergewise.cli.configuration import harmless
from mergewise.designs import VIEWS
from mergewise.errors import MissingExtra, UsageError, install_command
from mergewise.index import cluster, executors
from mergewise.index.cluster import ClusterActor, on_cluster
from mergewise.index.executors import Executor, WorkerPool
from mergewise.models.cache import CachedChat
from mergewise.models.record import Models
from mergewise.models.scripted import ScriptedChat
from mergewise.models.tokens import count_tokens
from mergewise.protocols import ChatModel


class FakeRay:
    """A fake of the parts of Ray that `index.cluster` uses.

    Actors live in this process. `begin` and `answer` are called with an actor's number before its own methods.
    """

    _private = SimpleNamespace(ray_constants=SimpleNamespace(ENABLE_RAY_CLUSTER=False))

    def __init__(self, *nodes: dict[str, float]) -> None:
        self._nodes = nodes
        self.actors = 0
        self.ended: list[int] = []
        self.is_joined = False
        self.begin: Callable[[int], None] = lambda actor: None
        self.answer: Callable[[int, int], float] = lambda actor, call: 0.0

    def is_initialized(self) -> bool:
        return self.is_joined

    def init(self, **options: Any) -> None:
        self.is_joined = True

    def shutdown(self) -> None:
        self.is_joined = False

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": node} for node in self._nodes]

    def remote(self, **options: Any) -> Any:
        return lambda kind: FakeActors(self, kind)

    def kill(self, actor: FakeActor) -> None:
        self.ended.append(actor.number)


class FakeActors:
    def __init__(self, ray: FakeRay, kind: type[ClusterActor]) -> None:
        self._ray, self._kind = ray, kind

    def remote(self, *arguments: Any) -> FakeActor:
        self._ray.actors += 1
        return FakeActor(self._ray, self._ray.actors)


class FakeActor:
    def __init__(self, ray: FakeRay, number: int) -> None:
        self._ray, self.number, self._calls = ray, number, 0
        self._actor = ClusterActor.__new__(ClusterActor)
        self._actor._collector = type("Silent", (), {"records": []})()
        self.begin, self.answer = FakeMethod(self._begin), FakeMethod(self._answer)

    def _begin(self) -> tuple[float, Any]:
        self._ray.begin(self.number)
        return 0.0, self._actor.begin()

    def _answer(self, request: bytes) -> tuple[float, Any]:
        self._calls += 1
        return self._ray.answer(self.number, self._calls), self._actor.answer(request)


class FakeMethod:
    def __init__(self, call: Callable[..., tuple[float, Any]]) -> None:
        self._call = call
        self._future: Future[Any] = Future()

    def remote(self, *arguments: Any) -> FakeMethod:
        self._future = Future()
        try:
            seconds, value = self._call(*arguments)
        except Exception as error:
            self._future.set_exception(error)
            return self
        if seconds:
            Timer(seconds, self._future.set_result, (value,)).start()
        else:
            self._future.set_result(value)
        return self

    def future(self) -> Future[Any]:
        return self._future


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    stand_in = FakeRay({"CPU": 2.0, "GPU": 1.0}, {"CPU": 1.0}, {"memory": 1.0})
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    return stand_in


def test_the_number_of_workers_fits_the_cluster(ray: FakeRay) -> None:
    for workers, gpus, count in ((None, 0.0, 3), (1, 0.0, 3), (7, 0.0, 7), (None, 0.5, 2), (None, 1.0, 1), (9, 4.0, 9)):
        with on_cluster(1, "local", workers, gpus) as executor:
            assert executor.workers == count and executor.is_cluster and ray.is_joined
        assert not ray.is_joined
    with pytest.raises(UsageError, match="has a processor and 2 GPUs"), on_cluster(1, "local", None, 2.0):
        pass
    # no work
    with on_cluster(0, "local", None, 0.0) as executor:
        assert executor.workers == 0 and not ray.is_joined


def test_a_process_that_has_joined_a_cluster_stays_with_it(ray: FakeRay) -> None:
    ray.init()
    with on_cluster(1, "10.0.0.1:6379", 2, 0.0):
        pass
    assert ray.is_joined


def test_a_dead_worker_is_replaced_and_its_item_processed_again(ray: FakeRay, caplog: pytest.LogCaptureFixture) -> None:
    both = Barrier(2)

    def die(actor: int, call: int) -> float:
        if actor in (1, 2) and call == 2:
            both.wait(60)
            raise RuntimeError("the node is gone. Its log says more")
        return 0.0

    ray.answer = die
    with on_cluster(1, "local", 2, 0.0) as executor:
        assert [value for value, _ in executor.map(square, range(9))] == [number * number for number in range(9)]
        assert isinstance(executor, WorkerPool) and until(lambda: len(executor.pids) == 2)
    assert ray.actors == 4 and sorted(ray.ended) == [1, 2, 3, 4]
    assert [r.getMessage().partition(" (")[2] for r in caplog.records] == [
        "the node is gone): its item is processed again"
    ] * 2


def test_an_item_that_kills_every_worker_is_processed_here(ray: FakeRay) -> None:
    def die(actor: int, call: int) -> float:
        raise RuntimeError("gone")

    ray.answer = die
    with on_cluster(1, "local", 1 + 1, 0.0) as executor:
        assert list(executor.map(square, [5])) == [(25, os.getpid())]
    assert ray.actors == 2 + cluster.TRIES


def test_a_worker_of_another_version_is_not_used(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    versions = iter(["0.0.1", mw.__version__, "0.0.1", "0.0.1"])
    monkeypatch.setattr(ClusterActor, "begin", lambda self: (1, next(versions)))
    with on_cluster(1, "local", 2, 0.0) as executor:
        assert [value for value, _ in executor.map(square, range(5))] == [0, 1, 4, 9, 16]
        # the other worker may begin when all is done
        assert until(lambda: f"mergewise 0.0.1 (this process has {mw.__version__})" in caplog.text)
    with (
        on_cluster(1, "local", 2, 0.0) as executor,
        pytest.raises(UsageError, match=r"cannot start a worker .* 0\.0\.1") as raised,
    ):
        list(executor.map(square, range(5)))
    assert raised.value.hint == "install this mergewise on every node"


def test_workers_are_awaited_until_there_is_room(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(executors, "START_SECONDS", 0.0)
    monkeypatch.setattr(executors, "LOOK_SECONDS", 0.01)
    start, waited = FakeActor._begin, list[int]()
    monkeypatch.setattr(FakeActor, "_begin", lambda self: (0.1, start(self)[1]))
    with on_cluster(1, "local", 2, 0.0) as executor:
        assert [value for value, _ in executor.map(square, range(5), lambda: waited.append(1))] == [0, 1, 4, 9, 16]
    assert waited and "no worker has started" in caplog.text


def test_without_ray_or_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    with pytest.raises(UsageError, match="GPUs per worker need a cluster"):
        index.add(mw.Document("d", "The tower fell."), gpus_per_worker=1)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match="ray is not installed") as raised:
        index.add(mw.Document("d", "The tower fell."), ray="local")
    assert raised.value.hint == install_command("ray")


def test_the_configuration_of_a_folder_names_no_cluster(tmp_path: Path) -> None:
    """The nodes would receive the documents, and their answers are unpickled here."""
    assert harmless({"ray": "10.0.0.1:6379", "workers": 2}, tmp_path) == {"workers": 2}


def test_an_unavailable_cluster_is_refused(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="expected no scheme"), on_cluster(1, "ray://10.0.0.1:10001", 2, 0.0):
        pass
    monkeypatch.setattr(cluster, "_JOIN", "import time; time.sleep(60)")
    monkeypatch.setattr(cluster, "JOIN_SECONDS", 0.3)
    with pytest.raises(UsageError, match="no answer in 0 seconds"), on_cluster(1, "10.0.0.1:6379", 2, 0.0):
        pass
    monkeypatch.setattr(cluster, "_JOIN", "raise ValueError('no such cluster')")
    monkeypatch.setattr(cluster, "JOIN_SECONDS", 30)
    with pytest.raises(UsageError, match="'auto': ValueError: no such cluster"), on_cluster(1, "auto", 2, 0.0):
        pass


class OnOtherMachine:
    """An executor whose workers have another folder at the same relative path."""

    workers, is_cluster = 2, True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def map(self, function: Any, items: Any, waiting: Callable[[], None] = lambda: None) -> Iterator[Any]:
        for item in items:
            here = Path.cwd()
            os.chdir(self._folder)
            try:
                result = function(item)
            finally:
                os.chdir(here)
            yield result


def test_files_that_are_missing_or_differ_on_a_node_are_read_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: Sequence[tuple[str, str]] = (("a.md", "The tower fell."), ("b.md", "A mason built it."), ("c.md", " "))
    for place in ("here", "there"):
        (tmp_path / place / "documents").mkdir(parents=True)
    for name, text in files:
        (tmp_path / "here" / "documents" / name).write_text(text)
    (tmp_path / "there" / "documents" / "b.md").write_text("Another text.")
    (tmp_path / "there" / "documents" / "c.md").write_text("Not empty there.")
    monkeypatch.chdir(tmp_path / "here")
    stores = [new_store("memory", Path(), VIEWS, None, ALL_VIEWS) for _ in range(2)]
    places: tuple[Executor, ...] = (executors.INLINE, OnOtherMachine(tmp_path / "there"))
    reports = [add(store, [Path("documents")], executor) for store, executor in zip(stores, places, strict=True)]
    assert reports[0] == reports[1] and reports[0].added == 2 and len(reports[0].failed) == 1
    assert rows_by_table(stores[0]) == rows_by_table(stores[1])


class CopiedChat(ScriptedChat):
    """A model that each worker can load, like one from a file."""

    def __init__(self) -> None:
        super().__init__(lambda messages: json.dumps([{"question": "Who fell?", "segments": [1]}]))

    def __reduce__(self) -> tuple[Any, ...]:
        asked.append("copied")
        return CopiedChat, ()


asked: list[str] = []


class ByPickle(OnOtherMachine):
    """An executor whose workers get only bytes."""

    def map(self, function: Any, items: Any, waiting: Callable[[], None] = lambda: None) -> Iterator[Any]:
        for item in items:
            call, sent = pickle.loads(pickle.dumps((function, item)))
            yield call(sent)


def test_workers_write_rows_with_a_chat_model_that_they_can_load(tmp_path: Path) -> None:
    settings = {"leaf": ALL_VIEWS["leaf"], "marker": replace(VIEWS["marker"].settings(), made="model")}
    documents = [mw.Document(f"d{n}", f"The tower {n} of Brook fell in 1905. A mason built it.") for n in range(3)]
    stores = [new_store("memory", Path(), VIEWS, None, settings) for _ in range(3)]
    chats: tuple[ChatModel, ...] = CopiedChat(), CachedChat(CopiedChat(), tmp_path), ScriptedChat(lambda messages: "[]")
    copies = []
    places: tuple[Executor, ...] = (executors.INLINE, ByPickle(tmp_path), ByPickle(tmp_path))
    for store, chat, executor in zip(stores, chats, places, strict=True):
        asked.clear()
        add(store, documents, executor, Models(count_tokens, chat=chat))
        copies.append(bool(asked))
    # a model without copies is called here, and no model is sent if no view needs it
    assert copies == [False, True, False]
    asked.clear()
    unasked = new_store("memory", Path(), VIEWS, None, ALL_VIEWS)
    add(unasked, documents, ByPickle(tmp_path), Models(count_tokens, chat=CopiedChat()))
    assert not asked and unasked.reader().texts(["d0"])
    assert rows_by_table(stores[0]) == rows_by_table(stores[1])
    assert any(row.tables["marker"].records for row in stores[0].reader().document_rows(["d0"]))
