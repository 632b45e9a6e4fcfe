"""Received files of the OpenAI API: sending one costs the same with many, and the writer deletes bytes after a day."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from mergewise.server.configuration import ServerConfig
from mergewise.server.jobs import runner
from mergewise.server.jobs.runner import JobRunner
from mergewise.server.state import State
from tests.server.conftest import LiveServer


def test_files_are_records_of_their_senders(server: LiveServer) -> None:
    client, other = server.client("write"), server.client("ships")
    sent = [client.post("/v1/files", files={"file": (f"{n}.md", b"A text.")}).json() for n in range(3)]
    listed = [one["id"] for one in client.get("/v1/files").json()["data"]]
    assert listed[:3] == [one["id"] for one in reversed(sent)]
    assert not {one["id"] for one in sent} & {one["id"] for one in other.get("/v1/files").json()["data"]}
    assert client.delete(f"/v1/files/{sent[0]['id']}").json()["deleted"]
    assert client.get(f"/v1/files/{sent[0]['id']}").status_code == 404
    assert client.get(f"/v1/files/{sent[1]['id']}/content").content == b"A text."


def test_the_writer_deletes_bytes_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ServerConfig(tmp_path)
    blobs = [tmp_path / "files" / name[:2] / name for name in ("ab" * 32, "cd" * 32)]
    for blob, age in zip(blobs, (86_500, 80_000), strict=True):
        blob.parent.mkdir(parents=True)
        blob.write_bytes(b"x")
        os.utime(blob, (time.time() - age,) * 2)
    monkeypatch.setattr(runner, "SWEEP_SECONDS", 0.0)
    with State.of(config) as state:
        writer = JobRunner(config, state)
        writer._tend()
        writer.close()
    assert [path.exists() for path in blobs] == [False, True]
