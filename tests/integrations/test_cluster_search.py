"""An index that three nodes of a local Ray cluster search gives the contexts of one index, whatever is killed meanwhile."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from ipaddress import ip_address
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.request import urlopen

import httpx2 as httpx
import pytest

import mergewise as mw
from mergewise.cluster import ClusterStore, Control
from mergewise.cluster.gatherer import ClusterShards
from mergewise.cluster.placement import COORDINATOR, REFRESH, searchers_of
from mergewise.errors import DeadlineExceeded, ShardsMissing, UsageError, install_command
from mergewise.store.places import place_of
from mergewise.store.shards.calls import Call
from tests.cli.invoking import invoke
from tests.object_store import KEY, object_store
from tests.support import HashEmbedder, until
from tests.test_tracing import recording, spans_in

ray = pytest.importorskip("ray", reason=f"ray is not installed: {install_command('ray')}")
# Ray itself warns
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]
SHARDS, TOWERS, REPLICAS = 4, 30, 2
QUESTIONS = [f"When did the tower {number} of Brook fall?" for number in range(TOWERS)]
STRATEGIES = ("topk", "weave")


def towers(year: int = 1900) -> list[mw.Document]:
    return [
        mw.Document(
            f"tower {number}",
            f"# Tower {number}\n\nThe tower {number} of Brook fell in {year + number}, {'very ' * number}late. "
            f"A mason of Delft built it again. "
            f"Nobody lives in tower {number}.\n",
        )
        for number in range(TOWERS)
    ]


def new_index(place: str | Path, shards: int | None = SHARDS) -> mw.Index:
    index = mw.open(place, embedder=HashEmbedder(), shards=shards)
    index.add(*towers())
    return index


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An index on an object store, whose keys are in the environment of all nodes."""
    with object_store() as store, pytest.MonkeyPatch.context() as patch:
        keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": KEY, "AWS_REGION": "us-east-1"}
        places = {"AWS_ENDPOINT": store.storage["endpoint"], "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}
        for name, value in {**keys, **places, "AWS_ALLOW_HTTP": "true", "RAY_USAGE_STATS_ENABLED": "0"}.items():
            patch.setenv(name, value)
        yield "s3://indexes/towers"


@pytest.fixture(scope="module")
def nodes(bucket: str) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    # a node that is only slow must not count as dead; one that refuses connections is dead after five seconds
    health = {"health_check_period_ms": 500, "health_check_timeout_ms": 60_000, "health_check_failure_threshold": 10}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": health}
    running = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        running.add_node(num_cpus=1)
    yield running
    ray.shutdown()
    running.shutdown()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], mw.Context]:
    """The contexts of one index, by strategy and question."""
    one = new_index(tmp_path_factory.mktemp("one") / "index", None)
    return {(name, question): one.context(question, strategy=name) for name in STRATEGIES for question in QUESTIONS}


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> mw.Index:
    return new_index(tmp_path_factory.mktemp("sharded") / "index")


@pytest.fixture(scope="module")
def place(sharded: mw.Index) -> Path:
    return sharded.store.directory


@pytest.fixture
def control(nodes: Any, place: Path) -> Control:
    """The running cluster, with all shards on all their searchers."""
    own = Control(place, nodes.address)
    own.start(REPLICAS, needs_token=False)
    own.wait(is_whole, 60)
    return own


def is_whole(state: dict[str, Any]) -> bool:
    """Return whether each node holds its shards of the announced snapshot."""
    held = {node["node"]: node.get("held", {}).get(state["snapshot"], []) for node in state["nodes"]}
    return state["ready"] and all(at in held.get(name, ()) for at, own in enumerate(state["shards"]) for name in own)


def used(state: dict[str, Any]) -> set[str]:
    """Return the nodes that the placement names."""
    return {name for own in state["shards"] for name in own}


def placed(state: dict[str, Any]) -> set[str]:
    """Return the nodes that hashing gives a shard. With few shards, one of three nodes may get none."""
    names = [node["node"] for node in state["nodes"]]
    return {name for at in range(SHARDS) for name in searchers_of(at, names, REPLICAS)}


