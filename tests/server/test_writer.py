"""The writer: each kind of job, with cancelled, locked, failing and interrupted jobs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mergewise as mw
from mergewise.errors import Cancelled, IndexBusy
from mergewise.server.collections import Collections
from mergewise.server.configuration import CollectionConfig, ModelConfig, ServerConfig
from mergewise.server.jobs import process, watch
from mergewise.server.jobs.runner import JobRunner
from mergewise.server.jobs.watch import Watch
from mergewise.server.locks import lock_file, waiting_lock
from mergewise.server.processes import prepare
from mergewise.server.records import READ_ONLY, CollectionRecord, Job, JobKind, Upload
from mergewise.server.spool import keep_bytes
from mergewise.server.state import State
from tests.chat_server import ChatServer

CATS = b"# Cats\n\nCats purr at night. They sleep by day.\n"


class Bench:
    """A server's data with one collection, and a writer and an evaluator in this process."""

    def __init__(self, data: Path, **own: Any) -> None:
        self.config = ServerConfig(data, collections={"a": CollectionConfig(embedder="none", **own)})
        self.state = State.of(self.config)
        prepare(self.config, self.state)
        self.writer = JobRunner(self.config, self.state)
        self.evaluator = JobRunner(self.config, self.state, tuple(READ_ONLY))
        record = self.state.collections.get("a")
        assert record is not None
        self.path, self.blobs = Path(record.path), Path(record.blobs)

    def upload(self, doc_id: str, content: bytes | str = CATS, name: str = "x.md", **fields: Any) -> Upload:
        content = content.encode() if isinstance(content, str) else content
        return Upload(doc_id, keep_bytes(self.config.spool, self.blobs, content).sha256, name, len(content), **fields)

    def add(self, *uploads: Upload, **fields: Any) -> Job:
        return self.run("add", uploads=uploads, **fields)

    def run(self, kind: JobKind, request: dict[str, Any] | None = None, **fields: Any) -> Job:
        """Run a job in one round, and return it."""
        job = self.state.jobs.enqueue(kind, "a", request, **fields)
        self.age()
        (self.evaluator if kind in READ_ONLY else self.writer).run_round()
        return self.after(job)

    def age(self) -> None:
        """Make all uploads old enough to run."""
        with self.state.database.change() as rows:
            rows.execute("UPDATE jobs SET created = created - 1")

    def after(self, job: Job) -> Job:
        found = self.state.jobs.get(job.id)
        assert found is not None
        return found

    def index(self) -> mw.Index:
        return mw.open(self.path, create=False)

    def ids(self) -> list[str]:
        return sorted(info.id for info in self.index().documents())

    def statuses(self) -> dict[str, str]:
        return {one.id: one.status for one in self.state.documents.find("a")}

    def close(self) -> None:
        self.writer.close()
        self.evaluator.close()
        self.state.close()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(**own: Any) -> Bench:
        made.append(Bench(tmp_path / f"data {len(made)}", **own))
        return made[-1]

    yield make
    for bench in made:
        bench.close()


@pytest.fixture
def bench(make: Callable[..., Bench]) -> Bench:
    return make()


def test_a_sharded_index_is_written_and_queried(make: Callable[..., Bench], tmp_path: Path) -> None:
    mw.open(tmp_path / "own", embedder="none", shards=3).close()
    bench = make(path=tmp_path / "own")
    assert bench.add(bench.upload("cats"), bench.upload("dogs", "Dogs bark.")).state == "done"
    (served,) = Collections(bench.config, bench.state).all()
    assert served.is_made and served.info()["documents"] == 2 and time.time() - served.changed_at < 60
    assert served.index.ask("When do cats purr?").citations[0].span.doc_id == "cats"
    served.close()


