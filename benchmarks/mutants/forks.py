"""A copy of the repository, and pytest runs on it in a forked process. All files are written inside or next to the copy."""

from __future__ import annotations

import contextlib
import filecmp
import gc
import importlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MEMORY = 12 << 30  # bytes of address space per mutant
TOO_SLOW = "too slow to run for every mutant"
# Modules that take longest to import and start no threads. lancedb itself starts one, but most of its time is lance_namespace.
PRELOADED = (
    "pytest", "hypothesis", "coverage", "numpy", "pyarrow.dataset", "lance_namespace", "onnxruntime", "tokenizers",
    "openai", "httpx2", "openpyxl", "docx", "pptx", "docutils.core", "lxml.html", "markdown_it", "typer", "rich.markdown",
)  # fmt: skip
OPTIONS = [
    "-q",
    "-p",
    "hypothesispytest",
    "-p",
    "no:cacheprovider",
    "--hypothesis-seed=0",
    "-m",
    "not slow",
    "--no-header",
    "--tb=line",
]
# Plugins are imported before the fork.
OPTIONS += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]


def preload() -> None:
    """Import the modules most tests need, before processes are forked. The modules must not start threads."""
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    # onnxruntime is imported before mergewise, which would warn
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    # Other plugins cost seconds per run.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # the collector can skip these objects in every fork


def copy_tree(root: Path, target: Path) -> Path:
    """Copy the files that git tracks or would add, as they are in the working tree. Keep compiled files of the copy."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
    )
    names = {name for name in listed.stdout.decode().split("\0") if name and (root / name).is_file()}
    for file in target.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts and file.relative_to(target).as_posix() not in names:
            file.unlink()
    for name in names:
        if not _same(root / name, target / name):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)
    return target


def _same(one: Path, other: Path) -> bool:
    return other.is_file() and filecmp.cmp(one, other)  # compares size and time first


@dataclass
class Fork:
    """A forked run in its own process group, ended by a limit on wall-clock time or CPU seconds."""

    pid: int
    tree: Path
    started: float
    wall: float
    out_of_time: bool = False
    status: int | None = None
    cpu: float = 0.0

    def ended(self) -> bool:
        if self.status is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self.status, self.cpu = status, usage.ru_utime + usage.ru_stime
                self._kill()  # end processes left by its tests
            elif time.monotonic() - self.started > self.wall:
                self.out_of_time = True
                self._kill()
        return self.status is not None

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    @property
    def killed(self) -> bool:
        return self.status is not None and os.WIFSIGNALED(self.status)

    @property
    def out_of_cpu(self) -> bool:
        return self.killed and os.WTERMSIG(self.status or 0) == signal.SIGXCPU


def fork(tree: Path, work: Callable[[], None], wall: float, cpu: float) -> Fork:
    """Run `work` in a new process in the copy at `tree`, within limits. Its output is written next to the copy."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(pid, pid)
        return Fork(pid, tree, time.monotonic(), wall)
    code = 1
    try:
        os.setpgid(0, 0)
        _enter(tree, cpu)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _enter(tree: Path, cpu: float) -> None:
    output = os.open(tree.parent / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu), int(cpu) + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(tree)
    for name in [name for name in sys.modules if name.split(".")[0] in ("mergewise", "tests", "benchmarks")]:
        del sys.modules[name]
    sys.path[:0] = [str(tree / "src"), str(tree)]
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])


def pytest_run(files: list[str], plugin: object, tree: Path, *options: str) -> int:
    """Run pytest on some files of the copy, without state from an earlier run."""
    import pytest

    for leftover in (tree / ".hypothesis", tree.parent / "tmp"):
        shutil.rmtree(leftover, ignore_errors=True)
    return int(pytest.main([*OPTIONS, f"--basetemp={tree.parent / 'tmp'}", *options, *files], plugins=[plugin]))


def limit_test(seconds: float) -> None:
    """Skip the running test after `seconds` of CPU time; 0 removes the limit."""
    signal.signal(signal.SIGVTALRM, _give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


def _give_up(*_: object) -> None:
    """Skip the running test. Hypothesis stops searching when a test skips itself."""
    import pytest

    raise pytest.skip.Exception(TOO_SLOW)