def opened(place: str | Path, nodes: Any, **options: Any) -> mw.Index:
    return mw.open(place, embedder=HashEmbedder(), ray=nodes.address, **options)


def pids(control: Control) -> dict[str, int]:
    return {node["node"]: node["pid"] for node in control.state()["nodes"] if "pid" in node}


def check_same(found: mw.Context, expected: mw.Context) -> None:
    assert found.text == expected.text
    for one, other in zip(found.passages, expected.passages, strict=True):
        assert one.spans == other.spans and one.score == pytest.approx(other.score, abs=1e-3)


class Asking:
    """Questions in a thread. Contexts must equal those of one index, and no question may fail."""

    def __init__(self, index: mw.Index, expected: dict[tuple[str, str], mw.Context]) -> None:
        self.count, self.failed = 0, list[BaseException]()
        self._index, self._expected = index, expected
        self._ended = Event()
        self._thread = Thread(target=self._run)

    def _run(self) -> None:
        while not self._ended.is_set():
            name, question = list(self._expected)[self.count % len(self._expected)]
            try:
                check_same(self._index.context(question, strategy=name), self._expected[name, question])
            except BaseException as error:
                self.failed.append(error)
                return
            self.count += 1

    def more(self, count: int = 20) -> None:
        """Wait for more answers."""
        goal = self.count + count
        assert until(lambda: self.count >= goal or bool(self.failed), 60)
        assert not self.failed, self.failed

    def __enter__(self) -> Asking:
        self._thread.start()
        self.more(5)
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        assert not self.failed, self.failed


def store_of(index: mw.Index) -> ClusterStore:
    assert isinstance(index.store, ClusterStore)
    return index.store


def shards_of(index: mw.Index) -> ClusterShards:
    shards = store_of(index).reader().shards
    assert isinstance(shards, ClusterShards)
    return shards


def test_a_cluster_without_tokens_is_refused(nodes: Any, place: Path) -> None:
    with pytest.raises(UsageError, match="needs no token"):
        Control(place, nodes.address).start(REPLICAS)
    with pytest.raises(UsageError, match="no searchers"):
        opened(place, nodes)


def test_contexts_equal_those_of_one_index(
    control: Control, nodes: Any, place: Path, expected: dict[tuple[str, str], mw.Context]
) -> None:
    index = opened(place, nodes)
    state = control.state()
    assert all(len({*own}) == REPLICAS for own in state["shards"]) and len(state["nodes"]) == 3
    for (name, question), context in expected.items():
        check_same(index.context(question, strategy=name), context)
    searchers = store_of(index)._searchers
    for name, rounds in (("topk", 2), ("weave", 6)):
        before = searchers.messages
        for question in QUESTIONS:
            index.context(question, strategy=name)
        assert searchers.messages - before <= rounds * 3 * TOWERS, name
    with pytest.raises(UsageError, match="questions only"):
        index.add(mw.Document("a", "b"))


@pytest.mark.parametrize("delay", [None, 0.0, 0.3])
def test_a_searcher_is_killed(
    control: Control, nodes: Any, place: Path, sharded: mw.Index, expected: dict[tuple[str, str], mw.Context],
    delay: float | None,
) -> None:  # fmt: skip
    """Killed while it answers, or while it opens the shards of a new snapshot."""
    with Asking(opened(place, nodes), expected) as asking:
        if delay is not None:
            # a change of nothing that questions read
            sharded.describe(["tower 1"], {"delay": f"{delay} {time.time()}"})
            time.sleep(delay)
        node, pid = next(iter(pids(control).items()))
        os.kill(pid, signal.SIGKILL)
        asking.more()
        assert until(lambda: pids(control).get(node) not in (None, pid))
        control.wait(lambda state: is_whole(state) and state["snapshot"] == sharded.store.reader().snapshot, 60)
        asking.more()


