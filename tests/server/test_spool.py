"""Storage of uploads: complete or not at all, under their sha256."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from mergewise.errors import UsageError
from mergewise.server import spool
from mergewise.server.spool import blob_path, keep_bytes, receive, sweep_blobs, sweep_spool


async def chunks(*parts: bytes, then: Exception | None = None) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
    if then is not None:
        raise then


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_received_bytes_are_stored_by_their_sha256(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_AT_ONCE", 8)
    content = b"0123456789" * 3
    blob = asyncio.run(receive(tmp_path / "s", tmp_path / "b", chunks(content[:9], b"", content[9:])))
    assert (blob.sha256, blob.bytes) == (sha256(content).hexdigest(), 30)
    assert blob_path(tmp_path / "b", blob.sha256).read_bytes() == content
    assert keep_bytes(tmp_path / "s", tmp_path / "b", content) == blob
    assert len(files(tmp_path)) == 1
    assert blob_path(tmp_path / "b", blob.sha256).stat().st_mode & 0o077 == 0


def test_an_incomplete_upload_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        asyncio.run(receive(tmp_path / "s", tmp_path / "b", chunks(b"12345", then=ConnectionError("gone"))))
    assert files(tmp_path) == []


def test_bytes_are_synced_before_they_get_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def record_calls(owner: Any, name: str) -> None:
        call = getattr(owner, name)

        def record_call(*values: Any) -> Any:
            done.append(name)
            return call(*values)

        monkeypatch.setattr(owner, name, record_call)

    record_calls(os, "fsync")
    record_calls(Path, "replace")
    keep_bytes(tmp_path / "s", tmp_path / "b", b"x")
    assert done == ["fsync", "replace", "fsync", "fsync"]


@pytest.mark.parametrize("name", ["", "ab", "../" * 10 + "etc/passwd", "AB" * 32, "ab" * 32 + "\n"])
def test_an_invalid_sha256_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        blob_path(tmp_path, name)


def test_the_sweep_deletes_old_unreferenced_blobs(tmp_path: Path) -> None:
    needed, old, young = (keep_bytes(tmp_path / "s", tmp_path / "b", text) for text in (b"needed", b"old", b"young"))
    for blob in (needed, old):
        os.utime(blob_path(tmp_path / "b", blob.sha256), (1, 1))
    sweep_blobs(tmp_path / "b", {needed.sha256})
    assert blob_path(tmp_path / "b", needed.sha256).exists()
    assert not blob_path(tmp_path / "b", old.sha256).exists() and blob_path(tmp_path / "b", young.sha256).exists()
    # storing the same bytes again makes the blob young
    again = keep_bytes(tmp_path / "s", tmp_path / "b", b"needed")
    sweep_blobs(tmp_path / "b", set())
    assert again == needed and blob_path(tmp_path / "b", needed.sha256).exists()
    (tmp_path / "s" / "left").write_bytes(b"x")
    sweep_spool(tmp_path / "s")
    assert (tmp_path / "s" / "left").exists()
    os.utime(tmp_path / "s" / "left", (1, 1))
    sweep_spool(tmp_path / "s")
    assert not (tmp_path / "s" / "left").exists()
