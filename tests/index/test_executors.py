"""Work in other processes: the same rows in the same order, even if workers die."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.index.errands import kill_other_process, noisy, square
from tests.support import SMALL, HashEmbedder, add_inputs, new_store, until

import mergewise as mw
from mergewise.designs import VIEWS
from mergewise.designs.design import Lazy
from mergewise.errors import Cancelled, MissingExtra, UsageError
from mergewise.index import executors, pipeline, vectors
from mergewise.index.executors import HERE, Executor, WorkerPool
from mergewise.index.work import IndexingProgress
from mergewise.inputs import inputs_of
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.protocols import Store
from mergewise.readers.sandbox import Limits, reader_within
from mergewise.types import AddReport, Document

FILES = Path(__file__).parents[2] / "../shared/data/files/formats"
LONG = bool(os.environ.get("MERGEWISE_ATTACK"))
HERE_PID = os.getpid()
ALL_VIEWS = {
    "leaf": SMALL,
    **{name: VIEWS[name].settings() for name in ("slice", "marker", "triplet")[: 3 if LONG else 2]},
}


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    """A pool of two workers for the whole module, because each takes half a second to start."""
    workers = WorkerPool(2)
    yield workers
    workers.close()


def add(
    store: Store,
    sources: Sequence[Any],
    executor: Executor | None = None,
    models: Models = Models(count_tokens),  # noqa: B008
    **options: Any,
) -> AddReport:
    given = inputs_of(sources, Path("/"), metadata={"year": 2024})
    opening = HERE if executor is None else lambda size: nullcontext(executor)
    return add_inputs(given, store, VIEWS, models, executors=opening, **options)


def rows_by_table(store: Any) -> dict[str, Any]:
    """Return all rows of a store in memory."""
    return {"documents": store._documents, **store._tables}


# -- the pool


def test_results_come_in_order_from_other_processes(pool: WorkerPool) -> None:
    found = list(pool.map(square, range(30)))
    assert [value for value, _ in found] == [number * number for number in range(30)]
    assert {pid for _, pid in found} == {*pool.pids} and HERE_PID not in pool.pids


def test_a_limited_number_of_items_is_read_ahead(pool: WorkerPool) -> None:
    taken: list[int] = []
    results = pool.map(square, (taken.append(number) or number for number in range(100)))  # type: ignore[func-returns-value]
    next(results)
    assert len(taken) <= executors.AHEAD * 2
    results.close()  # type: ignore[attr-defined]
    # late answers to cancelled items are ignored
    assert [value for value, _ in pool.map(square, [7, 8])] == [49, 64]


def test_logs_warnings_and_errors_arrive_in_order(pool: WorkerPool, caplog: pytest.LogCaptureFixture) -> None:
    results = pool.map(noisy, [1, 2, 3])
    with pytest.warns(UserWarning, match="beware of 1"):
        assert next(results) == 1
    assert [record.getMessage() for record in caplog.records] == ["number 1"]
    with pytest.warns(UserWarning, match="beware of 2"), pytest.raises(UsageError, match="two is too much") as raised:
        next(results)
    assert raised.value.hint == "take one"
    # an error that cannot be unpickled is raised by processing the item here
    with pytest.warns(UserWarning), pytest.raises(MissingExtra, match="three is not installed"):
        list(pool.map(noisy, [3]))


def test_items_that_cannot_be_pickled_are_processed_here(pool: WorkerPool) -> None:
    assert list(pool.map(lambda number: (number, os.getpid()), [1, 2])) == [(1, HERE_PID), (2, HERE_PID)]
    views: Lazy[object] = Lazy(dict)
    assert list(pickle.loads(pickle.dumps(views))) == []
    views["own"] = object()
    with pytest.raises(pickle.PicklingError, match="changed in this process"):
        pickle.dumps(views)


def test_a_dead_worker_is_logged_and_its_items_are_processed_here(caplog: pytest.LogCaptureFixture) -> None:
    workers = WorkerPool(2)
    try:
        assert list(workers.map(kill_other_process, [(HERE_PID, number) for number in range(9)])) == list(range(9))
        (told,) = [record.getMessage() for record in caplog.records]
        assert "killed by SIGKILL" in told and len(workers.pids) == 1
        # then the last worker dies
        assert list(workers.map(kill_other_process, [(HERE_PID, 3), (HERE_PID, 4), (HERE_PID, 3)])) == [3, 4, 3]
        assert workers.pids == [] and len(caplog.records) == 2
        assert list(workers.map(square, [2])) == [(4, HERE_PID)]
    finally:
        workers.close()


def test_items_are_processed_here_if_no_worker_starts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert list(WorkerPool(2).map(square, [2])) == [(4, HERE_PID)]
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == ["worker ended"] * 2


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("error", [Cancelled("enough"), KeyboardInterrupt()])
def test_work_is_cancelled_while_workers_are_busy(error: BaseException) -> None:
    pids: list[int] = []

    def call_off() -> None:
        pids.extend(executor.pids)  # type: ignore[attr-defined]
        raise error

    with pytest.raises(type(error)), executors.in_workers(0, 2) as executor:
        list(executor.map(time.sleep, [60.0, 60.0], call_off))
    assert len(pids) == 2 and all(map(is_gone, pids))


def test_the_number_of_workers_depends_on_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "cores", lambda: 4)
    for size, workers in (
        (0, 0),
        (executors.CHARACTERS_A_WORKER, 0),
        (2 * executors.CHARACTERS_A_WORKER, 2),
        (10**9, 4),
    ):
        with executors.in_workers(size) as executor:
            assert executor.workers == workers
    with executors.in_workers(10**9, 1) as executor:
        assert executor.workers == 0


# -- indexing of documents


WORDS = st.sampled_from("cats of Brook eat fish and 中文 la tour du lac 1905 - * #".split())
PARAGRAPH = st.lists(WORDS, min_size=1, max_size=40).map(" ".join)
TEXT = st.lists(PARAGRAPH | PARAGRAPH.map("# {}".format), min_size=1, max_size=12).map("\n\n".join)


@st.composite
def document(draw: st.DrawFn) -> Document:
    text = draw(TEXT | st.just(" \n"))
    half = len(text) // 2
    units = (
        ((0, half), (half, len(text))) if draw(st.booleans()) and text[:half].strip() and text[half:].strip() else ()
    )
    year = draw(st.integers(1900, 2000) | st.just("unknown"))
    return Document(f"d{draw(st.integers(0, 30))}", text, draw(WORDS), {"written": year}, units=units)


@given(st.lists(document(), max_size=12, unique_by=lambda one: one.id), st.data())
@settings(max_examples=300 if LONG else 6, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_workers_give_the_rows_and_the_report_of_one_process(
    pool: WorkerPool, documents: list[Document], data: st.DataObject
) -> None:
    again = data.draw(st.lists(document(), max_size=4, unique_by=lambda one: one.id))
    stores = [new_store("memory", Path(), VIEWS, None, ALL_VIEWS) for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "SENT_DOCUMENTS", data.draw(st.integers(1, 4)))
        patch.setattr(pipeline, "BATCH_DOCUMENTS", data.draw(st.integers(1, 5)))
        for given_now in (documents, again):
            serial, parallel = add(stores[0], given_now), add(stores[1], given_now, pool)
            assert serial == parallel
        assert rows_by_table(stores[0]) == rows_by_table(stores[1])


def test_missing_views_are_built_by_workers(pool: WorkerPool) -> None:
    documents = [
        Document(f"d{n}", f"# Tower {n}\n\nThe tower {n} of Brook fell in 1905. A mason built it.") for n in range(9)
    ]
    stores = [new_store("memory", Path(), VIEWS, None, ALL_VIEWS) for _ in range(2)]
    both: tuple[Executor, Executor] = (executors.INLINE, pool)
    for store, executor in zip(stores, both, strict=True):
        add(store, documents, embed="later")
        assert len(store.missing("marker")) == 9
        pipeline.catch_up(store, VIEWS, Models(count_tokens), IndexingProgress(), executor=executor)
        assert not any(map(store.missing, ALL_VIEWS))
    assert rows_by_table(stores[0]) == rows_by_table(stores[1])


def test_unreadable_files_are_reported_in_order(pool: WorkerPool, tmp_path: Path) -> None:
    for name, content in (
        ("a.md", b"Cats."),
        ("b.pdf", b"%PDF-1.4 broken"),
        ("c.txt", b" "),
        ("e.docx", b"PK\x03\x04"),
    ):
        (tmp_path / name).write_bytes(content)
    with (tmp_path / "d.txt").open("wb") as large:
        large.truncate(200_000_001)
    stores = [new_store("memory", Path(), VIEWS) for _ in range(2)]
    reports, told = [], []
    both: tuple[Executor, Executor] = (executors.INLINE, pool)
    for store, executor in zip(stores, both, strict=True):
        seen: list[tuple[int, int, str]] = []
        work = IndexingProgress(lambda *far, seen=seen: seen.append(far))
        reports.append(add(store, [tmp_path, tmp_path / "nowhere.md"], executor, work=work))
        # messages repeat during waiting
        told.append([far for number, far in enumerate(seen) if far not in seen[:number]])
    assert reports[0] == reports[1] and told[0] == told[1]
    assert [Path(failure.source).name for failure in reports[1].failed] == [
        "b.pdf",
        "c.txt",
        "d.txt",
        "e.docx",
        "nowhere.md",
    ]
    assert "larger than 200 MB" in reports[1].failed[2].reason


def test_a_call_with_a_time_limit_computes_nothing_ahead() -> None:
    store = new_store("memory", Path(), VIEWS, HashEmbedder())
    models = Models(count_tokens, HashEmbedder())
    add_inputs(inputs_of([Document("d", "The tower fell.")]), store, VIEWS, models, embed="later")
    pipeline.go_on(store, VIEWS, models, seconds=0, executors=lambda size: pytest.fail("workers for one change"))
    assert not len(store.reader().unembedded())


def test_cancelling_ends_between_documents(pool: WorkerPool) -> None:
    documents = [Document(f"d{n}", f"The tower {n} of Brook fell.") for n in range(200)]
    store = new_store("memory", Path(), VIEWS)
    # once for each planned document, then twice for each built one, and during waiting
    answers = iter([False] * 350)
    with pytest.raises(Cancelled), pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "BATCH_DOCUMENTS", 10)
        add(store, documents, pool, work=IndexingProgress(cancel=lambda: next(answers, True)))
    assert 0 < len(store.reader().documents()) < 200 and store.check() == []
    assert add(store, documents, pool).unchanged < 200
    assert len(store.reader().documents()) == 200


def tables_on_disk(index: mw.Index) -> dict[str, Any]:
    """Return every column of every table, with rows in the order of their documents and ids."""
    from mergewise.store.lance_import import Sessions, connect

    database = connect(index.store.directory, Sessions())
    found = {}
    for name in sorted(index.manifest.tables):
        table = database.open_table(name).to_arrow()
        keys = [key for key in ("_number", "doc", "id", "hash", "first_leaf") if key in table.column_names]
        found[name] = table.sort_by([(key, "ascending") for key in keys])
    return found


@pytest.mark.skipif(not FILES.is_dir(), reason="the files are not there")
def test_tables_from_files_are_the_same_to_the_last_bit(
    pool: WorkerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes vectors of the built-in embedder, with other numbers of threads and other batches."""
    monkeypatch.setattr(pipeline, "SMALL", 1000)
    monkeypatch.setattr(pipeline, "SENT_DOCUMENTS", 2)
    monkeypatch.setattr(vectors, "SENT_LEAVES", 5)
    monkeypatch.setattr(pipeline, "cores", lambda: 2)
    wanted = sorted(path for suffix in ("pdf", "docx", "html", "md") for path in FILES.rglob(f"*.{suffix}"))
    wanted = sorted(wanted, key=lambda path: (path.suffix, path.stat().st_size))
    files = wanted if LONG else list({path.suffix: path for path in wanted[::-1]}.values())
    found = []
    for name, executor in (("serial", executors.INLINE), ("workers", pool)):
        index = mw.open(tmp_path / name, views=("leaf", "slice") if LONG else ("leaf",))
        with reader_within(Limits()) as reader:
            inputs = inputs_of(files, tmp_path, reader=reader)
            own = lambda size, one=executor: nullcontext(one)  # noqa: E731
            report = add_inputs(inputs, index.store, VIEWS, index._builders(), executors=own)
        assert report.added == len(files) and index.check() == [] and index.vectors().waiting == 0
        found.append(tables_on_disk(index))
    assert found[0].keys() == found[1].keys() >= {"documents", "leaf", "section", "name"}
    assert [name for name in found[0] if not found[0][name].equals(found[1][name])] == []


