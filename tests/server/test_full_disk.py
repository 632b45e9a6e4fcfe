"""A full disk: uploads are refused with 507, jobs fail with the reason or wait until there is space."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import mergewise as mw
from mergewise.errors import StoreError
from mergewise.server import spool
from mergewise.server.database import SQLite
from mergewise.server.jobs import runner
from mergewise.server.jobs.runner import JobRunner
from mergewise.server.spool import is_disk_full
from mergewise.server.state import State
from tests.server.conftest import LiveServer
from tests.server.test_turns import Works, works  # noqa: F401
from tests.support import until

FULL = OSError(errno.ENOSPC, "No space left on device")


@contextmanager
def full_state(state: State) -> Iterator[None]:
    """Give the state's file no further page."""
    assert isinstance(state.database, SQLite)
    changes = state.database._changes
    pages = changes.execute("PRAGMA page_count").fetchone()[0]
    changes.execute(f"PRAGMA max_page_count={pages}")
    yield
    changes.execute("PRAGMA max_page_count=1000000")


def refuse(*given: Any, **options: Any) -> Any:
    raise FULL


def test_errors_of_a_full_disk_are_recognised() -> None:
    for error in (FULL, OSError(errno.EDQUOT, "quota"), RuntimeError("lance error: LanceError(IO): (os error 28)")):
        outer = StoreError("cannot write", "")
        outer.__cause__ = error
        assert is_disk_full(error) and is_disk_full(outer)
    for other in (OSError(errno.EACCES, "denied"), StoreError("x", ""), sqlite3.OperationalError("locked"), None):
        assert not is_disk_full(other)


@pytest.mark.parametrize("what", ["spool", "blobs", "state"])
def test_uploads_are_refused_with_507(
    start_server: Callable[..., LiveServer], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server()
    client, documents = server.client("write"), "/api/v1/collections/ships/documents"

    def send() -> list[Any]:
        return [
            client.put(f"{documents}/bmV3", content=b"A text.", headers={"Content-Type": "text/plain"}),
            client.post(documents, json={"documents": [{"id": "x", "text": "A text. " * 2000}]}),
            client.post(documents, files={"files": ("a.md", b"A text.")}),
            client.post("/v1/files", files={"file": ("a.md", b"A text.")}),
        ]

    if what == "state":
        with full_state(server.state):
            # only a large job needs a new page
            request = {"kind": "evaluate", "request": {"questions": [{"question": "x" * 500_000, "answers": ["x"]}]}}
            answers = [client.post("/api/v1/collections/ships/jobs", json=request)]
    else:
        with monkeypatch.context() as patch:
            if what == "spool":
                full = lambda *_, **__: (os.open("/dev/full", os.O_WRONLY), Path("/nowhere"))  # noqa: E731
                patch.setattr(spool, "new_file", full)
            else:
                patch.setattr(spool, "_sync_folder", refuse)
            answers = send()
    for answer in answers:
        assert answer.status_code == 507, answer.text
        body = answer.json()
        assert "disk" in body["error"]["message"] if "error" in body else body["code"] == "disk-full" and body["hint"]
    assert [answer.status_code for answer in send()] == [202, 202, 202, 200]


def test_a_job_fails_with_the_reason(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(mw.Index, "add", refuse)
    job = works.add("a", "x")
    writer = JobRunner(works.config, works.state)
    writer.run_round()
    writer.close()
    error = works.job(job).error
    assert error is not None and error["code"] == "disk-full" and "space" in error["hint"]


def test_jobs_wait_while_the_state_cannot_be_written(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(runner, "FULL_SECONDS", 0.05)
    jobs = [works.add("a", "x"), works.add("a", "y")]
    finish, is_full, refused = works.state.jobs.finish, threading.Event(), threading.Event()
    is_full.set()

    def finish_unless_full(id: str, *given: Any, **options: Any) -> None:
        # the first of two jobs is recorded before the disk is full
        if id != jobs[0].id and is_full.is_set():
            refused.set()
            raise StoreError("cannot use the server's state", "") from FULL
        finish(id, *given, **options)

    monkeypatch.setattr(works.state.jobs, "finish", finish_unless_full)
    works.start()
    assert refused.wait(20) and until(lambda: works.is_in("done", jobs[0]))
    assert works.is_in("running", jobs[1]) and works.runners[0][1].is_alive()
    is_full.clear()
    assert until(lambda: works.is_in("done", *jobs))
    for job in jobs:
        assert [event.job["state"] for event in works.state.jobs.events(job.id)].count("done") == 1


def test_a_recorded_job_is_not_run_again(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(runner, "FULL_SECONDS", 0.01)
    job, later = works.queue("optimize", "a"), works.queue("optimize", "a")
    finish, calls = works.state.jobs.finish, list[str]()

    def finish_and_fail(id: str, *given: Any, **options: Any) -> None:
        finish(id, *given, **options)
        calls.append(id)
        if len(calls) == 1:
            raise FULL

    monkeypatch.setattr(works.state.jobs, "finish", finish_and_fail)
    writer = JobRunner(works.config, works.state)
    assert writer.run_round() and writer.run_round() and calls == [job.id, later.id]
    assert not writer.under_way
    writer.close()


def test_claims_wait_while_the_state_cannot_be_written(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(runner, "FULL_SECONDS", 0.05)
    claim, left = works.state.jobs.claim, [5]

    def claim_later(**options: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise StoreError("cannot use the server's state", "") from FULL
        return claim(**options)

    monkeypatch.setattr(works.state.jobs, "claim", claim_later)
    job = works.add("a", "x")
    works.start()
    assert until(lambda: works.is_in("done", job))
