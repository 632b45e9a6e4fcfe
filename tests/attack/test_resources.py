"""Full disks, read-only folders, clocks that jump, long-lived readers, many threads, forks, thousands of questions."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest

import mergewise as mw
from mergewise.errors import MergewiseError, StoreError
from mergewise.store.sweep import sweep
from tests.attack.support import LONG, SECONDS, command, linux_only, memory_mb, open_files, posix_only, script

pytestmark = posix_only


def note(number: int, version: int = 0) -> mw.Document:
    body = " ".join(f"Owl {number} ate {i} mice in version {version}." for i in range(12))
    return mw.Document(f"note{number}", f"# Note {number}\n\n{body}\n")


def made(folder: Path, count: int = 20) -> mw.Index:
    index = mw.open(folder / "index", embedder="none")
    index.add(*map(note, range(count)))
    return index


# -- disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few megabytes. Skip if mounting is not possible."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "none", folder], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a disk here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def set_size(disk: Path, megabytes: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={megabytes}m", disk], check=True)


def fill(disk: Path) -> None:
    """Fill the disk to the last byte."""
    with (disk / "filler").open("ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass
    assert shutil.disk_usage(disk).free == 0


def assert_survives(index: Path, standing: int) -> None:
    """Check that committed data and every invariant survived."""
    with mw.open(index, create=False) as again:
        assert again.check() == []
        assert len(again) >= standing
        assert again.ask("How many mice did owl 3 eat?").citations


@linux_only
def test_full_disk_loses_no_data(small_disk: Path) -> None:
    set_size(small_disk, 6 if LONG else 2)
    index = made(small_disk)
    large = [story(i, 0.6 if LONG else 0.2) for i in range(6)]
    with pytest.raises(StoreError) as caught:
        for document in large:
            index.add(document)
    assert "room" in caught.value.hint, caught.value
    assert_survives(small_disk / "index", 20)
    held = [document.id for document in index.documents() if document.id.startswith("story")]
    set_size(small_disk, 200)
    index.add(*large)
    assert {document.id for document in index.documents()} >= set(held)
    assert index.check() == [] and len(index) == 26


def story(number: int, megabytes: float) -> mw.Document:
    count = int(megabytes * 25_000)
    body = " ".join(f"Owl {number} of wood {i} ate {i % 97} mice." for i in range(count))
    return mw.Document(f"story{number}", f"# Story {number}\n\n{body}\n")


@linux_only
def test_many_batches_fit_where_the_index_fits(small_disk: Path) -> None:
    """Old versions are deleted from a full disk, also after a killed writer, and no data is lost."""
    set_size(small_disk, 30 if LONG else 2)
    index = mw.open(small_disk / "index", embedder="none")
    size = 0.6 if LONG else 0.03
    for number in range(10):
        assert index.add(story(number, size)).added == 1
    assert index.check() == [] and len(index) == 10
    assert index.context("How many mice did owl 3 of wood 7 eat?", strategy="topk", budget=99).passages


@linux_only
@pytest.mark.parametrize("left_over", ["old versions", "a killed writer", "mapped files"])
def test_index_on_a_full_disk_can_be_repaired_and_emptied(small_disk: Path, left_over: str) -> None:
    index = made(small_disk, 150 if left_over == "mapped files" else 20)
    if left_over == "old versions":
        index.remove(["note1"])
    elif left_over == "a killed writer":
        (small_disk / "index/leaf.lance/data" / f"{'0' * 24}{'a' * 26}.lance").write_bytes(bytes(300_000))
        sweep(index.store.directory, index.store.manifest, all_of_it=True)
        (small_disk / "index/.manifest.json.1").write_bytes(bytes(300_000))
    else:
        index.store.optimize()
        sweep(index.store.directory, index.store.manifest, all_of_it=True)
    standing = len(index)
    fill(small_disk)
    assert index.remove(["note2", "note7"]) == 2
    fill(small_disk)
    assert index.check(repair=True) == []
    fill(small_disk)
    with mw.open(small_disk / "index", create=False) as again:
        assert again.check() == [] and len(again) == standing - 2
        assert again.ask("How many mice did owl 3 eat?").citations


LIMITED = """
import resource, sys
import mergewise as mw
index = mw.open(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    index.add(mw.Document("large", "word " * 300_000))
except mw.MergewiseError as error:
    print(type(error).__name__, "|", error.hint)
"""


@linux_only
@pytest.mark.parametrize("size", [0, 1000, 100_000, 1_000_000] if LONG else [1000])
def test_limit_on_file_size(size: int, tmp_path: Path) -> None:
    made(tmp_path).close()
    done = script(LIMITED, tmp_path / "index", size)
    assert done.code == 0 and "StoreError | raise the limit" in done.out, done
    assert_survives(tmp_path / "index", 20)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder with an index and documents, read-only by permissions or, for root, by a mount."""
    made(tmp_path).close()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/new.md").write_text("New owls eat moths.\n")
    if os.geteuid():
        paths = [tmp_path, *tmp_path.rglob("*")]
        for path in paths:
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield tmp_path
        for path in paths:
            path.chmod(0o755)
        return
    mounts = [["mount", "--bind", str(tmp_path), str(tmp_path)], ["mount", "-o", "remount,bind,ro", str(tmp_path)]]
    for words in mounts:
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            subprocess.run(["umount", "-l", tmp_path], capture_output=True)
            pytest.skip(f"root may write everywhere, and mounting a folder failed: {done.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", "-l", tmp_path], check=True)


