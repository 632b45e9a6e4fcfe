"""Fair work: evaluations beside uploads, jobs of several collections at once, and turns."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

import mergewise as mw
from mergewise.errors import StoreError
from mergewise.server import evaluations
from mergewise.server.configuration import CollectionConfig, ServerConfig
from mergewise.server.jobs import kinds as job_kinds
from mergewise.server.jobs import watch
from mergewise.server.jobs.runner import JobRunner
from mergewise.server.locks import is_held, lock_file
from mergewise.server.processes import prepare
from mergewise.server.records import CHANGING, READ_ONLY, Job, JobKind, JobProgress, Upload
from mergewise.server.spool import keep_bytes
from mergewise.server.state import State
from mergewise.server.tables import jobs as table
from tests.support import until

QUESTIONS = [{"question": f"When do cats purr in year {n}?", "answers": ["at night"]} for n in range(6)]


class Works:
    """The data of a server with the collections `a` to `d`, and runners of their jobs in threads."""

    def __init__(self, data: Path) -> None:
        self.config = ServerConfig(data, collections={name: CollectionConfig(embedder="none") for name in "abcd"})
        self.state = State.of(self.config)
        prepare(self.config, self.state)
        self.runners: list[tuple[JobRunner, threading.Thread]] = []

    def start(self, *kinds: Any, **options: Any) -> JobRunner:
        writer = JobRunner(self.config, self.state, *kinds, **options)
        thread = threading.Thread(target=writer.run, args=(0.01,))
        thread.start()
        self.runners.append((writer, thread))
        return writer

    def queue(
        self, kind: JobKind, collection: str, request: Any = None, *, uploads: Any = (), created: float = 1
    ) -> Job:
        job = self.state.jobs.enqueue(kind, collection, request, uploads=uploads)
        with self.state.database.change() as rows:
            rows.execute("UPDATE jobs SET created = created - ? WHERE id = ?", [created, job.id])
        return job

    def add(self, collection: str, *ids: str, **fields: Any) -> Job:
        blobs = self.config.data / "collections" / collection / "blobs"
        made = [
            (one, keep_bytes(self.config.spool, blobs, f"# {one}\n\nCats of {one} purr.\n".encode())) for one in ids
        ]
        uploads = [Upload(one, blob.sha256, "x.md", blob.bytes, **fields) for one, blob in made]
        return self.queue("add", collection, uploads=uploads)

    def is_in(self, state: str, *jobs: Job) -> bool:
        return all(self.job(job).state == state for job in jobs)

    def job(self, job: Job) -> Job:
        found = self.state.jobs.get(job.id)
        assert found is not None
        return found

    def close(self) -> None:
        for writer, _ in self.runners:
            writer.stopping.set()
        for writer, thread in self.runners:
            thread.join(20)
            assert not thread.is_alive()
            writer.close()
        self.state.close()


@pytest.fixture
def works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Works]:
    monkeypatch.setattr(watch, "TELL_SECONDS", 0.0)
    made = Works(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Additions of the document `slow` wait until this event is set."""
    opened, add = threading.Event(), mw.Index.add

    def wait(self: mw.Index, sources: list[mw.File], **options: Any) -> mw.AddReport:
        if any(source.id == "slow" for source in sources):
            assert opened.wait(30)
        return add(self, sources, **options)

    monkeypatch.setattr(mw.Index, "add", wait)
    yield opened
    opened.set()