def test_uploads_of_every_form(bench: Bench) -> None:
    document = {"text": "Dogs bark. Owls fly.", "title": "Dogs", "metadata": {"year": 3}, "units": [[0, 10], [11, 20]]}
    job = bench.add(
        bench.upload("x/cats", name="../../etc/cats.md", title="Cats!", metadata={"lang": "en"}),
        bench.upload("dogs", json.dumps(document), is_document=True),
        bench.upload("broken", b"%PDF-nonsense", name="b.pdf"),
    )
    assert job.state == "done" and job.report is not None
    assert (job.report["documents"], job.report["indexed"], job.report["added"]) == (3, 2, 2)
    assert job.report["failed"] == [
        {"id": "broken", "code": "unreadable", "detail": "damaged PDF", "hint": "change the file, or leave it out"}
    ]
    cats, dogs = (bench.index().document(name) for name in ("x/cats", "dogs"))
    assert (cats.title, cats.metadata) == ("Cats!", {"lang": "en"}) and cats.text.startswith("# Cats")
    assert (dogs.title, dogs.metadata["year"]) == ("Dogs", 3)
    assert {info.id: info.leaves for info in bench.index().documents()}["dogs"] == 2
    assert bench.statuses() == {"x/cats": "indexed", "dogs": "indexed", "broken": "failed"}
    assert bench.index().check() == []
    alone = bench.add(bench.upload("worse", b"", name="w.md"))
    assert alone.state == "failed" and alone.error is not None and alone.error["document"] == "worse"


def test_jobs_that_ran_together_have_separate_reports(bench: Bench) -> None:
    first = bench.state.jobs.enqueue("add", "a", uploads=[bench.upload("x"), bench.upload("bad", b"", name="b.md")])
    second = bench.run("replace", uploads=[bench.upload("x", "Newer cats purr.")])
    first = bench.after(first)
    assert first.report is not None and second.report is not None
    assert (first.report["indexed"], second.report["indexed"], "added" in first.report) == (1, 1, False)
    assert [one["id"] for one in first.report["failed"]] == ["bad"] and second.report["failed"] == []
    assert bench.index().document("x").text == "Newer cats purr." and bench.statuses()["x"] == "indexed"


def test_on_conflict_skip_and_fail_keep_existing_documents(bench: Bench) -> None:
    bench.add(bench.upload("x"))
    skipped = bench.add(bench.upload("x", "Other.", on_conflict="skip"), bench.upload("y", on_conflict="skip"))
    assert skipped.state == "done" and skipped.report is not None and skipped.report["skipped"] == ["x"]
    refused = bench.add(bench.upload("x", "Other.", on_conflict="fail"), bench.upload("z"))
    assert refused.report is not None and refused.report["failed"][0]["code"] == "conflict"
    assert bench.index().document("x").text == CATS.decode() and bench.ids() == ["x", "y", "z"]
    assert bench.statuses()["x"] == "indexed"


def test_on_conflict_applies_to_jobs_that_run_together(bench: Bench) -> None:
    first = bench.state.jobs.enqueue("add", "a", uploads=[bench.upload("x")])
    second = bench.add(bench.upload("x", "Other.", on_conflict="skip"))
    assert bench.after(first).report["indexed"] == 1 and second.report["skipped"] == ["x"]  # type: ignore[index]
    (x,) = bench.state.documents.find("a")
    assert x.status == "indexed" and x.indexed_at and bench.index().document("x").text == CATS.decode()


@pytest.mark.parametrize("follows", [False, True])
def test_links_out_of_a_folder_are_followed_by_configuration(
    make: Callable[..., Bench], tmp_path: Path, follows: bool
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "d.md").write_text("# Deer\n\nDeer run.\n")
    (tmp_path / "secret.md").write_text("A secret.\n")
    (docs / "link.md").symlink_to(tmp_path / "secret.md")
    bench = make(folders=(docs,), follow_links=follows)
    synced = bench.run("sync")
    assert synced.report is not None and synced.report["added"] == 1 + follows
    assert [link["followed"] for link in synced.report["outward"]] == [follows]