def test_an_older_snapshot_is_opened_again(control: Control, nodes: Any, place: Path, sharded: mw.Index) -> None:
    """A question keeps its snapshot even if all searchers that held it are replaced."""
    shards = store_of(opened(place, nodes)).reader().shards
    calls = {at: [Call.of("row_counts")] for at in range(SHARDS)}
    before, killed = shards.ask(calls), pids(control)
    sharded.describe(["tower 1"], {"older": str(time.time())})
    control.wait(lambda state: is_whole(state) and state["snapshot"] == sharded.store.reader().snapshot, 60)
    for pid in killed.values():
        os.kill(pid, signal.SIGKILL)
    assert until(lambda: pids(control).items().isdisjoint(killed.items()), 60)
    control.wait(is_whole, 60)
    assert shards.ask(calls) == before


def test_a_node_is_removed(
    control: Control, nodes: Any, place: Path, expected: dict[tuple[str, str], mw.Context]
) -> None:
    with Asking(opened(place, nodes), expected) as asking:
        gone = list(nodes.worker_nodes)[-1]
        nodes.remove_node(gone, allow_graceful=False)
        asking.more()
        control.wait(lambda state: is_whole(state) and gone.node_id[:16] not in used(state), 60)
        asking.more()
        nodes.add_node(num_cpus=1)
        control.wait(lambda state: is_whole(state) and len(state["nodes"]) == 3 and used(state) == placed(state), 60)
        asking.more()


def test_a_node_is_drained(
    control: Control, nodes: Any, place: Path, expected: dict[tuple[str, str], mw.Context]
) -> None:
    with pytest.raises(UsageError, match="unknown node"):
        control.drain("nobody")
    with Asking(opened(place, nodes), expected) as asking:
        node = control.state()["shards"][0][0]
        control.drain(node)
        control.wait(lambda state: is_whole(state) and node not in used(state), 60)
        asking.more()
        control.start(REPLICAS, needs_token=False)
        control.wait(lambda state: is_whole(state) and node in used(state), 60)
        asking.more()


@contextmanager
def without_coordinator(control: Control) -> Iterator[None]:
    """Kill the coordinator for good, and start it again at the end."""
    ray.kill(control._actors.get(COORDINATOR))
    control._actors.forget(COORDINATOR)
    try:
        yield
    finally:
        control.start(REPLICAS, needs_token=False)
        control.wait(is_whole, 60)


def test_without_a_coordinator_only_the_placement_is_frozen(
    control: Control, nodes: Any, place: Path, sharded: mw.Index, expected: dict[tuple[str, str], mw.Context]
) -> None:
    before = control.state()
    with without_coordinator(control), Asking(opened(place, nodes), expected) as asking:
        sharded.describe(["tower 1"], {"frozen": str(time.time())})
        asking.more()
        assert opened(place, nodes).context(QUESTIONS[0]).snapshot == before["snapshot"]
        control.start(REPLICAS, needs_token=False)
        assert until(lambda: opened(place, nodes).context(QUESTIONS[0]).snapshot == sharded.store.reader().snapshot)
        asking.more()
    assert control.state()["shards"] == before["shards"]


def test_the_coordinator_restarts(control: Control, nodes: Any, place: Path, sharded: mw.Index) -> None:
    ray.kill(control._actors.get(COORDINATOR), no_restart=False)
    sharded.describe(["tower 1"], {"restart": str(time.time())})
    index = opened(place, nodes)
    assert until(lambda: index.context(QUESTIONS[0]).snapshot == sharded.store.reader().snapshot)


def test_both_replicas_are_dead(
    control: Control, nodes: Any, place: Path, expected: dict[tuple[str, str], mw.Context]
) -> None:
    index, partial = opened(place, nodes), opened(place, nodes, partial=True)
    check_same(partial.context(QUESTIONS[0]), expected["weave", QUESTIONS[0]])
    lost = control.state()["shards"][0]
    gone = [at for at, own in enumerate(control.state()["shards"]) if {*own} <= {*lost}]
    with without_coordinator(control):
        running = pids_of(control)
        for node in lost:
            os.kill(running[node], signal.SIGKILL)
        with pytest.raises(ShardsMissing, match=f"of {SHARDS} is not available") as raised:
            index.context(QUESTIONS[0])
        assert raised.value.retryable
        time.sleep(REFRESH)
        for question in QUESTIONS[:8]:
            context = partial.context(question)
            assert [step.reason for step in context.trace if step.action == "shards"] == [
                f"{len(gone)} of {SHARDS} shards could not be searched: {', '.join(map(str, gone))}"
            ]
    for own in (index, partial):
        assert until(lambda own=own: not own.store.reader().gaps and own.context(QUESTIONS[0]).passages)  # type: ignore[misc]
        check_same(own.context(QUESTIONS[0]), expected["weave", QUESTIONS[0]])


