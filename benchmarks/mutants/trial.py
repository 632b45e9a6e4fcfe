"""One mutant against the tests that call the changed function: the quickest first, until one fails.

A test that fails, an import that fails, and CPU seconds far beyond what the tests take without the change (an endless
loop) are a catch. A limit on wall-clock time is none: such a mutant runs again, alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.mutants import forks
from benchmarks.mutants.reached import Test
from benchmarks.mutants.sample import SOURCE, Mutant

FIRST = 1.5  # seconds of tests in the first batch; each batch collects its files anew
CPU = (30.0, 6.0)  # limit: seconds, and so many times what the tests take
WALL = (300.0, 30.0)
CAUGHT_CODES = {1: "test", 2: "import", 4: "import"}  # pytest's exit codes: failed, interrupted, usage (a conftest)


@dataclass(frozen=True)
class Verdict:
    """`caught`, `survived`, or `unclear` (no time was left, or pytest itself failed); and by what."""

    verdict: str
    by: str
    tests: int
    cpu: float


@dataclass
class Chosen:
    """A pytest plugin: only the chosen tests of a file run, and the first that fails is noted."""

    names: set[str]
    failed: list[str] = field(default_factory=list)
    run: int = 0

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        items[:] = [item for item in items if item.nodeid in self.names]

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.run += report.when == "call"
        if report.failed:
            self.failed.append(report.nodeid)


def affordable(tests: list[Test], allowance: float) -> list[Test]:
    """The quickest tests that fit the allowance together, at least one."""
    taken: list[Test] = []
    spent = 0.0
    for test in tests:
        spent += max(test.cpu, test.wall)
        if taken and spent > allowance:
            break
        taken.append(test)
    return taken


def batches(tests: list[Test]) -> list[list[Test]]:
    """The files in which the first tests take little, and then the rest: a batch collects its files only once."""
    files: dict[str, list[Test]] = {}
    for test in tests:
        files.setdefault(test.file, []).append(test)
    costs = {name: sum(test.cpu for test in inside) for name, inside in files.items()}
    first: list[Test] = []
    for name in sorted(files, key=costs.__getitem__):
        if first and sum(test.cpu for test in first) + costs[name] > FIRST:
            break
        first += files.pop(name)
    rest = [test for inside in files.values() for test in inside]
    return [batch for batch in (first, rest) if batch]


class Slot:
    """A copy of the tree in which one mutant at a time stands."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.mutant: Mutant | None = None
        self.tests: list[Test] = []

    def start(
        self, mutant: Mutant, tests: list[Test], allowance: float, patience: float = 1.0, changed: bool = True
    ) -> None:
        """Put the change in place and fork the run; without `changed` the same tests meet the sources as they are."""
        self.mutant, self.tests = mutant, affordable(tests, allowance)
        self._outcome.unlink(missing_ok=True)
        self.file = self.tree / SOURCE / mutant.path
        self.source = self.file.read_bytes()
        if changed:
            self._put(mutant.change.applied(self.source.decode()).encode())
        cpu, wall = (sum(getattr(test, name) for test in self.tests) for name in ("cpu", "wall"))
        limits = {"cpu": CPU[0] + CPU[1] * cpu, "wall": (WALL[0] + WALL[1] * wall) * patience}
        self.run = forks.fork(self.tree, self._work, **limits)

    def verdict(self) -> Verdict | None:
        """What came out, once the run has ended; the source is put back."""
        if not self.run.ended():
            return None
        self._put(self.source)
        self.mutant = None
        if self.run.out_of_time:
            return Verdict("unclear", "wall-clock time", len(self.tests), self.run.cpu)
        if self.run.out_of_cpu:
            return Verdict("caught", "CPU time", len(self.tests), self.run.cpu)
        if not self._outcome.exists():
            verdict = "caught" if self.run.killed else "unclear"
            return Verdict(verdict, "the process died", len(self.tests), self.run.cpu)
        known = json.loads(self._outcome.read_text(encoding="utf-8"))
        return Verdict(known["verdict"], known["by"], known["tests"], self.run.cpu)

    @property
    def _outcome(self) -> Path:
        return self.tree.parent / "outcome.json"

    def _put(self, source: bytes) -> None:
        """Write the source, and drop what was compiled of it: two versions may share size and time."""
        self.file.write_bytes(source)
        for compiled in (self.file.parent / "__pycache__").glob(f"{self.file.stem}.*.pyc"):
            compiled.unlink()

    def _work(self) -> None:
        chosen, verdict, by = Chosen({test.name for test in self.tests}), "survived", ""
        for batch in batches(self.tests):
            files = list(dict.fromkeys(test.file for test in batch))
            code = forks.pytest_run(files, chosen, self.tree, "-x")
            if code in CAUGHT_CODES:
                verdict, by = "caught", chosen.failed[0] if chosen.failed else CAUGHT_CODES[code]
                break
            if code not in (0, 5):
                verdict, by = "unclear", f"pytest ended with {code}"
                break
        self._outcome.write_text(json.dumps({"verdict": verdict, "by": by, "tests": chosen.run}), encoding="utf-8")
