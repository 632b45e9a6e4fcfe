"""Documents of a collection's folders: ids without paths of the server, and indexing at the start."""

from __future__ import annotations

import json
import logging
import os
import threading
from math import inf
from pathlib import Path
from typing import Any

import pytest

import mergewise as mw
from mergewise.server.configuration import CollectionConfig, ServerConfig, folder_roots
from mergewise.server.jobs import process, runner, watch
from mergewise.server.jobs.process import run_jobs
from mergewise.server.jobs.runner import JobRunner
from mergewise.server.processes import prepare, queue_first_sync
from mergewise.server.records import Job, JobKind
from mergewise.server.state import State
from tests.server.conftest import LiveServer, record_of


class Served:
    """The data of a server with a collection of folders. It is closed and opened again by each `sync`."""

    def __init__(self, data: Path) -> None:
        self.data = data

    def sync(self, *folders: Path, path: Path | None = None, kind: JobKind = "sync") -> Job:
        own = CollectionConfig(path, embedder="none", folders=folders)
        config = ServerConfig(self.data, collections={"a": own})
        with State.of(config) as state:
            prepare(config, state)
            writer = JobRunner(config, state)
            job = state.jobs.enqueue(kind, "a")
            writer.run_round()
            writer.close()
            after = state.jobs.get(job.id)
            assert after is not None
            return after

    def ids(self, path: Path | None = None) -> list[str]:
        with mw.open(path or self.data / "collections/a/index", create=False) as index:
            return sorted(info.id for info in index.documents())

    def failed(self) -> list[str]:
        with State.of(ServerConfig(self.data)) as state:
            return [one.id for one in state.documents.find("a")]


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path / "data")


@pytest.fixture
def manual(tmp_path: Path) -> Path:
    return folder(tmp_path / "srv/manual", "cats.md", "sub/dogs.md")


def folder(place: Path, *names: str) -> Path:
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"# {Path(name).stem}\n\nA text about {name} of the {place.name}.\n")
    return place


def test_ids_are_relative_to_the_folder_and_stay_when_it_moves(served: Served, manual: Path, tmp_path: Path) -> None:
    assert served.sync(manual).state == "done"
    assert served.ids() == ["cats.md", "sub/dogs.md"]
    moved = manual.rename(tmp_path / "moved")
    report = served.sync(moved).report
    assert report is not None and (report["unchanged"], report["removed"]) == (2, 0)
    assert served.ids() == ["cats.md", "sub/dogs.md"]


def test_several_folders_are_told_apart_by_name(served: Served, manual: Path, tmp_path: Path) -> None:
    served.sync(manual)
    other, same_name = folder(tmp_path / "srv/notes", "cats.md"), folder(tmp_path / "old/manual", "cats.md")
    report = served.sync(manual, other).report
    assert report is not None and (report["moved"], report["added"], report["removed"]) == (2, 1, 0)
    assert served.ids() == ["manual/cats.md", "manual/sub/dogs.md", "notes/cats.md"]
    # the order of the configuration is without effect
    unchanged = served.sync(other, manual).report
    assert unchanged is not None and unchanged["unchanged"] == 3
    assert folder_roots(served.data / "index", [same_name, manual]) == {"old/manual": same_name, "srv/manual": manual}
    served.sync(other)
    assert served.ids() == ["cats.md"]


def test_documents_beside_the_index_have_the_ids_of_the_command_line(
    served: Served, manual: Path, tmp_path: Path
) -> None:
    index = manual.parent / "my.index"
    with mw.open(index, embedder="none") as made:
        made.sync(manual)
    assert served.sync(manual, path=index).state == "done"
    assert served.ids(index) == ["manual/cats.md", "manual/sub/dogs.md"]