def test_an_upload_is_done_while_another_collection_is_evaluated(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, opened = threading.Event(), threading.Event()

    def evaluate(index: mw.Index, request: Any, progress: Any) -> dict[str, Any]:
        begun.set()
        while not opened.wait(0.01):
            progress(1, 2, "")
        return {"rows": len(index)}

    monkeypatch.setattr(job_kinds, "evaluate", evaluate)
    first, evaluation = works.add("a", "x"), works.queue("evaluate", "a", {"questions": QUESTIONS})
    works.start(lanes=1)
    works.start(tuple(READ_ONLY))
    assert begun.wait(20)
    # an evaluation begins after the earlier uploads to its collection
    assert works.is_in("done", first)
    later = [works.add("b", "y"), works.add("a", "y")]
    assert until(lambda: works.is_in("done", *later)) and works.is_in("running", evaluation)
    other = works.queue("check", "b")
    assert until(lambda: works.is_in("done", other)), "one evaluation blocks no check of another collection"
    opened.set()
    assert until(lambda: works.is_in("done", evaluation))


def test_uploads_go_before_the_folders_of_their_collection(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = works.config.data / "docs"
    folder.mkdir()
    (folder / "z.md").write_text("# Z\n\nCats of Z purr.\n")
    config = replace(works.config, collections={"a": CollectionConfig(embedder="none", folders=(folder,))})
    sync, removal = works.queue("sync", "a"), works.queue("remove", "a", {"filter": {"x": 1}})
    upload, other = works.add("a", "x"), works.add("a", "y")
    writer = JobRunner(config, works.state)
    # a removal by a filter sees the documents of earlier jobs
    assert works.state.jobs.claim(kinds=["sync", "remove", "add"])[0].id == sync.id
    works.state.jobs.requeue(sync.id)
    works.state.jobs.release(["sync", "remove", "add"], ["a"])
    works.state.jobs.cancel(removal.id)
    writer.under_way["a"] = [sync]
    assert writer._must_share(sync, 0) and not writer._must_share(upload, 0)
    writer.under_way.clear()
    writer.run_round()
    assert works.is_in("done", upload, other) and works.is_in("queued", sync)
    writer.run_round()
    assert works.is_in("done", sync)
    writer.close()


@pytest.mark.parametrize("how", ["cancel", "drop"])
def test_an_evaluation_ends_when_it_is_cancelled(works: Works, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def evaluate(index: mw.Index, request: Any, progress: Any) -> dict[str, Any]:
        while True:
            begun.set()
            time.sleep(0.01)
            progress(1, 2, "")

    monkeypatch.setattr(job_kinds, "evaluate", evaluate)
    first = works.add("a", "x")
    works.start()
    works.start(tuple(READ_ONLY))
    assert until(lambda: works.is_in("done", first))
    evaluation = works.queue("evaluate", "a", {"questions": QUESTIONS})
    assert begun.wait(20)
    ended = works.state.jobs.cancel(evaluation.id) if how == "cancel" else works.queue("drop", "a")
    assert ended is not None and until(lambda: works.is_in("cancelled", evaluation))
    assert how == "cancel" or until(lambda: works.is_in("done", ended))


def test_an_evaluation_that_fails_while_it_is_cancelled_is_cancelled(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    works.add("a", "x")
    writer = JobRunner(works.config, works.state)
    writer.run_round()
    writer.close()
    evaluation = works.queue("evaluate", "a", {"questions": QUESTIONS})

    def evaluate(*given: Any) -> dict[str, Any]:
        works.state.jobs.cancel(evaluation.id)
        raise StoreError("the index is gone", "")

    monkeypatch.setattr(job_kinds, "evaluate", evaluate)
    assert JobRunner(works.config, works.state, tuple(READ_ONLY)).run_round() and works.is_in("cancelled", evaluation)


def test_an_evaluation_that_takes_too_long_fails_early(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    works.add("a", "x")
    for runner in (JobRunner(works.config, works.state), JobRunner(works.config, works.state, tuple(READ_ONLY))):
        runner.run_round()
        job = works.queue("evaluate", "a", {"questions": QUESTIONS})
        monkeypatch.setattr(evaluations, "SECONDS", 0.0)
        monkeypatch.setattr(evaluations, "_TRIAL_SECONDS", 0.0)
        runner.run_round()
        runner.close()
    failed = works.job(job).error
    assert failed is not None and failed["code"] == "deadline" and "questions" in failed["hint"]


def test_each_process_recovers_only_its_own_jobs(works: Works) -> None:
    upload, check = works.add("a", "x"), works.queue("check", "b")
    for kinds in (CHANGING, tuple(READ_ONLY)):
        assert len(works.state.jobs.claim(kinds=kinds)) == 1
    assert [job.id for job in works.state.jobs.recover(3, tuple(READ_ONLY))] == [check.id]
    assert works.is_in("running", upload) and works.is_in("queued", check)


def test_a_slow_document_blocks_no_other_collection(works: Works, gate: threading.Event) -> None:
    slow, after = works.add("a", "slow"), works.add("b", "x")
    works.start()
    assert until(lambda: works.is_in("done", after)) and works.is_in("running", slow)
    same = works.add("a", "y")
    others = [works.add(name, "z") for name in "bcd"]
    assert until(lambda: works.is_in("done", *others)) and works.is_in("queued", same)
    gate.set()
    assert until(lambda: works.is_in("done", slow, same))


def test_a_file_is_read_before_the_index_is_locked(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    from mergewise.index import pipeline

    read, held = pipeline._read, list[bool]()
    lock = FileLock(works.config.data / "collections/a/index/.lock")

    def look(task: Any) -> Any:
        held.append(is_held(lock))
        return read(task)

    monkeypatch.setattr(pipeline, "_read", look)
    job = works.add("a", "x", "y")
    works.start()
    assert until(lambda: works.is_in("done", job)) and held == [False, False]


def test_large_jobs_leave_a_lane_to_small_ones(works: Works, gate: threading.Event, monkeypatch: Any) -> None:
    monkeypatch.setattr(table, "SMALL_BYTES", 100)
    large = [works.add(name, "slow", *map(str, range(9))) for name in "abc"]
    works.start()
    assert until(lambda: works.is_in("running", *large[:2]))
    small = works.add("d", "z")
    assert until(lambda: works.is_in("done", small)) and works.is_in("queued", large[2])
    gate.set()
    assert until(lambda: works.is_in("done", *large))


def test_collections_take_turns(works: Works) -> None:
    for collection in "aabacb":
        works.queue("optimize", collection)
    writer = JobRunner(works.config, works.state)
    while writer.run_round():
        pass
    ended = sorted(works.state.jobs.find(), key=lambda job: job.finished or 0)
    assert "".join(job.collection for job in ended) == "abcaba"
    writer.close()


def test_a_long_job_ends_its_turn_with_a_batch(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    from mergewise.index import pipeline

    monkeypatch.setattr(pipeline, "BATCH_DOCUMENTS", 2)
    monkeypatch.setattr(watch, "TURN_SECONDS", 0.0)
    read, begun = list[str](), list[Job]()

    def count_reads(task: Any) -> Any:
        read.append(task.id)
        if task.id == "d1":
            begun.append(works.add("b", "other"))
        return read_document(task)

    read_document = pipeline._read
    monkeypatch.setattr(pipeline, "_read", count_reads)
    job = works.add("a", *(f"d{n}" for n in range(6)))
    works.start(lanes=1)
    assert until(lambda: works.is_in("done", job))
    (other,) = map(works.job, begun)
    assert other.state == "done" and (other.finished or 0) < (works.job(job).finished or 0)
    # no document is read again after the turn
    assert sorted(read) == ["d0", "d1", "d2", "d3", "d4", "d5", "other"]
    assert works.job(job).attempt >= 2 and works.job(job).kills == 0
    assert works.job(job).report["indexed"] == 6  # type: ignore[index]


def test_a_job_that_skips_existing_documents_keeps_its_turn(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    from mergewise.index import pipeline

    monkeypatch.setattr(pipeline, "BATCH_DOCUMENTS", 1)
    monkeypatch.setattr(watch, "TURN_SECONDS", 0.0)
    job = works.add("a", *(f"d{n}" for n in range(4)), on_conflict="fail")
    other = works.add("b", "x")
    works.start(lanes=1)
    assert until(lambda: works.is_in("done", job, other)) and works.job(job).attempt == 1
    assert works.job(job).report["failed"] == []  # type: ignore[index]


def test_a_job_at_which_the_writer_died_twice_runs_alone(works: Works, gate: threading.Event) -> None:
    suspect, innocent = works.add("a", "slow"), works.add("b", "x")
    for _ in range(2):
        for collection in "ab":
            assert works.state.jobs.claim(busy=[] if collection == "a" else ["a"])
        for job in (suspect, innocent):
            works.state.jobs.set_progress(job.id, JobProgress(document="slow"))
        works.state.jobs.recover(3)
    assert [works.job(job).kills for job in (suspect, innocent)] == [2, 2]
    works.start()
    assert until(lambda: works.is_in("running", suspect))
    time.sleep(0.2)
    assert works.is_in("queued", innocent), "a further death must not count against it"
    gate.set()
    assert until(lambda: works.is_in("done", suspect, innocent))


def test_a_backup_gets_its_turn_between_jobs(works: Works, gate: threading.Event) -> None:
    from mergewise.server.backup import write_backup

    slow = works.add("a", "slow")
    works.start()
    assert until(lambda: works.is_in("running", slow))
    waiting = threading.Thread(target=write_backup, args=(works.config.data, works.config.data.parent / "b.tar"))
    waiting.start()
    lock = FileLock(lock_file(works.config.data, "backup"))
    # a writer that looks at the lock holds it for a moment, too
    assert until(lambda: all(is_held(lock) for _ in range(10)))
    other = works.add("b", "x")
    time.sleep(0.2)
    assert works.is_in("queued", other), "no job begins while a backup waits"
    gate.set()
    waiting.join(20)
    assert (works.config.data.parent / "b.tar").exists() and until(lambda: works.is_in("done", slow, other))


def test_no_index_is_created_while_the_collection_has_a_job(works: Works) -> None:
    writer = JobRunner(works.config, works.state)
    made = works.config.data / "collections/a/index"
    writer.under_way["a"] = []
    writer.make_indexes()
    assert not made.exists() and [*writer.under_way] == ["a"]
    del writer.under_way["a"]
    writer.make_indexes()
    assert made.exists() and not writer.under_way
    writer.close()


def test_an_error_of_one_lane_ends_the_others(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    def claim(**options: Any) -> list[Job]:
        raise StoreError("the state is gone", "")

    monkeypatch.setattr(works.state.jobs, "claim", claim)
    with pytest.raises(StoreError, match="gone"):
        JobRunner(works.config, works.state).run(0.01)
