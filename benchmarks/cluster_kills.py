"""Questions to a searching cluster while its actors and nodes are killed: lost and wrong answers, CPU and messages.

The nodes are local (`ray.cluster_utils`). A question is lost if it raises an error, and wrong if its context differs from that of
the same index in this process. Meanwhile a writer commits, and one of the following happens as soon as the cluster is whole
again: a searcher or the coordinator is killed (kill -9), or a node is removed and added again.

    python -m benchmarks.cluster_kills --questions 10000
    python -m benchmarks.cluster_kills --index DIRECTORY --questions 1000

CPU is that of the asking process, and of that process with all searchers.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from threading import Event, Lock, Thread
from typing import Any

import numpy as np

import mergewise as mw
from mergewise.cluster import ClusterStore, Control
from mergewise.cluster.placement import COORDINATOR
from mergewise.protocols import FloatArray

# a question in this many is answered by weave, the others by topk
WEAVE_EVERY = 4
DIFFERENT = 120
# seconds for which the processes are measured without questions
IDLE = 5.0
WORDS = "mason bell river oak stone bridge abbot copper mill roof harbour lantern wheel saddle orchard anchor".split()


def documents(count: int, seed: int = 1) -> list[mw.Document]:
    draw = random.Random(seed)
    texts = []
    for number in range(count):
        lines = [
            f"The tower {number} of Brook fell in {1000 + number}, {'very ' * (number % 30)}late.",
            *(
                f"A {draw.choice(WORDS)} with a {draw.choice(WORDS)} {draw.randrange(10**6)} was there."
                for _ in range(8)
            ),
        ]
        texts.append(mw.Document(f"tower {number}", f"# Tower {number}\n\n" + " ".join(lines) + "\n"))
    return texts


@contextmanager
def local_nodes(count: int) -> Iterator[Any]:
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(count - 1):
        nodes.add_node(num_cpus=1)
    try:
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


def is_whole(state: dict[str, Any], nodes: int) -> bool:
    """Return whether all nodes live and hold their shards of the announced snapshot."""
    held = {one["node"]: one.get("held", {}).get(state["snapshot"], ()) for one in state["nodes"]}
    placed = [(at, name) for at, own in enumerate(state["shards"]) for name in own]
    return len(held) == nodes and bool(placed) and all(at in held.get(name, ()) for at, name in placed)


def searcher_pids(control: Control) -> dict[str, int]:
    reports = control._actors.ask_all(control._actors.searchers(), "report").items()
    return {name: one["pid"] for name, one in reports if not isinstance(one, Exception)}


def cpu_of(pids: Sequence[int]) -> float:
    """Return the CPU seconds of processes."""
    ticks = os.sysconf("SC_CLK_TCK")
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(own[11]) + int(own[12]) for own in fields) / ticks


def measured(index: mw.Index, control: Control, strategy: str, questions: Sequence[str]) -> dict[str, float]:
    """Ask questions without faults. Return CPU and wall times in milliseconds, and messages a question.

    CPU that the processes use without questions is measured before and subtracted.
    """
    store = index.store
    assert isinstance(store, ClusterStore)
    for question in questions[:10]:
        index.context(question, strategy=strategy)
    pids = list(searcher_pids(control).values())

    def clocks() -> FloatArray:
        return np.array([time.perf_counter(), time.process_time(), cpu_of(pids)])

    before = clocks()
    time.sleep(IDLE)
    idle = clocks() - before
    messages, before, wall = store._searchers.messages, clocks(), []
    for question in questions:
        began = time.perf_counter()
        index.context(question, strategy=strategy)
        wall.append(time.perf_counter() - began)
    took, count = clocks() - before, len(questions)
    own, searchers = (1000 * (took - idle * took[0] / idle[0])[1:] / count).tolist()
    return {
        "gatherer_ms": round(own, 1),
        "all_ms": round(own + searchers, 1),
        "idle_ms_per_s": round(1000 * float(idle[1:].sum() / idle[0]), 1),
        "messages": round((store._searchers.messages - messages) / count, 2),
        "p50_ms": round(1000 * median(wall), 1),
    }


@contextmanager
def slow(pid: int, seconds: float = 1.0) -> Iterator[None]:
    """Let a process run only a moment in each `seconds`."""
    ended = Event()

    def stop_and_go() -> None:
        while not ended.is_set():
            os.kill(pid, signal.SIGSTOP)
            ended.wait(seconds)
            os.kill(pid, signal.SIGCONT)
            ended.wait(0.02)

    thread = Thread(target=stop_and_go)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Campaign:
    """Questions in threads, with their outcomes."""

    def __init__(self, index: mw.Index, expected: dict[tuple[str, str], str], goal: int) -> None:
        self.asked, self.outcomes, self.errors = 0, Counter[str](), Counter[str]()
        self.seconds: list[float] = []
        self.snapshots = set[str]()
        self._index, self._expected, self._goal = index, expected, goal
        self._lock = Lock()

    @property
    def is_done(self) -> bool:
        return self.asked >= self._goal

    def run(self) -> None:
        cases = list(self._expected)
        while True:
            with self._lock:
                if self.is_done:
                    return
                number, self.asked = self.asked, self.asked + 1
            strategy, question = cases[number % len(cases)]
            began = time.perf_counter()
            try:
                context = self._index.context(question, strategy=strategy)
            except Exception as error:
                self.outcomes["lost"] += 1
                self.errors[f"{type(error).__name__}: {error}"[:200]] += 1
                continue
            self.seconds.append(time.perf_counter() - began)
            self.snapshots.add(context.snapshot)
            self.outcomes["right" if context.text == self._expected[strategy, question] else "wrong"] += 1


def kill_something(draw: random.Random, control: Control, nodes: Any) -> str:
    """Kill an actor or a node, and wait until the coordinator knows."""
    what = draw.choice(["searcher", "searcher", "searcher", "coordinator", "node"])
    if what == "searcher":
        pid = draw.choice(list(searcher_pids(control).values()))
        os.kill(pid, signal.SIGKILL)
        control.wait(lambda state: all(one.get("pid") != pid for one in state["nodes"]), 120)
    elif what == "coordinator":
        control._ray.kill(control._actors.get(COORDINATOR), no_restart=False)
    else:
        node = draw.choice(list(nodes.worker_nodes))
        nodes.remove_node(node, allow_graceful=False)
        control.wait(lambda state: all(one["node"] != node.node_id[:16] for one in state["nodes"]), 120)
        nodes.add_node(num_cpus=1)
    return what


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--index", type=Path, help="index in shards, which is changed (default: a new one of made-up texts)"
    )
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--measured", type=int, default=100, help="questions of each measurement without faults")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=500.0, help="limit of the campaign")
    parser.add_argument("--pause", type=float, default=1.0, help="longest rest between two faults, in seconds")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    draw = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        local = mw.open(given.index or Path(folder) / "index", shards=None if given.index else given.shards)
        if given.index is None:
            local.add(*documents(given.documents))
        asked = draw.sample(range(min(len(local), given.documents)), min(DIFFERENT, len(local)))
        questions = [f"When did the tower {number} of Brook fall?" for number in asked]
        cases = [("weave" if at % WEAVE_EVERY == 0 else "topk", one) for at, one in enumerate(questions)]
        expected = {(strategy, one): local.context(one, strategy=strategy).text for strategy, one in cases}
        with local_nodes(given.nodes) as nodes:
            report = campaign(given, local, expected, questions, nodes, draw)
    print(json.dumps(report, indent=1))


def campaign(
    given: argparse.Namespace,
    local: mw.Index,
    expected: dict[tuple[str, str], str],
    questions: Sequence[str],
    nodes: Any,
    draw: random.Random,
) -> dict[str, Any]:
    control = Control(local.store.directory, nodes.address)
    control.start(given.replicas, needs_token=False)
    control.wait(lambda state: state["ready"] and is_whole(state, given.nodes), 120)
    index = mw.open(local.store.directory, ray=nodes.address)
    assert isinstance(index.store, ClusterStore)
    report: dict[str, Any] = {
        "leaves": local.store.reader().row_counts()["leaf"],
        "shards": len(local.store.manifest.parts),
    }
    few = questions[: given.measured]
    report |= {name: measured(index, control, name, few) for name in ("topk", "weave")}
    with slow(next(iter(searcher_pids(control).values()))):
        report["topk, one replica slow by 1 s"] = measured(index, control, "topk", few)
    control.wait(lambda state: is_whole(state, given.nodes), 120)
    asking = Campaign(index, expected, given.questions)
    threads = [Thread(target=asking.run) for _ in range(given.threads)]
    kills, commits, until = Counter[str](), 0, time.monotonic() + given.seconds
    for thread in threads:
        thread.start()
    while not asking.is_done and time.monotonic() < until:
        local.describe(["tower 1"], {"commit": commits})
        commits += 1
        time.sleep(given.pause * draw.random())
        kills[kill_something(draw, control, nodes)] += 1
        control.wait(lambda state: is_whole(state, given.nodes), 120)
        print(f"{dict(asking.outcomes)} after {dict(kills)}, {commits} commits", file=sys.stderr, flush=True)
    asking.asked += 0 if asking.is_done else given.questions
    for thread in threads:
        thread.join()
    answered = sorted(asking.seconds)
    report["campaign"] = {
        "questions": sum(asking.outcomes.values()),
        **{name: asking.outcomes[name] for name in ("right", "wrong", "lost")},
        "errors": dict(asking.errors.most_common(5)),
        "kills": dict(kills),
        "commits": commits,
        "snapshots": len(asking.snapshots),
        "p50_ms": round(1000 * median(answered)),
        "p99_ms": round(1000 * answered[len(answered) * 99 // 100]),
        "slowest_ms": round(1000 * answered[-1]),
    }
    return report


if __name__ == "__main__":
    main()
