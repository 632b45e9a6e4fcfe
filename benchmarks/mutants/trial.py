"""The trial of one mutant against the tests that call the changed function, the quickest first, until one fails.

A failing test, a failing import, and CPU time far beyond that of the unchanged tests (an endless loop) count as caught.
Running out of wall-clock time does not: such a mutant runs again, alone.
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from benchmarks.mutants import forks
from benchmarks.mutants.reached import Test
from benchmarks.mutants.sample import SOURCE, Mutant

FIRST = 1.5  # seconds of tests in the first batch; each batch collects its files again
CPU = (30.0, 6.0)  # limit: seconds, plus a multiple of the tests' own time
WALL = (300.0, 30.0)
# pytest's exit codes: failed, interrupted, usage error (a conftest).
CAUGHT_CODES = {1: "test", 2: "import", 4: "import"}


@dataclass(frozen=True)
class Verdict:
    """`caught`, `survived`, or `unclear` (out of time, or pytest itself failed), and the test or reason."""

    verdict: str
    by: str
    tests: int
    cpu: float


@dataclass(frozen=True)
class Plan:
    """Batches of test files, the tests to run in them (all if empty), and their total time."""

    batches: list[list[str]]
    names: frozenset[str] = frozenset()
    cpu: float = 0.0
    wall: float = 0.0
    allowance: float = math.inf  # CPU seconds after which no further test starts
    test_seconds: float = 0.0  # CPU seconds after which a test is skipped (0: no limit)


def planned(tests: list[Test], allowance: float) -> Plan:
    """Plan the quickest tests that fit the allowance together, in two batches."""
    chosen = affordable(tests, allowance)
    names = frozenset(test.name for test in chosen)
    return Plan(batches(chosen), names, sum(test.cpu for test in chosen), sum(test.wall for test in chosen))


def guessed(files: list[str], allowance: float, test_seconds: float) -> Plan:
    """Plan all tests of some files, within the allowance. The two nearest files come first."""
    found = [batch for batch in (files[:2], files[2:]) if batch]
    return Plan(found, cpu=allowance, wall=allowance, allowance=allowance, test_seconds=test_seconds)


def affordable(tests: list[Test], allowance: float) -> list[Test]:
    taken: list[Test] = []
    spent = 0.0
    for test in tests:
        spent += max(test.cpu, test.wall)
        if taken and spent > allowance:
            break
        taken.append(test)
    return taken


def batches(tests: list[Test]) -> list[list[str]]:
    """Split the files into a quick batch and the rest. A batch collects its files only once."""
    costs: dict[str, float] = defaultdict(float)
    for test in tests:
        costs[test.file] += test.cpu
    files = sorted(costs, key=costs.__getitem__)
    spent = list(accumulate(costs[file] for file in files))
    first = max(1, sum(seconds <= FIRST for seconds in spent))
    return [batch for batch in (files[:first], files[first:]) if batch]


@dataclass(eq=False)
class Chosen:
    """A pytest plugin that runs the tests of a plan and records the first failure."""

    plan: Plan
    failed: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    run: int = 0
    until: float = math.inf

    def pytest_collection(self) -> None:
        """Turn off shrinking and the example database of Hypothesis: any failure is enough."""
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", settings(), phases=phases, database=None)
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        chosen = [item for item in items if not self.plan.names or item.nodeid in self.plan.names]
        items[:] = chosen if self.plan.names else sorted(chosen, key=_is_generated)

    def pytest_runtest_protocol(self, item: Any) -> None:
        if math.isinf(self.until):
            self.until = time.process_time() + self.plan.allowance  # after collection, which does not count
        if time.process_time() > self.until:
            item.session.shouldstop = "time limit of the mutant reached"
        forks.limit_test(self.plan.test_seconds)

    def pytest_runtest_logfinish(self) -> None:
        forks.limit_test(0)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.run += report.when == "call"
        if report.failed:
            self.failed.append(report.nodeid)
        if report.skipped and forks.TOO_SLOW in str(report.longrepr):
            self.given_up.append(report.nodeid)


def _is_generated(item: Any) -> bool:
    """Check that Hypothesis generates the test's examples, which takes longer than fixed examples."""
    return hasattr(getattr(item, "obj", None), "hypothesis")


class Slot:
    """A copy of the tree for one mutant at a time."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.mutant: Mutant | None = None

    def start(self, mutant: Mutant, plan: Plan, patience: float = 1.0, changed: bool = True) -> None:
        """Apply the change and fork the run. With `changed=False` the tests run on the unchanged sources."""
        self.mutant, self.plan = mutant, plan
        self._outcome.unlink(missing_ok=True)
        self.file = self.tree / SOURCE / mutant.path
        self.source = self.file.read_bytes()
        if changed:
            self._write_source(mutant.change.applied(self.source.decode()).encode())
        limits = {"cpu": CPU[0] + CPU[1] * plan.cpu, "wall": (WALL[0] + WALL[1] * plan.wall) * patience}
        self.run = forks.fork(self.tree, self._work, **limits)

    def verdict(self) -> Verdict | None:
        """Return the verdict if the run has ended, and restore the source."""
        if not self.run.ended():
            return None
        self._write_source(self.source)
        self.mutant = None
        if self.run.out_of_time:
            return Verdict("unclear", "wall-clock time", len(self.plan.names), self.run.cpu)
        if self.run.out_of_cpu:
            return Verdict("caught", "CPU time", len(self.plan.names), self.run.cpu)
        if not self._outcome.exists():
            verdict = "caught" if self.run.killed else "unclear"
            return Verdict(verdict, "the process died", len(self.plan.names), self.run.cpu)
        known = json.loads(self._outcome.read_text(encoding="utf-8"))
        return Verdict(known["verdict"], known["by"], known["tests"], self.run.cpu)

    @property
    def _outcome(self) -> Path:
        return self.tree.parent / "outcome.json"

    def _write_source(self, source: bytes) -> None:
        """Write the source and delete its compiled file: two versions may have the same size and time."""
        self.file.write_bytes(source)
        for compiled in (self.file.parent / "__pycache__").glob(f"{self.file.stem}.*.pyc"):
            compiled.unlink()

    def _work(self) -> None:
        chosen, verdict, by = Chosen(self.plan), "survived", ""
        for files in self.plan.batches:
            code = forks.pytest_run(files, chosen, self.tree, "-x")
            if code in CAUGHT_CODES and (chosen.failed or code != 2 or time.process_time() < chosen.until):
                verdict, by = "caught", chosen.failed[0] if chosen.failed else CAUGHT_CODES[code]
                break
            if code not in (0, 2, 5):
                verdict, by = "unclear", f"pytest ended with {code}"
                break
        if verdict == "survived" and chosen.given_up:
            by = "given up: " + " ".join(chosen.given_up)
        self._outcome.write_text(json.dumps({"verdict": verdict, "by": by, "tests": chosen.run}), encoding="utf-8")