def test_absolute_ids_of_an_older_server_become_relative_without_indexing(
    served: Served, manual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (manual / "bad.pdf").write_bytes(b"%PDF-nonsense")
    monkeypatch.setattr(runner, "folder_roots", lambda index, folders: None)
    served.sync(manual)
    assert served.ids() == [f"{manual}/cats.md", f"{manual}/sub/dogs.md"]
    assert served.failed() == [f"{manual}/bad.pdf"]
    monkeypatch.undo()
    report = served.sync(manual).report
    assert report is not None and (report["moved"], report["added"], report["removed"]) == (2, 0, 0)
    assert served.ids() == ["cats.md", "sub/dogs.md"] and served.failed() == ["bad.pdf"]
    assert str(manual) not in json.dumps(report)
    (manual / "bad.pdf").unlink()
    served.sync(manual)
    assert served.failed() == []


def test_an_uploaded_document_keeps_its_id(served: Served, manual: Path) -> None:
    served.sync(manual, kind="optimize")
    with mw.open(served.data / "collections/a/index") as index:
        index.add([mw.File(manual / "cats.md", id="cats.md", name="cats.md"), mw.Document("sub/dogs.md", "Mine.")])
    for _ in range(2):
        served.sync(manual)
        assert served.ids() == ["cats.md", "file:cats.md", "file:sub/dogs.md", "sub/dogs.md"]
    with mw.open(served.data / "collections/a/index") as index:
        assert index.document("sub/dogs.md").text == "Mine."


def test_reports_and_errors_contain_no_paths_of_the_server(served: Served, manual: Path, tmp_path: Path) -> None:
    (manual / "bad.pdf").write_bytes(b"%PDF-nonsense")
    (tmp_path / "secret.md").write_text("A secret.\n")
    (manual / "sub/link.md").symlink_to(tmp_path / "secret.md")
    done = served.sync(manual)
    assert done.report is not None
    assert done.report["outward"] == [{"link": "sub/link.md", "followed": False}]
    assert [one["source"] for one in done.report["failed"]] == ["bad.pdf"] == served.failed()
    gone = manual.rename(tmp_path / "srv/gone")
    failed = served.sync(tmp_path / "data/../srv/manual")
    assert failed.state == "failed" and failed.error is not None
    assert "manual does not exist" in failed.error["detail"]
    assert str(tmp_path) not in json.dumps([done.as_dict(), failed.as_dict()])
    assert served.sync(gone).state == "done"


# -- indexing at the start


def test_folders_are_indexed_at_the_start_without_watching(
    served: Served, manual: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ServerConfig(served.data, collections={"a": CollectionConfig(embedder="none", folders=(manual,))})
    monkeypatch.setattr(watch, "LOG_SECONDS", 0.0)
    monkeypatch.setattr("signal.signal", lambda *given: None)
    with State.of(config) as state, caplog.at_level(logging.INFO, "mergewise.server"):
        prepare(config, state)
        queue_first_sync(state, "a")
        writers: list[JobRunner] = []
        run = JobRunner.run

        def note_and_run(own: JobRunner) -> None:
            writers.append(own)
            run(own)

        monkeypatch.setattr(JobRunner, "run", note_and_run)
        writing = threading.Thread(target=run_jobs, args=(config, os.getppid()))
        writing.start()
        try:
            wait_until(lambda: [job.state for job in state.jobs.find()] == ["done"])
        finally:
            writers[0].stopping.set()
            writing.join()
    assert served.ids() == ["cats.md", "sub/dogs.md"]
    assert "sync of a is at" in caplog.text
    assert "indexed the folders of a: 2 added, 0 replaced" in caplog.text


def test_processes_rest_after_their_jobs(served: Served, manual: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that has changed an index ends, so that its memory is free, and the evaluator too."""
    config = ServerConfig(served.data, collections={"a": CollectionConfig(embedder="none", folders=(manual,))})
    monkeypatch.setattr("signal.signal", lambda *given: None)
    monkeypatch.setattr(process, "REST_SECONDS", 0.0)
    woken = list[str]()
    with State.of(config) as state:
        prepare(config, state)
        check = state.jobs.enqueue("check", "a")
        queue_first_sync(state, "a")
        run_jobs(config, os.getppid(), "writer", lambda: woken.append("evaluator"))
        assert sorted(job.state for job in state.jobs.find()) == ["done", "queued"] and woken
        # another writer takes its place
        assert state.writer_is_alive()
        run_jobs(config, os.getppid(), "evaluator")
        assert state.jobs.get(check.id).state == "done"  # type: ignore[union-attr]
        assert not (served.data / "evaluator.beat").exists()
        # without a change, a writer stays
        writer = JobRunner(config, state)
        queue_first_sync(state, "a")
        assert writer.run_round() and writer.grew == inf
        writer.close()


def test_the_first_sync_is_queued_once_and_not_after_it_killed_the_writer(served: Served, manual: Path) -> None:
    config = ServerConfig(served.data, collections={"a": CollectionConfig(embedder="none", folders=(manual,))})
    with State.of(config) as state:
        prepare(config, state)
        queue_first_sync(state, "a")
        queue_first_sync(state, "a")
        (job,) = state.jobs.find()
        state.jobs.claim()
        state.jobs.finish(job.id, "failed", error={"code": "writer_killed"})
        queue_first_sync(state, "a")
        assert len(state.jobs.find()) == 1
        state.jobs.finish(state.jobs.enqueue("sync", "a").id, "failed", error={"code": "unreadable"})
        queue_first_sync(state, "a")
        assert [one.state for one in state.jobs.find()] == ["queued", "failed", "failed"]


def test_an_empty_collection_says_why_its_folders_are_not_indexed(start_server: Any, tmp_path: Path) -> None:
    live: LiveServer = start_server(collections={"new": CollectionConfig(folders=(tmp_path,))})
    live.state.collections.add(record_of(live.config, "new"))
    api = "/api/v1/collections/new"
    client = live.client("read")
    assert client.get(api).json()["indexing"] == {
        "percent": 0, "notice": "Indexing is at 0 %: answers may be incomplete", "document": None,
    }  # fmt: skip
    job = live.state.jobs.enqueue("sync", "new")
    live.state.jobs.finish(job.id, "failed", error={"code": "usage", "detail": "new does not exist"})
    failed = {
        "percent": None,
        "document": None,
        "notice": "The folders of this collection could not be indexed: new does not exist",
    }
    assert client.get(api).json()["indexing"] == failed
    assert client.post(f"{api}/ask", json={"question": "Who?"}).json()["hint"] == failed["notice"]
    live.state.jobs.finish(live.state.jobs.enqueue("sync", "new").id, "done")
    assert client.get(api).json()["indexing"] is None


def wait_until(check: Any) -> None:
    for _ in range(600):
        if check():
            return
        threading.Event().wait(0.05)
    raise AssertionError("nothing happened within 30 s")
