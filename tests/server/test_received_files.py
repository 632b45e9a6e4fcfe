"""Received files of the OpenAI API: sending one costs the same with many, and the writer deletes bytes after a day."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from mergewise.server import writer as writing
from mergewise.server.configuration import ServerConfig
from mergewise.server.openai import file_store
from mergewise.server.state import State
from mergewise.server.writer import Writer
from tests.server.conftest import LiveServer


def test_sending_a_file_reads_no_record_of_another(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    client, read = server.client("write"), list[Path]()
    load = file_store._record_in

    def note(path: Path, kind: Any) -> Any:
        read.append(path)
        return load(path, kind)

    monkeypatch.setattr(file_store, "_record_in", note)
    sent = [client.post("/v1/files", files={"file": (f"{n}.md", b"A text.")}) for n in range(3)]
    assert [answer.status_code for answer in sent] == [200] * 3 and read == []
    assert client.get("/v1/files").status_code == 200 and len(read) >= 3


def test_the_writer_deletes_bytes_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ServerConfig(tmp_path)
    blobs = [tmp_path / "files" / name[:2] / name for name in ("ab" * 32, "cd" * 32)]
    for blob, age in zip(blobs, (86_500, 80_000), strict=True):
        blob.parent.mkdir(parents=True)
        blob.write_bytes(b"x")
        os.utime(blob, (time.time() - age,) * 2)
    record = tmp_path / "files" / "file-x.json"
    record.write_text("{}")
    monkeypatch.setattr(writing, "SWEEP_SECONDS", 0.0)
    with State.of(config) as state:
        writer = Writer(config, state)
        writer._tend()
        writer.close()
    assert [path.exists() for path in (*blobs, record)] == [False, True, True]
