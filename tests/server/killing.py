"""Helpers of tests that kill processes: a chat model that notices repeated calls, and uploads without a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.serve.kills import is_kept

from mergewise.models.scripted import Turn
from mergewise.server.records import Upload
from mergewise.server.spool import keep_bytes
from mergewise.server.state import State


@dataclass
class Summarizer:
    """A script of `ChatServer` for the server in `data`. It answers after a pause, with a different text for each prompt."""

    data: Path
    asked: list[str] = field(default_factory=list)
    paid_twice: list[bool] = field(default_factory=list)

    def __call__(self, messages: Any) -> Turn:
        shown = messages[-1].text
        # a usable summary has the words of its text
        reply = f"{shown.splitlines()[-2]} {sha256(shown.encode()).hexdigest()}."
        self.paid_twice.append(is_kept(self.data / "collections/a/index", reply))
        self.asked.append(shown)
        return Turn(reply, pause=0.2)


def queue(state: State, data: Path, doc_id: str, text: str) -> str:
    """Queue a document for the collection `a`, and return the id of its job."""
    blob = keep_bytes(data / "spool", data / "collections/a/blobs", text.encode())
    return state.jobs.enqueue("add", "a", uploads=[Upload(doc_id, blob.sha256, "d.md", blob.bytes)]).id


def assert_each_done_once(state: State, jobs: list[str]) -> None:
    for job in jobs:
        assert [event.job["state"] for event in state.jobs.events(job)].count("done") == 1
    assert {one.status for one in state.documents.find("a")} == {"indexed"}
