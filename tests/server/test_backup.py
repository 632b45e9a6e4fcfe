"""Backup and restore of a server's data."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import mergewise as mw
from mergewise.errors import CorruptIndex, IndexBusy, UsageError
from mergewise.server.backup import read_backup, write_backup
from mergewise.server.configuration import CollectionConfig, ServerConfig
from mergewise.server.jobs.runner import JobRunner
from mergewise.server.locks import lock_file, waiting_lock
from mergewise.server.processes import prepare
from mergewise.server.records import Upload
from mergewise.server.spool import keep_bytes
from mergewise.server.state import State


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A server with an indexed document in its own collection, and a collection with an external index."""
    data = tmp_path / "data"
    collections = {"a": CollectionConfig(embedder="none"), "b": CollectionConfig(tmp_path / "b.index", embedder="none")}
    config = ServerConfig(data, collections=collections)
    with State.of(config) as state:
        prepare(config, state)
        blob = keep_bytes(config.spool, Path(state.collections.get("a").blobs), b"Cats purr at night.")  # type: ignore[union-attr]
        state.jobs.enqueue("replace", "a", uploads=[Upload("cats", blob.sha256, "cats.md", blob.bytes)])
        with state.database.change() as rows:
            rows.execute("UPDATE jobs SET created = created - 1")
        writer = JobRunner(config, state)
        writer.run_round()
        state.jobs.enqueue("check", "a")
        writer.close()
    (data / "serve.toml").write_text("[server]\nport = 9000\n")
    return data


def test_a_restored_server_equals_the_original(data: Path, tmp_path: Path) -> None:
    file, new = tmp_path / "backup.tar", tmp_path / "sub" / "new"
    assert write_backup(data, file) == ["b"]
    assert file.stat().st_mode & 0o077 == 0
    read_backup(new, file)
    assert (new / "serve.toml").read_text() == "[server]\nport = 9000\n"
    assert not (new / "token").exists() and new.stat().st_mode & 0o077 == 0
    with State(data / "server.sqlite") as old, State(new / "server.sqlite") as state:
        assert state.tokens.all() == old.tokens.all() and state.jobs.find() == old.jobs.find()
        assert state.documents.find("a") == old.documents.find("a")
        record = state.collections.get("a")
        assert record is not None and record.path == str(new / "collections/a/index")
        (blob,) = state.documents.blobs_needed("a")
        assert (Path(record.blobs) / blob[:2] / blob).read_bytes() == b"Cats purr at night."
    with mw.open(record.path, create=False) as index:
        assert index.check() == [] and index.document("cats").text == "Cats purr at night."


def test_a_backup_waits_for_the_running_job(data: Path, tmp_path: Path) -> None:
    with waiting_lock(lock_file(data, "changes"), 1), pytest.raises(IndexBusy):
        write_backup(data, tmp_path / "backup.tar", lock_wait=0.05)
    assert not (tmp_path / "backup.tar").exists()
    assert not list(tmp_path.glob(".backup*"))


def test_backup_needs_a_server_and_restore_an_empty_directory(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a server's data"):
        write_backup(tmp_path, tmp_path / "backup.tar")
    write_backup(data, tmp_path / "backup.tar")
    with pytest.raises(UsageError, match="not empty"):
        read_backup(data, tmp_path / "backup.tar")


def rewrite(file: Path, change: Callable[[tarfile.TarInfo, bytes], list[tuple[tarfile.TarInfo, bytes]]]) -> None:
    with tarfile.open(file) as archive:
        members = [(member, archive.extractfile(member).read()) for member in archive]  # type: ignore[union-attr]
    with tarfile.open(file, "w") as archive:
        for member, content in (pair for one in members for pair in change(*one)):
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def tar_member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


@pytest.mark.parametrize(
    "change",
    [
        lambda m, c: [] if m.name == "checksums.json" else [(m, c)],
        lambda m, c: [] if m.name == "server.sqlite" else [(m, c)],
        lambda m, c: [(m, c[:-1] + b"?" if m.name == "server.sqlite" else c)],
        lambda m, c: [(m, c), *([(tar_member("collections/a/more"), b"x")] if m.name == "server.sqlite" else [])],
        lambda m, c: [(tar_member("../../escaped"), b"x"), (m, c)],
        lambda m, c: [(tar_member("/tmp/escaped"), b"x"), (m, c)],
        lambda m, c: [(tar_member("collections/a/link", tarfile.SYMTYPE, "/etc/passwd"), b""), (m, c)],
        lambda m, c: [(tar_member("token"), b"x"), (m, c)],
        lambda m, c: [(m, c), (m, c)],
    ],
    ids="cut lacking changed more above absolute link token twice".split(),
)
def test_an_invalid_backup_restores_nothing(data: Path, tmp_path: Path, change: object) -> None:
    file = tmp_path / "backup.tar"
    write_backup(data, file)
    rewrite(file, change)  # type: ignore[arg-type]
    before = {path for path in tmp_path.rglob("*") if "data" not in path.parts}
    with pytest.raises(CorruptIndex):
        read_backup(tmp_path / "new", file)
    assert {path for path in tmp_path.rglob("*") if "data" not in path.parts} == before
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(CorruptIndex):
        read_backup(tmp_path / "new", file)