def pids_of(control: Control) -> dict[str, int]:
    """Return the process of each searcher, without the coordinator."""
    reports = control._actors.ask_all(control._actors.searchers(), "report").items()
    return {name: one["pid"] for name, one in reports if not isinstance(one, Exception)}


ASKING = """
import sys
import mergewise
from tests.object_store import KEY, object_store
from tests.support import HashEmbedder

index = mergewise.open(sys.argv[1], embedder=HashEmbedder(), ray=sys.argv[2])
for number in range(10**6):
    index.context(f"When did the tower {number % 30} of Brook fall?")
    print(number, flush=True)
"""


def test_a_gatherer_is_killed(
    control: Control, nodes: Any, place: Path, expected: dict[tuple[str, str], mw.Context]
) -> None:
    with Asking(opened(place, nodes), expected) as asking:
        with subprocess.Popen([sys.executable, "-c", ASKING, place, nodes.address], stdout=subprocess.PIPE) as other:
            assert other.stdout is not None and other.stdout.readline() == b"0\n"
            other.kill()
        asking.more()
    assert is_whole(control.state())


LEAVING = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
import mergewise, ray
from tests.support import HashEmbedder

index = mergewise.open(sys.argv[1], embedder=HashEmbedder(), ray=sys.argv[2])
answered, left = Barrier(5), Barrier(5)

def ask(thread):
    try:
        index.context("When did the tower 3 of Brook fall?")
    except mergewise.MergewiseError as error:
        return f"{type(error).__name__}: {error}"

def ask_twice(thread):
    ask(thread)
    answered.wait(60)
    left.wait(60)  # Ray ends a process that is within one of its calls while it shuts down
    return ask(thread)

with ThreadPoolExecutor(4) as pool:
    asking = [pool.submit(ask_twice, thread) for thread in range(4)]
    answered.wait(60)
    ray.shutdown()
    left.wait(60)
    print({one.result(60) for one in asking}, ray.is_initialized())
    print({ask(0)}, ray.is_initialized())