def test_read_only_index_can_be_read(read_only: Path) -> None:
    asked = command(read_only, "ask", "How many mice did owl 3 eat?", "--index", "index")
    assert asked.code == 0 and "Owl 3" in asked.out
    assert command(read_only, "check", "--index", "index").code == 0
    for words in (("index", "docs"), ("remove", "note1"), ("check", "--repair")):
        done = command(read_only, *words, "--index", "index")
        assert done.code in (1, 2) and ("permission" in done.err or "cannot be written" in done.err), done
    new = command(read_only, "index", "docs", "--index", "another")
    assert new.code in (1, 2) and "cannot create" in new.err
    page = command(read_only, "ask", "How many mice?", "--index", "index", "--html", "page.html")
    assert page.code == 2 and "cannot write" in page.err


# -- clocks


def test_clock_that_jumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock jumps by years between two writes: no data is lost, and readers continue."""
    # Look for old versions after every write.
    monkeypatch.setattr("mergewise.store.places.folder.GROWN", 0)
    monkeypatch.setattr("mergewise.store.places.folder.GROWN_BY", 0)
    index = made(tmp_path)
    other = mw.open(tmp_path / "index")
    now = time.time
    for jump in (10 * 365 * 86400, -10 * 365 * 86400, 700, -700, 0):
        monkeypatch.setattr(time, "time", lambda jump=jump: now() + jump)
        monkeypatch.setattr("mergewise.store.sweep.time", lambda jump=jump: now() + jump)
        assert index.add(note(100, jump), note(3, jump)).failed == ()
        assert f"version {jump}" in other.context("owl 100", strategy="topk", budget=200).text
        assert index.check() == []
    assert len(index) == 21


# -- readers


def disk_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


@linux_only
def test_reader_stays_open_over_many_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open reader keeps its version, new questions see new data, and old versions leave the disk on time."""
    index = made(tmp_path)
    asking, held = mw.open(tmp_path / "index"), mw.open(tmp_path / "index").store.reader()
    before = held.document("note3")
    writes = 300 if LONG else 6
    for version in range(1, writes + 1):
        index.add(note(3, version), note(1000 + version))
        if version % max(1, writes // 12) == 0:
            found = asking.context("mice of owl 3", strategy="topk", budget=120, where="id = 'note3'")
            assert f"version {version}." in found.text
            assert len(asking) == 20 + version
            assert held.document("note3") == before and len(held.numbers()) == 20
    assert index.check() == []
    monkeypatch.setattr("mergewise.store.sweep.KEPT", 0.0)
    index.add(*(note(i, writes + 1) for i in range(5000, 5030)))
    index.check(repair=True)
    fresh = mw.open(tmp_path / "fresh", embedder="none")
    fresh.add(*(asking.document(info.id) for info in asking.documents()))
    assert disk_mb(tmp_path / "index") < 2 * disk_mb(tmp_path / "fresh") + 0.3
    assert len(asking) == 20 + writes + 30 and index.check() == []
    assert open_files() < 500


def test_many_threads_ask_while_one_writes(tmp_path: Path) -> None:
    index = made(tmp_path)
    seconds, over = (60.0 if LONG else 1.5), Event()
    until = time.monotonic() + seconds

    def ask(thread: int) -> int:
        asked = 0
        while time.monotonic() < until and not over.is_set():
            number = (asked + thread) % 20
            answer = index.ask(f"How many mice did owl {number} eat?", where=f"id = 'note{number}'")
            assert answer.citations and f"Owl {number} " in answer.text
            for citation in answer.citations:
                assert citation.text.startswith(f"Owl {number} ")
            asked += 1
        return asked

    def write() -> int:
        version = 0
        while time.monotonic() < until and not over.is_set():
            version += 1
            index.add(note(version % 20, version))
            index.add(note(500 + version % 7, version))
            index.remove([f"note{500 + version % 7}"])
        return version

    with ThreadPoolExecutor(17) as pool:
        threads = [pool.submit(ask, thread) for thread in range(16)]
        writer = pool.submit(write)
        try:
            counts = [thread.result(seconds + SECONDS) for thread in threads]
            assert writer.result(SECONDS) > 0 and min(counts) > 0
        finally:
            over.set()
    assert index.check() == [] and len(index) == 20


FORK = """
import os, sys
import mergewise as mw
index = mw.open(sys.argv[1])
if sys.argv[2] != "unused":
    assert index.ask("How many mice did owl 3 eat?").citations
child = os.fork()
if not child:
    code = 9
    try:
        if sys.argv[2] == "write":
            index.add(mw.Document("child", "The child eats mice."))
        else:
            opened = mw.open(sys.argv[1]) if sys.argv[2] == "reopen" else index
            assert opened.ask("How many mice did owl 3 eat?").citations
        code = 0
    except mw.UsageError as error:
        code = 2 if "spawn" in error.hint else 8
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
    os._exit(code)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert index.ask("How many mice did owl 3 eat?").citations, "the parent still works"
sys.exit(code)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    ("how", "code"), [("unused", 0), ("same", 2), *([("reopen", 2), ("write", 2)] if LONG else [])]
)
def test_a_fork_works_or_is_refused(how: str, code: int, tmp_path: Path) -> None:
    """A child may use an index that was unused before the fork. Otherwise it gets an error and never hangs."""
    made(tmp_path).close()
    done = script(FORK, tmp_path / "index", how, PYTHONWARNINGS="ignore")
    assert done.code == code, done


def ask_in_process(path: Path) -> str:
    return mw.open(path, create=False).ask("How many mice did owl 3 eat?").text


def test_spawned_processes_can_ask(tmp_path: Path) -> None:
    index = made(tmp_path)
    here = index.ask("How many mice did owl 3 eat?").text
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply_async(ask_in_process, (tmp_path / "index",)).get(SECONDS) == here


@linux_only
def test_many_questions_do_not_leak(tmp_path: Path) -> None:
    count = 2000 if LONG else 150
    index = made(tmp_path)
    strategies = ("weave", "topk", "auto-merge", "mergerag-sym", "sentence")
    held: list[tuple[float, int]] = []
    for number in range(count + 1):
        if number % (count // 3) == 0:
            gc.collect()
            held.append((memory_mb(), open_files()))
        strategy = strategies[number % len(strategies)]
        question = f"How many mice did owl {number % 20} eat in version {number}?"
        index.ask(question, strategy=strategy, budget=100 + number % 50)
    _, settled, *_, last = held
    assert last[0] - settled[0] < 60, f"megabytes grow: {held}"
    assert last[1] - settled[1] < 20, f"open files grow: {held}"


def test_many_indexes_are_opened_and_closed(tmp_path: Path) -> None:
    made(tmp_path).close()
    before = open_files() if sys.platform == "linux" else 0
    for _ in range(500 if LONG else 20):
        with mw.open(tmp_path / "index") as index:
            assert index.context("mice of owl 3", budget=60).passages
    gc.collect()
    if sys.platform == "linux":
        assert open_files() - before < 60


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "", "/dev/null", "/proc/self/mem", "/dev/null/x"])
def test_invalid_index_paths(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MergewiseError) as caught:
        mw.open(path, create=bool(path))
    assert caught.value.hint
