"""The map of functions to the tests that call them. It is collected once, one process per test file, and stored on disk.

The part of a test file is collected again when the file changes. Failing tests, tests over the time limit, and tests after the
time limit of their file are left out.
"""

from __future__ import annotations

import ast
import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.mutants import forks
from benchmarks.mutants.sample import SOURCE

# Tests of kills, of browsers, and of this package.
LEFT_OUT = {"tests/test_kill.py", "tests/page/test_browser.py", "tests/test_mutants.py"}
SHARED = "shared fixtures"
LEAST_CPU = 0.005  # seconds counted for a test too quick to measure


@dataclass(frozen=True)
class Test:
    """A test and its results without any change."""

    name: str
    cpu: float
    wall: float

    @property
    def file(self) -> str:
        return self.name.split("::")[0]


class Observer:
    """A pytest plugin that sets the coverage context to the running test and records the time of each test."""

    def __init__(self, coverage: Any, seconds: float, test_seconds: float) -> None:
        self.coverage, self.until, self.test_seconds = coverage, time.process_time() + seconds, test_seconds
        self.times: dict[str, tuple[float, float]] = {}
        self.not_passed: set[str] = set()
        self.sharing: set[str] = set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._started = (time.process_time(), time.monotonic())
        forks.limit_test(self.test_seconds)

    def pytest_runtest_setup(self, item: Any) -> None:
        """Set the context of module fixtures: they run once, so they count for every test that uses them."""
        used = [one for several in item._fixtureinfo.name2fixturedefs.values() for one in several]
        if any(one.scope != "function" and one.baseid.startswith("tests") for one in used):
            self.sharing.add(item.nodeid)
            self.coverage.switch_context(SHARED)
        else:
            self.coverage.switch_context(item.nodeid)

    def pytest_runtest_call(self, item: Any) -> None:
        self.coverage.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.outcome != "passed":
            self.not_passed.add(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        forks.limit_test(0)
        self.times[nodeid] = (time.process_time() - self._started[0], time.monotonic() - self._started[1])

    def pytest_runtest_protocol(self, item: Any) -> None:
        if time.process_time() > self.until:
            item.session.shouldstop = "time limit of this file reached"


class Reached:
    """The map from functions to tests, read from the parts in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tests: dict[str, Test] = {}
        self.by_function: dict[str, set[str]] = defaultdict(set)
        for piece in sorted(folder.glob("*.json")):
            for name, known in json.loads(piece.read_text(encoding="utf-8"))["tests"].items():
                self.tests[name] = Test(name, *known["seconds"])
                for function in known["functions"]:
                    self.by_function[function].add(name)

    def concerned(self, path: str, function: str) -> list[Test]:
        """Return the tests that call a function, the quickest first; at module level, the tests that call anything of it."""
        names = self.by_function.get(f"{path}:{function}", set()) if function else set()
        if not names:  # the lines of a class or module run at import: take all tests that call something of it
            inside = f"{path}:{function}." if function else f"{path}:"
            within = [tests for name, tests in self.by_function.items() if name.startswith(inside)]
            within = within or [tests for name, tests in self.by_function.items() if name.startswith(f"{path}:")]
            names = set().union(*within)
        return sorted((self.tests[name] for name in names), key=lambda test: (max(test.cpu, LEAST_CPU), test.name))


def test_files(tree: Path, wanted: Iterable[str] = ()) -> list[str]:
    files = sorted(file.relative_to(tree).as_posix() for file in (tree / "tests").rglob("test_*.py"))
    return [file for file in files if file not in LEFT_OUT and (not wanted or file.startswith(tuple(wanted)))]


def stale(tree: Path, folder: Path, files: Iterable[str]) -> list[str]:
    """Return the test files with a missing or outdated part of the map."""
    return [file for file in files if _stored_digest(_piece(folder, file)) != _digest(tree / file)]


def _stored_digest(piece: Path) -> str | None:
    return json.loads(piece.read_text(encoding="utf-8"))["digest"] if piece.exists() else None


def _piece(folder: Path, file: str) -> Path:
    return folder / f"{file.removesuffix('.py').replace('/', '.')}.json"


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def collect(tree: Path, folder: Path, file: str, seconds: float, test_seconds: float) -> None:
    """Run one test file under coverage, in the forked process, and write its part of the map."""
    import coverage

    folder.mkdir(parents=True, exist_ok=True)
    watching = coverage.Coverage(data_file=None, include=[f"{tree / SOURCE}/*"], config_file=False)
    observer = Observer(watching, seconds, test_seconds)
    watching.start()
    forks.pytest_run([file], observer, tree)
    watching.stop()
    functions = _functions_by_test(watching.get_data(), tree)
    for name in observer.sharing:
        functions[name] |= functions[SHARED]
    tests = {
        name: {"seconds": observer.times[name], "functions": sorted(functions[name])}
        for name in observer.times
        if name not in observer.not_passed
    }
    found = {"digest": _digest(tree / file), "left_out": sorted(observer.not_passed), "tests": tests}
    _piece(folder, file).write_text(json.dumps(found, indent=0), encoding="utf-8")


def _functions_by_test(data: Any, tree: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for file in data.measured_files():
        path = Path(file).relative_to(tree / SOURCE).as_posix()
        owners = function_lines(Path(file).read_text(encoding="utf-8"))
        for line, contexts in data.contexts_by_lineno(file).items():
            for name in contexts if line in owners else ():
                found[name].add(f"{path}:{owners[line]}")
    return found


def function_lines(source: str) -> dict[int, str]:
    """Map the lines of function bodies to the qualified name of the innermost function."""
    owners: dict[int, str] = {}

    def walk(node: ast.AST, inside: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                for line in range(child.body[0].lineno, (child.end_lineno or 0) + 1):
                    owners[line] = ".".join((*inside, child.name))
                walk(child, (*inside, child.name))
            elif isinstance(child, ast.ClassDef):
                for line in range(child.lineno, (child.end_lineno or 0) + 1):
                    owners.pop(line, None)  # lines of a class inside a function run with the function
                walk(child, (*inside, child.name))
            else:
                walk(child, inside)

    walk(ast.parse(source), ())
    return owners