KILLED = """
import sys
import mergewise
from mergewise.index import pipeline

# no guard of the main module: the workers do not run this script
pipeline.BATCH_DOCUMENTS, pipeline.SENT_DOCUMENTS = 8, 2
index = mergewise.open(sys.argv[1], embedder="none")

def tell(done, total, name):
    if name.endswith("/20.md") and done:
        print("ready", flush=True)
        sys.stdin.read()

index.add(sys.argv[2], progress=tell, workers=2)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT] if LONG else [signal.SIGKILL])
def test_a_kill_ends_the_workers_and_a_second_run_does_the_rest(
    pool: WorkerPool, tmp_path: Path, end: signal.Signals
) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number:02}.md").write_text(f"# Tower {number}\n\n" + f"The tower {number} of Brook fell. " * 9)
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path / "index", folder],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        assert run.stdout is not None and run.stderr is not None
        assert run.stdout.readline() == "ready\n"
        workers = children_of(run.pid)
        run.send_signal(end)
        assert run.wait(10) == -end
        # running workers keep its standard error open
        run.stderr.read()
    assert len(workers) == 2 and until(lambda: all(map(is_gone, workers)))
    index, undisturbed = mw.open(tmp_path / "index", embedder="none"), mw.open(tmp_path / "whole", embedder="none")
    assert 0 < len(index) < 30 and index.check() == []
    index.add(folder, workers=None)
    undisturbed.add(folder)
    assert index.check() == [] and len(index) == 30
    found, expected = tables_on_disk(index), tables_on_disk(undisturbed)
    assert [name for name in expected if not found[name].equals(expected[name])] == []


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
