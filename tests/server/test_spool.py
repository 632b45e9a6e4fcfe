"""Uploads on their way to the disk: whole or not at all, under their sha256."""

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


def test_what_comes_is_kept_by_its_sha256(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_AT_ONCE", 8)
    content = b"0123456789" * 3
    blob = asyncio.run(receive(tmp_path / "s", tmp_path / "b", chunks(content[:9], b"", content[9:])))
    assert (blob.sha256, blob.bytes) == (sha256(content).hexdigest(), 30)
    assert blob_path(tmp_path / "b", blob.sha256).read_bytes() == content
    assert keep_bytes(tmp_path / "s", tmp_path / "b", content) == blob
    assert len(files(tmp_path)) == 1
    assert blob_path(tmp_path / "b", blob.sha256).stat().st_mode & 0o077 == 0


def test_what_does_not_come_whole_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        asyncio.run(receive(tmp_path / "s", tmp_path / "b", chunks(b"12345", then=ConnectionError("gone"))))
    assert files(tmp_path) == []


def test_the_bytes_are_on_the_disk_before_they_have_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def noting(owner: Any, name: str) -> None:
        call = getattr(owner, name)

        def noted(*values: Any) -> Any:
            done.append(name)
            return call(*values)

        monkeypatch.setattr(owner, name, noted)

    noting(os, "fsync")
    noting(Path, "replace")
    keep_bytes(tmp_path / "s", tmp_path / "b", b"x")
    assert done == ["fsync", "replace", "fsync", "fsync"]


@pytest.mark.parametrize("name", ["", "ab", "../" * 10 + "etc/passwd", "AB" * 32, "ab" * 32 + "\n"])
def test_a_name_that_is_no_sha256_leads_nowhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        blob_path(tmp_path, name)


def test_the_sweep_drops_what_nobody_needs_and_nothing_young(tmp_path: Path) -> None:
    needed, old, young = (keep_bytes(tmp_path / "s", tmp_path / "b", text) for text in (b"needed", b"old", b"young"))
    for blob in (needed, old):
        os.utime(blob_path(tmp_path / "b", blob.sha256), (1, 1))
    sweep_blobs(tmp_path / "b", {needed.sha256})
    assert blob_path(tmp_path / "b", needed.sha256).exists()
    assert not blob_path(tmp_path / "b", old.sha256).exists() and blob_path(tmp_path / "b", young.sha256).exists()
    # the same bytes that come again are young, however long they have stood
    again = keep_bytes(tmp_path / "s", tmp_path / "b", b"needed")
    sweep_blobs(tmp_path / "b", set())
    assert again == needed and blob_path(tmp_path / "b", needed.sha256).exists()
    (tmp_path / "s" / "left").write_bytes(b"x")
    sweep_spool(tmp_path / "s")
    assert (tmp_path / "s" / "left").exists()
    os.utime(tmp_path / "s" / "left", (1, 1))
    sweep_spool(tmp_path / "s")
    assert not (tmp_path / "s" / "left").exists()