def test_the_other_kinds(make: Callable[..., Bench], tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "d.md").write_text("# Deer\n\nDeer run.\n")
    (docs / "e.pdf").write_bytes(b"%PDF-nonsense")
    bench = make(folders=(docs,))
    bench.add(
        bench.upload("x", metadata={"year": 1}), bench.upload("y/1"), bench.upload("y/2", "Two.", metadata={"year": 2})
    )
    assert bench.run("metadata", {"id": "x", "metadata": {"year": 5}}).report == {"updated": 1}
    assert bench.index().document("x").metadata["year"] == 5
    synced = bench.run("sync")
    assert synced.report is not None and synced.report["added"] == 1
    failed = [one for one in bench.state.documents.find("a") if one.status == "failed"]
    assert [one.id.endswith("e.pdf") for one in failed] == [True]
    refused = bench.run("sync", {"folders": ["/etc"]})
    assert refused.state == "failed" and refused.error is not None and "/etc" not in json.dumps(refused.error)
    assert bench.run("add_view", {"view": "slice", "settings": {"chunk": 300}}).state == "done"
    assert bench.index().manifest.views["slice"].settings["chunk"] == 300
    other = bench.run("add_view", {"view": "slice", "settings": {"chunk": 200}})
    assert other.error is not None and other.error["detail"] == "a has a slice view with other settings"
    assert bench.run("add_view", {"view": "nonsense"}).state == "failed"
    removed = bench.run("remove_view", {"view": "slice"})
    assert removed.report == {"views": ["leaf"]} and bench.run("remove_view", {"view": "slice"}).state == "failed"
    for impossible in ({"view": "pic"}, {"view": "marker", "settings": {"made": "model"}}):
        assert bench.run("add_view", impossible).state == "failed"
        assert bench.index().manifest.views.keys() == {"leaf"}
    for kind in ("check", "repair"):
        assert bench.run(kind).report == {"problems": []}
    assert bench.run("optimize").state == bench.run("embed").state == "done"
    removals: list[dict[str, Any]] = [{"filter": {"type": "eq", "key": "year", "value": 2}}, {"prefix": "y/"}]
    for request in removals:
        assert bench.run("remove", request).report == {"removed": 1, "snapshot": bench.index().snapshot}
    assert bench.run("remove", {"ids": ["x", "none"]}).state == "done"
    assert [Path(doc_id).name for doc_id in bench.ids()] == ["d.md"] and "x" not in bench.statuses()


