"""Indexes built by two nodes of a local Ray cluster have the rows of one process, even if workers die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import mergewise as mw
from mergewise.designs import VIEWS
from mergewise.errors import UsageError, install_command
from mergewise.index import cluster, pipeline, vectors
from mergewise.index.cluster import on_cluster
from mergewise.index.executors import Executor, WorkerPool
from mergewise.index.work import IndexingProgress
from mergewise.inputs import inputs_of
from tests.cli.test_eval_runs import record_questions, timeless_bytes
from tests.cli.test_eval_runs import run as run_evaluation
from tests.evaluate.towns import saved_task
from tests.index.errands import kill_other_process, noisy, square
from tests.index.test_executors import tables_on_disk
from tests.support import add_inputs

ray = pytest.importorskip("ray", reason=f"ray is not installed: {install_command('ray')}")
# Ray itself warns
pytestmark = pytest.mark.filterwarnings("ignore")
TOWERS, NOTES = 12, 6
long_form = pytest.mark.skipif("MERGEWISE_ATTACK" not in os.environ, reason="takes 20 seconds: with MERGEWISE_ATTACK=1")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """Cluster of two nodes with one CPU each."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    running = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    running.add_node(num_cpus=1)
    yield running
    running.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = tmp_path_factory.mktemp("files") / "documents"
    files.mkdir()
    for number in range(TOWERS):
        sentences = f"The tower {number} of Brook fell in {1900 + number}. A mason of Delft built it again. " * 12
        (files / f"{number:02}.md").write_text(f"# Tower {number}\n\n{sentences}\n\n## Stones\n\nThe stones are old.\n")
    (files / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    return files


@pytest.fixture(scope="module", autouse=True)
def small_parts() -> Iterator[None]:
    """Small batches, so that there are many work items."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("SMALL", 1000), ("SENT_DOCUMENTS", 2), ("BATCH_DOCUMENTS", 5)):
            patch.setattr(pipeline, name, value)
        patch.setattr(vectors, "SENT_LEAVES", 4)
        yield


def new_index(place: Path) -> mw.Index:
    return mw.open(place, views=("leaf", "slice"))


@pytest.fixture(scope="module")
def expected(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Tables that one process makes."""
    index = new_index(tmp_path_factory.mktemp("serial") / "index")
    assert index.add(folder, *notes()).added == TOWERS + NOTES
    return tables_on_disk(index)


def notes() -> list[mw.Document]:
    return [mw.Document(f"note {number}", f"The tower {number} leans. Nobody lives there.") for number in range(NOTES)]


def differing(index: mw.Index, expected: dict[str, Any]) -> list[str]:
    assert index.check() == [] and index.vectors().waiting == 0
    found = tables_on_disk(index)
    assert found.keys() == expected.keys() >= {"documents", "leaf", "slice"}
    columns = [(name, column) for name in expected for column in expected[name].column_names]
    return [f"{name}.{column}" for name, column in columns if found[name][column] != expected[name][column]]


def test_two_nodes_give_the_rows_of_one_process(
    nodes: Any, folder: Path, expected: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    index = new_index(tmp_path / "index")
    report = index.add(folder, *notes(), ray=nodes.address)
    assert report.added == TOWERS + NOTES and [Path(one.source).name for one in report.failed] == ["broken.pdf"]
    assert differing(index, expected) == []
    # Ray's own output must not reach standard output
    assert capfd.readouterr().out == "" and not ray.is_initialized()


def test_workers_of_a_cluster_behave_like_the_local_pool(nodes: Any, caplog: pytest.LogCaptureFixture) -> None:
    here = os.getpid()
    with on_cluster(1, nodes.address, None, 0.0) as pool:
        assert isinstance(pool, WorkerPool) and pool.workers == 2
        until = time.monotonic() + 60
        # the first worker may finish all items before the second starts
        while len(pool.pids) < 2 and time.monotonic() < until:
            list(pool.map(square, range(30)))
        found = list(pool.map(square, range(30)))
        assert [value for value, _ in found] == [number * number for number in range(30)]
        assert {pid for _, pid in found} == {*pool.pids} and len(pool.pids) == 2 and here not in pool.pids
        with pytest.warns(UserWarning), pytest.raises(UsageError, match="two is too much"):
            list(pool.map(noisy, [1, 2]))
        assert [record.getMessage() for record in caplog.records] == ["number 1", "number 2"]
        caplog.clear()
        # what kills every worker is done here, and the workers are replaced
        assert list(pool.map(kill_other_process, [(here, number) for number in range(9)])) == list(range(9))
        assert len([r for r in caplog.records if "processed again" in r.getMessage()]) == cluster.TRIES
        assert next(iter(pool.map(square, [7])))[1] in pool.pids


@contextmanager
def recording_pool(size: int, address: str, seen: list[WorkerPool]) -> Iterator[Executor]:
    with on_cluster(size, address, 2, 0.0) as pool:
        assert isinstance(pool, WorkerPool)
        seen.append(pool)
        yield pool


def test_an_actor_and_a_node_are_killed(
    nodes: Any, folder: Path, expected: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Kill an actor while texts are split, and a node while they are embedded."""
    node = nodes.add_node(num_cpus=1)
    nodes.wait_for_nodes()
    index = new_index(tmp_path / "index")
    pools: list[WorkerPool] = []
    events: dict[float, Callable[[], object]] = {
        0.01: lambda: os.kill(pools[0].pids[0], signal.SIGKILL),
        0.3: lambda: nodes.remove_node(node, allow_graceful=False),
    }

    def kill_at(done: int, total: int, name: str) -> None:
        for share in [share for share in events if total and pools and pools[0].pids and done > share * total]:
            events.pop(share)()

    report = add_inputs(
        inputs_of([folder, *notes()], tmp_path),
        index.store,
        VIEWS,
        index._builders(),
        IndexingProgress(kill_at),
        executors=lambda size: recording_pool(size, nodes.address, pools),
    )
    assert report.added == TOWERS + NOTES and events == {}
    assert differing(index, expected) == []
    # Ray's own output must not reach standard output
    assert capfd.readouterr().out == ""


KILLED = """
import sys
import mergewise
from mergewise.index import pipeline

pipeline.BATCH_DOCUMENTS, pipeline.SENT_DOCUMENTS, pipeline.SMALL = 5, 2, 1000
index = mergewise.open(sys.argv[1], views=("leaf", "slice"))

def tell(done, total, name):
    if name.endswith("/08.md") and done:
        print("ready", flush=True)
        sys.stdin.read()

index.add(sys.argv[2], progress=tell, ray=sys.argv[3])
"""


@long_form
def test_the_driver_is_killed_and_a_rerun_does_the_rest(
    nodes: Any, folder: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    place = tmp_path / "index"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, place, folder, nodes.address],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        assert run.stdout is not None and run.stdout.readline() == "ready\n"
        run.kill()
    # opened without its views: their missing rows would be made now, under other ids
    index = mw.open(place)
    assert 0 < len(index) < TOWERS and index.check() == []
    index.add(folder, *notes(), ray=nodes.address)
    assert differing(index, expected) == []


@long_form
def test_unreachable_cluster_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "JOIN_SECONDS", 4.0)
    index = mw.open(tmp_path / "index", embedder="none")
    for address in ("127.0.0.1:1", "nonsense"):
        with pytest.raises(UsageError, match="Ray cluster not available at") as raised:
            index.add(*notes(), ray=address)
        assert "--ray local" in raised.value.hint
    assert len(index) == 0


def test_a_cluster_without_enough_gpus(nodes: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no node of the Ray cluster has a processor and"):
        mw.open(tmp_path / "index", embedder="none").add(*notes(), ray=nodes.address, gpus_per_worker=0.5)


def test_an_evaluation_on_two_nodes_has_the_rows_of_one_process(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saved_task(tmp_path / "towns")
    words = "towns", "-i", "indexes", "-s", "topk,weave", "-b", "30,60", "--out"
    run_evaluation(*words, "alone")
    asked = record_questions(monkeypatch)
    monkeypatch.setenv("MERGEWISE_RAY", nodes.address)
    run_evaluation(*words, "cluster")
    found, expected = (timeless_bytes(tmp_path / name / "rows.parquet") for name in ("cluster", "alone"))
    assert found == expected and not asked
