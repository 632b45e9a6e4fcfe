"""The actor that places shards. Searchers and gatherers work on without it.

Each second it compares the index, the nodes and the searchers' reports with the announced placement:

1. A node without a searcher gets one.
2. Searchers open the shards of the newest snapshot that are theirs by rendezvous hashing.
3. Once all are open, the new placement is announced to all searchers. Until then the old one stays.

Its own state is the last announced placement, which it reads from the searchers when it starts again.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from threading import Event, Thread
from time import monotonic, time_ns
from typing import Any

import mergewise
from mergewise.cluster.actors import Actors
from mergewise.cluster.placement import CONTROL, REFRESH, NodeCache, Placement, searchers_of, sharded_place
from mergewise.cluster.searcher import Searcher
from mergewise.errors import StoreError, UsageError
from mergewise.extend import load_ray, snapshot_of

# seconds without a report after which the shards of a searcher move
SILENT = 10.0
# seconds between two attempts to start a searcher on a node
RETRY = 30.0
# numbers of threads of a searcher for questions and for control
QUESTIONS, CONTROLS = 16, 4


class Coordinator:
    """The placement of an index's shards on the nodes of a cluster."""

    def __init__(self, index: str, replicas: int, cache: NodeCache) -> None:
        self._index = index
        self._place = sharded_place(index)
        self._ray = load_ray()
        self._actors = Actors(self._ray, self._place)
        self._announced, _ = self._actors.newest_placement(self._actors.searchers())
        # the placement that searchers prepare
        self._next: Placement | None = None
        self._replicas = self._announced.replicas if self._announced else replicas
        self._drained = self._announced.drained if self._announced else frozenset()
        self._cache = self._announced.cache if self._announced else cache
        self._nodes: dict[str, dict[str, Any]] = {}
        # the last report of each searcher, and the times of reports and of starts
        self._reports: dict[str, dict[str, Any]] = {}
        self._heard: dict[str, float] = {}
        self._started: dict[str, float] = {}
        self._error = ""
        self._wake = Event()
        Thread(target=self._run, daemon=True).start()

    # -- commands

    def configure(self, replicas: int, cache: NodeCache) -> None:
        """Set the number of replicas and the cache of the nodes, and use drained nodes again."""
        self._replicas, self._drained, self._cache = replicas, frozenset(), cache
        self._wake.set()

    def drain(self, node: str) -> None:
        """Move the shards of a node to others. Raises UsageError for an unknown node."""
        named = [name for name, one in self._nodes.items() if one["NodeID"].startswith(node) or one["NodeName"] == node]
        if len(named) != 1:
            raise UsageError(f"unknown node: {node!r}", "give an id of `mergewise cluster status`")
        self._drained |= {*named}
        self._wake.set()

    def state(self) -> dict[str, Any]:
        """Return the state of the cluster as JSON values."""
        placement = self._announced
        nodes = [
            {"node": name, "address": node["NodeManagerAddress"], "drained": name in self._drained}
            | self._reports.get(name, {})
            for name, node in self._nodes.items()
        ]
        return {
            "snapshot": placement and placement.snapshot,
            "replicas": self._replicas,
            "ready": placement is not None and self._next is None,
            "shards": [list(own) for own in placement.searchers] if placement else [],
            "nodes": nodes,
            "error": self._error or next(filter(None, (node.get("error") for node in nodes)), ""),
        }

    # -- placing

    def _run(self) -> None:
        while True:
            try:
                self._step()
                self._error = ""
            except Exception as error:
                self._error = f"cannot place shards: {error}"
            self._wake.wait(REFRESH if self._next is None else 0.1)
            self._wake.clear()

    def _step(self) -> None:
        self._nodes = {node["NodeID"][:16]: node for node in self._ray.nodes() if node["Alive"]}
        self._look_at_searchers()
        target = self._target()
        held = {name: report["held"].get(target.snapshot, ()) for name, report in self._reports.items()}
        lacking = [name for name, own in held.items() if not target.shards_of(name).issubset(own)]
        self._actors.ask_all(lacking, "prepare", target)
        if target.searchers[0] and not lacking and target != self._announced:
            # the time, because a new coordinator may not hear of the last number
            self._announced = target = replace(target, number=max(target.number + 1, time_ns() // 10**6))
        self._next = None if target == self._announced else target
        if self._announced is not None:
            late = [name for name, report in self._reports.items() if report["announced"] < self._announced.number]
            self._actors.ask_all(late, "announce", self._announced)
        outdated = [name for name, report in self._reports.items() if report.get("cache", self._cache) != self._cache]
        if outdated and not lacking:
            # one at a time, so that its replicas answer meanwhile
            self._ray.kill(self._actors.get(outdated[0]))

    def _look_at_searchers(self) -> None:
        """Read the searchers' reports, and start a searcher on each node that has none."""
        now = monotonic()
        for name, report in self._actors.ask_all(self._nodes, "report").items():
            if not isinstance(report, Exception):
                self._reports[name], self._heard[name] = report, now
                self._started.pop(name, None)
                continue
            if name in self._reports:
                # its successor begins without shards
                self._reports[name] |= {"held": {}, "announced": 0, "cache": self._cache}
            if name not in self._drained and now - self._started.get(name, -inf) > RETRY:
                self._started[name] = now
                from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

                node = NodeAffinitySchedulingStrategy(self._nodes[name]["NodeID"], soft=False)
                options: dict[str, Any] = {"max_concurrency": QUESTIONS, "concurrency_groups": {CONTROL: CONTROLS}}
                options["scheduling_strategy"] = node
                self._actors.start(Searcher, name, options, self._index, name, self._cache)
        alive = {name for name in self._nodes if now - self._heard.get(name, -inf) < SILENT}
        self._reports = {name: report for name, report in self._reports.items() if name in alive}

    def _target(self) -> Placement:
        """Return the placement to prepare. One that is being prepared is completed before the next snapshot, unless it fails."""
        usable = {
            name: report
            for name, report in self._reports.items()
            if report["version"] == mergewise.__version__ and name not in self._drained
        }
        is_failing = any(report["error"] for report in usable.values())
        state = self._place.manifest() if self._next is None or is_failing else self._next.state
        if state is None:
            raise StoreError(f"the index is gone: {self._place}")
        snapshot = snapshot_of(state.manifest.parts.values())
        sound = [name for name, report in usable.items() if report["failed"] != snapshot] or list(usable)
        return Placement(
            self._announced.number if self._announced else 0,
            mergewise.__version__,
            state,
            tuple(searchers_of(at, sound, self._replicas) for at in range(len(state.manifest.parts))),
            self._replicas,
            self._drained,
            self._cache,
        )