def test_an_evaluation(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.add(bench.upload("cats"))
    questions = [
        {"question": "When do cats purr?", "answers": ["at night"]},
        {"question": "Who barks?", "answers": ["dogs"]},
    ]
    form = {"questions": questions, "strategies": ["topk", "weave"], "budgets": [64], "name": "Cats"}
    job = bench.run("evaluate", form)
    assert job.state == "done" and job.report is not None, job.error
    assert len(job.report["rows"]) == 4 and job.report["report"]["title"] == "Evaluation: Cats"
    (table,) = (table for part in job.report["report"]["parts"] for table in part["tables"])
    assert [row["name"] for row in table["rows"]] == ["topk", "weave"]
    assert job.report["page"].startswith("<!doctype html>") and "Evaluation: Cats" in job.report["page"]
    json.dumps(job.report)
    assert job.as_dict()["report"] == {} and "rows" not in json.dumps(bench.state.jobs.events(job.id)[-1].job)
    unknown = {"questions": questions, "strategies": ["none"]}
    for request in ({}, {"questions": [3]}, unknown, {"questions": questions * 9999}):
        failed = bench.run("evaluate", request)
        assert failed.error is not None and failed.error["code"] == "invalid" and "/" not in failed.error["detail"]
    # an evaluation checks for cancellation only through its progress reports
    monkeypatch.setattr(Watch, "must_stop", lambda self: True)
    other = bench.state.jobs.enqueue("evaluate", "a", {"questions": questions})
    bench.evaluator.run_round()
    assert bench.after(other).state == "queued"


def test_dropping_a_collection_deletes_the_servers_files(bench: Bench) -> None:
    bench.add(bench.upload("x"))
    assert bench.run("drop").state == "done"
    assert not bench.path.exists() and not bench.blobs.exists() and bench.state.collections.all() == []
    assert bench.run("check").state == "failed"
    # a second run after a crash between the steps
    assert bench.run("drop").state == "done"


def test_an_external_index_is_not_dropped(make: Callable[..., Bench], tmp_path: Path) -> None:
    elsewhere = tmp_path / "own.index"
    with mw.open(elsewhere, embedder="none") as index:
        index.add(mw.Document("d", "A text."))
    bench = make(path=elsewhere)
    bench.add(bench.upload("x"))
    assert bench.ids() == ["d", "x"] and bench.run("drop").state == "done"
    assert bench.ids() == ["d", "x"] and not bench.blobs.exists()


def test_indexes_are_made_before_the_first_document(bench: Bench) -> None:
    # other collections go on if one has invalid settings
    home, settings = bench.config.data / "0", {"leaf": 5}
    bench.state.collections.add(CollectionRecord("0", str(home / "index"), str(home / "blobs"), settings=settings))
    bench.writer.make_indexes()
    assert bench.ids() == []


def test_a_failing_model_fails_only_its_job(make: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make()
    bench.state.jobs.enqueue("add", "a", uploads=[bench.upload("x")])
    broken = mw.Index.add

    def add(self: mw.Index, sources: list[mw.File], **options: Any) -> mw.AddReport:
        if any(source.id == "bad" for source in sources):
            raise mw.ModelError("the model is gone", "start it")
        return broken(self, sources, **options)

    monkeypatch.setattr(mw.Index, "add", add)
    bad = bench.run("add", uploads=[bench.upload("bad", "Bad text.")])
    assert bad.state == "failed" and bad.error is not None
    assert (bad.error["code"], bad.error["detail"]) == ("model-failed", "the model is gone")
    assert bad.error["hint"] == "start it"
    assert bench.ids() == ["x"] and bench.statuses() == {"bad": "failed", "x": "indexed"}
    monkeypatch.setattr(mw.Index, "add", lambda *a, **k: 1 / 0)
    defect = bench.add(bench.upload("y"))
    assert defect.error is not None and defect.error["code"] == "internal"
    assert "division" not in json.dumps(defect.error)
    monkeypatch.undo()
    bench.state.jobs.retry(defect.id)
    bench.writer.run_round()
    assert bench.after(defect).state == "done"


def test_cancelling_keeps_finished_batches(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from mergewise.index import pipeline

    monkeypatch.setattr(pipeline, "BATCH_DOCUMENTS", 2)
    monkeypatch.setattr(watch, "TELL_SECONDS", 0.0)
    uploads = [bench.upload(f"d{number}", f"Text number {number}.") for number in range(6)]
    job = bench.state.jobs.enqueue("add", "a", uploads=uploads)
    other = bench.state.jobs.enqueue("add", "a", uploads=[bench.upload("z", "Another text.")])
    report = Watch.report

    def cancel_at_the_fourth(self: Any, done: int, total: int, document: str) -> None:
        report(self, done, total, document)
        if document == "d4" and bench.ids():
            bench.state.jobs.cancel(job.id)

    monkeypatch.setattr(Watch, "report", cancel_at_the_fourth)
    bench.age()
    bench.writer.run_round()
    ended = bench.after(job)
    assert ended.state == "cancelled" and ended.report is not None
    kept = bench.ids()
    assert 2 <= len(kept) < 6 and ended.report["finished"] == len(kept)
    assert bench.statuses() == {**dict.fromkeys(kept, "indexed"), "z": "queued"}
    assert bench.index().check() == []
    bench.writer.run_round()
    assert bench.after(other).state == "done" and "z" in bench.ids()


def test_a_stopping_writer_leaves_its_job_to_the_next(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    job = bench.state.jobs.enqueue("add", "a", uploads=[bench.upload("x")])

    def add(self: mw.Index, *sources: Any, cancel: Callable[[], bool], **options: Any) -> None:
        bench.writer.stopping.set()
        assert cancel()
        raise Cancelled("called off", "")

    monkeypatch.setattr(mw.Index, "add", add)
    bench.age()
    bench.writer.run_round()
    left = bench.after(job)
    assert (left.state, left.kills) == ("queued", 0) and bench.statuses() == {"x": "queued"}


def test_the_writer_waits_for_another_writers_lock(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "TELL_SECONDS", 0.01)
    bench.writer.make_indexes()
    for doc_id, cancels in (("x", False), ("y", True)):
        job = bench.state.jobs.enqueue("add", "a", uploads=[bench.upload(doc_id)])
        bench.age()
        with bench.index().store.place.writer(1):
            thread = threading.Thread(target=bench.writer.run_round)
            thread.start()
            while bench.after(job).state != "waiting_lock":
                thread.join(0.01)
            if cancels:
                bench.state.jobs.cancel(job.id)
                thread.join()
        thread.join()
        assert bench.after(job).state == ("cancelled" if cancels else "done") and bench.ids() == ["x"]
        assert [event.job["state"] for event in bench.state.jobs.events(job.id)].count("waiting_lock") == 1


def test_rows_are_written_by_the_configured_model(make: Callable[..., Bench]) -> None:
    pytest.importorskip("openai")
    with ChatServer(["A summary of cats."]) as endpoint:
        bench = make(views=("leaf", "slice"), chat="local")
        chats = {"local": ModelConfig("openai:m", base_url=endpoint.base_url, key_env="HOME")}
        bench.writer.config = replace(bench.config, chats=chats)
        assert bench.add(bench.upload("x")).state == "done"
        calls = len(endpoint.asked)
        assert calls and bench.index().manifest.views["slice"].settings["summary"] == "abstractive"
        # the same bytes cause no further calls
        assert bench.add(bench.upload("x")).report["unchanged"] == 1 and len(endpoint.asked) == calls  # type: ignore[index]


def test_a_backup_waits_for_the_job_and_the_job_for_the_backup(bench: Bench) -> None:
    job = bench.state.jobs.enqueue("optimize", "a")
    with waiting_lock(lock_file(bench.config.data, "changes"), 1):
        thread = threading.Thread(target=bench.writer.run_round)
        thread.start()
        thread.join(0.1)
        assert bench.after(job).state == "queued"
        with pytest.raises(IndexBusy), waiting_lock(lock_file(bench.config.data, "changes"), 0):
            pass
    thread.join()
    assert bench.after(job).state == "done"


def test_folders_are_synchronised_at_start_and_after_changes(
    make: Callable[..., Bench], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, stop, asked = make(folders=(tmp_path,)), threading.Event(), []

    def bursts(folders: Any, left_out: Any, given: Any, seconds: float) -> Iterator[None]:
        asked.append((tuple(folders), set(left_out)))
        if len(asked) == 1:
            raise OSError("the folder is gone for a moment")
        yield
        # a second burst while a sync is queued adds no job
        yield
        bench.writer.run_round()
        yield
        stop.set()

    monkeypatch.setattr(process, "bursts", bursts)
    monkeypatch.setattr(process, "LOOK_AT_FOLDERS_SECONDS", 0.0)
    process.follow_folders(bench.config, bench.state, "a", stop)
    assert asked == [((tmp_path,), {bench.config.data, bench.path})] * 2
    assert [(job.kind, job.state) for job in bench.state.jobs.find()] == [("sync", "queued"), ("sync", "done")]