# another cluster of this process
ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
print({ask(0)}, ray.is_initialized())
"""


def test_a_process_that_leaves_the_cluster_gets_an_error(control: Control, nodes: Any, place: Path) -> None:
    """Its threads neither end nor start a cluster of their own."""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", LEAVING, place, nodes.address], capture_output=True, text=True, timeout=120
        )
        # a message may still be within a call of Ray
        if "core worker has already been shutdown" not in done.stderr or done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr
    error = "{'StoreError: this process has left the Ray cluster of the index (open the index again)'}"
    assert done.stdout.splitlines()[-3:] == [f"{error} False", f"{error} False", f"{error} True"]


def test_a_silent_replica_counts_as_dead(
    control: Control,
    nodes: Any,
    place: Path,
    expected: dict[tuple[str, str], mw.Context],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = opened(place, nodes)
    index.context(QUESTIONS[0])
    searchers = store_of(index)._searchers
    used = searchers.in_order(shards_of(index).placement.searchers[0])[0]
    pid = pids_of(control)[used]
    monkeypatch.setattr("mergewise.cluster.gatherer.SILENT", 1.0)
    os.kill(pid, signal.SIGSTOP)
    try:
        check_same(index.context(QUESTIONS[0]), expected["weave", QUESTIONS[0]])
        # it is not asked again at once
        assert searchers.in_order(shards_of(index).placement.searchers[0])[0] != used
    finally:
        os.kill(pid, signal.SIGCONT)


def test_searchers_refuse_other_snapshots_and_late_calls(control: Control, nodes: Any, place: Path) -> None:
    index = opened(place, nodes)
    reader = store_of(index).reader()
    shards = shards_of(index)
    name = shards.placement.searchers[0][0]

    def ask(snapshot: str, seconds: float) -> Any:
        request = pickle.dumps((snapshot, seconds, {0: [Call.of("row_counts")]}, None, {}))
        return pickle.loads(ray.get(control._actors.get(name).ask.remote(request)))

    assert ask(reader.snapshot, 10)[0][0]["leaf"] > 0
    assert type(ask("0" * 16, 10)).__name__ == "NoSuchSnapshot"
    assert isinstance(ask(reader.snapshot, 0.0), DeadlineExceeded)
    with pytest.raises(DeadlineExceeded):
        index.context(QUESTIONS[0], deadline=0.0001)
    with pytest.raises(ShardsMissing, match="does not hold"):
        # kept, because the index may look for a placement meanwhile
        shards.snapshot = "0" * 16
        shards.ask({0: [Call.of("row_counts")]})


def test_commits_during_questions_do_not_mix(control: Control, nodes: Any, place: Path, sharded: mw.Index) -> None:
    """Each commit moves all towers by 1000 years, so a context with two millennia is a mixed state."""
    index, seen, mixed = opened(place, nodes), set[int](), list[str]()
    ended = Event()

    def ask() -> None:
        while not ended.is_set():
            try:
                text = index.context("When did the towers of Brook fall?", strategy="topk").text
            except mw.MergewiseError as error:
                mixed.append(f"lost: {error}")
                return
            words = [word.strip(".,") for word in text.split()]
            years = {int(word) // 1000 for word in words if word.isdigit() and len(word) == 4}
            seen.update(years)
            if len(years) != 1:
                mixed.append(text)

    asking = Thread(target=ask)
    asking.start()
    try:
        for millennium in range(2, 6):
            sharded.add(*towers(1000 * millennium))
            assert until(lambda goal=millennium: goal in seen or bool(mixed))  # type: ignore[misc]
    finally:
        ended.set()
        asking.join()
        sharded.add(*towers())
    assert not mixed, mixed
    assert seen >= {2, 3, 4, 5}
    assert until(lambda: index.context(QUESTIONS[0]).snapshot == sharded.store.reader().snapshot)


def test_a_node_of_another_version_is_not_used(control: Control, nodes: Any, place: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import mergewise\nmergewise.__version__ = '0.0'\n")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    node = nodes.add_node(num_cpus=1, env_vars={"PYTHONPATH": path})
    try:

        def version(state: dict[str, Any]) -> str | None:
            return next((one.get("version") for one in state["nodes"] if one["node"] == node.node_id[:16]), None)

        state = control.wait(lambda state: version(state) is not None, 60)
        assert version(state) == "0.0" and node.node_id[:16] not in used(state)
    finally:
        nodes.remove_node(node, allow_graceful=False)


def roomy(state: dict[str, Any]) -> list[bool]:
    """Return, for each node with shards, whether its cache has room for them."""
    holding = [node for node in state["nodes"] if node["node"] in used(state)]
    return [0 < node.get("copied", 0) <= node["cache_bytes"] for node in holding]


def test_an_index_in_a_bucket_is_searched(
    nodes: Any, bucket: str, expected: dict[tuple[str, str], mw.Context], tmp_path: Path
) -> None:
    written = new_index(bucket)
    control = Control(bucket, nodes.address)
    with pytest.raises(UsageError, match="invalid cache size"):
        control.start(REPLICAS, (None, "much"), needs_token=False)
    control.start(REPLICAS, (None, "20KB"), needs_token=False)
    # a searcher counts the bytes of its copies after it has opened its shards
    state = control.wait(lambda state: is_whole(state) and any(node.get("copied") for node in state["nodes"]), 60)
    assert not any(roomy(state))
    index = opened(bucket, nodes)
    status = "cluster", "status", "--index", bucket, "--ray", nodes.address
    assert "of 0.0 MB" in invoke(*status) and "cache-size" in invoke(*status)
    with Asking(index, expected) as asking:
        written.describe(["tower 1"], {"year": 1})
        assert until(lambda: index.context(QUESTIONS[0]).snapshot == written.store.reader().snapshot), json.dumps(
            control.state()
        )
        os.kill(next(iter(pids(control).values())), signal.SIGKILL)
        asking.more()
        # all searchers are replaced, one after the other
        before = pids(control)
        control.start(REPLICAS, (str(tmp_path / "own"), "1GB"), needs_token=False)
        state = control.wait(lambda state: is_whole(state) and all(roomy(state)), 60)
        asking.more()
        assert until(lambda: pids(control).items().isdisjoint(before.items()))
    # the nodes of this machine share the cache
    copies = [path for path in (tmp_path / "own").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in copies) <= sum(node["copied"] for node in state["nodes"])
    # a coordinator that starts again knows the size
    ray.kill(control._actors.get(COORDINATOR), no_restart=False)
    written.describe(["tower 1"], {"year": 2})
    assert until(lambda: index.context(QUESTIONS[0]).snapshot == written.store.reader().snapshot)
    control.wait(lambda state: is_whole(state) and all(roomy(state)), 60)
    assert "cache-size" not in invoke(*status)
    control.stop()
    with pytest.raises(UsageError, match="no coordinator"):
        control.state()


def test_a_laptop_is_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands, on a cluster of their own, with a collector of spans."""
    index = mw.open(tmp_path / "index", embedder="none", shards=2)
    index.add(*towers())
    run = [sys.executable, "-m", "mergewise"]
    command = [*run, "cluster", "start", "--index", str(tmp_path / "index")]
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    with recording() as (collector, received), ExitStack() as stack:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
        started = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
        # a failure must not wait for its end
        stack.callback(started.terminate)
        assert started.stdout is not None
        first = started.stdout.readline().decode().strip()
        assert first.startswith("2 shards on 1 nodes: ")
        address = first.rpartition(" ")[2]
        named = "--index", tmp_path / "index"

        def output(*words: str) -> str:
            environment = os.environ | {"RAY_AUTH_MODE": "token", "MERGEWISE_CLUSTER": address}
            on = ["--ray", address] if words[0] == "cluster" else []
            done = subprocess.run(
                [*run, *words, *on, *named], capture_output=True, text=True, env=environment, timeout=90
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        # other machines reach no port, and other users no file
        listening = listening_addresses(started.pid)
        assert len(listening) > 4 and {address for address, _ in listening} == {LOOPBACK}
        (folder,) = {Path(one) for one in re.findall(r"/tmp/mergewise-ray-\w+", " ".join(commands_of(started.pid)))}
        assert folder.stat().st_mode & 0o777 == 0o700
        # metrics are off
        for _, port in listening:
            with suppress(OSError, HTTPException), urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                raise AssertionError(f"metrics at {port}: {answer.read(200)!r}")
        assert "1903" in output("ask", QUESTIONS[3])
        assert until(lambda: {"mergewise.ask", "mergewise.shards"} <= {one.name for one in spans_in(received)})
        spans = {one.span_id: one for one in spans_in(received)}
        asked = next(one for one in spans.values() if one.name == "mergewise.ask")
        # searchers are also asked when the index is opened, before the question
        own = [one for one in spans.values() if one.name == "mergewise.shards" and one.trace_id == asked.trace_id]
        parents = {spans[one.parent_span_id].name for one in own}
        assert {"mergewise.context", "mergewise.search"} <= parents
        state = json.loads(output("cluster", "status", "--json"))
        assert state["ready"] and state["snapshot"] == index.store.reader().snapshot and len(state["shards"]) == 2
        shown = output("cluster", "status")
        assert "shards 0, 1" in shown and "p95" in shown
        started.send_signal(signal.SIGINT)
        assert started.wait(30) == 0
    assert not folder.exists()


LOOPBACK = "127.0.0.1"


def processes_of(pid: int) -> list[int]:
    """Return a process and all processes that it began."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(one for task in tasks for child in task.read_text().split() for one in processes_of(int(child)))]


def commands_of(pid: int) -> list[str]:
    return [Path(f"/proc/{one}/cmdline").read_text().replace("\0", " ") for one in processes_of(pid)]


def listening_addresses(pid: int) -> set[tuple[str, int]]:
    """Return the addresses and ports on which a process and its children listen."""
    links = (link for one in processes_of(pid) for link in Path(f"/proc/{one}/fd").iterdir())
    sockets = {str(link.readlink()) for link in links if link.is_symlink()}
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            _, local, _, state, *more = line.split()
            if state == "0A" and f"socket:[{more[5]}]" in sockets:
                host, port = local.split(":")
                words = bytes.fromhex(host)
                packed = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
                address = ip_address(packed)
                found.add((str(getattr(address, "ipv4_mapped", None) or address), int(port, 16)))
    return found


def test_few_shards_move_when_a_node_leaves() -> None:
    names = [f"node {number}" for number in range(8)]
    before = [searchers_of(at, names, 2) for at in range(64)]
    after = [searchers_of(at, names[:-1], 2) for at in range(64)]
    assert all({*one} - {names[-1]} <= {*other} for one, other in zip(before, after, strict=True))
    held = [sum(name in own for own in before) for name in names]
    assert sum(held) == 128 and min(held) > 5


def test_an_index_without_shards_is_refused(nodes: Any, tmp_path: Path) -> None:
    new_index(tmp_path / "index", None)
    with pytest.raises(UsageError, match="no index in shards"):
        Control(tmp_path / "index", nodes.address)
    assert place_of(tmp_path / "index").known() is not None


HEADLESS = """
import sys, time
import mergewise
from mergewise.cluster import Control
from ray.cluster_utils import Cluster
from tests.integrations.test_cluster_search import QUESTIONS, is_whole
from tests.support import HashEmbedder

nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
nodes.add_node(num_cpus=1)
address = nodes.address
control = Control(sys.argv[1], address)
control.start(2, needs_token=False)
control.wait(is_whole, 60)
index = mergewise.open(sys.argv[1], embedder=HashEmbedder(), ray=address)

def contexts():
    return [index.context(question).text for question in QUESTIONS[:5]]

before = contexts()
nodes.head_node.kill_gcs_server(check_alive=False)
began = time.monotonic()
print(contexts() == before, time.monotonic() - began < 30, flush=True)
"""


def test_questions_are_answered_for_a_while_without_the_head(place: Path) -> None:
    # after a minute Ray ends the process
    with subprocess.Popen(
        [sys.executable, "-c", HEADLESS, place], stdout=subprocess.PIPE, start_new_session=True
    ) as asking:
        assert asking.stdout is not None
        try:
            assert asking.stdout.readline() == b"True True\n"
        finally:
            os.killpg(asking.pid, signal.SIGKILL)


# -- a server in front


def test_a_server_asks_the_cluster(nodes: Any, bucket: str, tmp_path: Path) -> None:
    url = bucket.replace("towers", "served")
    index = mw.open(url, embedder="none", shards=2)
    index.add(*towers())
    expected = [index.context(question, budget=200).text for question in QUESTIONS[:5]]
    control = Control(url, nodes.address)
    control.start(REPLICAS, needs_token=False)
    control.wait(is_whole, 60)
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    words = ["serve", url, "--ray", nodes.address, "--port", "0", "--no-auth", "--workers", "1"]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "mergewise", *words], stdout=subprocess.PIPE, stderr=log, env=environment
        )
    try:
        assert server.stdout is not None
        address = server.stdout.readline().decode().strip()
        assert address, (tmp_path / "log").read_text()
        with httpx.Client(base_url=address, timeout=60) as client:
            until(lambda: client.get("/readyz").status_code == 200, 60)

            def contexts() -> list[str]:
                replies = [
                    client.post("/api/v1/collections/served/context", json={"question": question, "budget": 200})
                    for question in QUESTIONS[:5]
                ]
                return [reply.json()["context"]["text"] for reply in replies]

            assert contexts() == expected
            # the searchers were asked, and a killed one costs no answer
            assert until(lambda: any(one["p50"] > 0 for one in control.state()["nodes"]))
            os.kill(next(iter(pids_of(control).values())), signal.SIGKILL)
            assert contexts() == expected
            refused = client.post(
                "/api/v1/collections/served/documents", files={"files": ("new.md", b"# New\n\nA text.\n")}
            )
            assert refused.status_code in (403, 409), refused.text
    finally:
        server.terminate()
        server.communicate(timeout=30)
        control.stop()
