"""Only files that no state needs are deleted: compared with LanceDB's own clean-up, and with damaged files."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import examples
from tests.support import lance_connection, new_store, rows_of

import mergewise as mw
from mergewise.errors import CorruptIndex, StoreError
from mergewise.store import sweep as sweeping
from mergewise.store.lance import LanceStore
from mergewise.store.lance_versions import UNREADABLE, files_of_version, version_name
from mergewise.store.sweep import bytes_within, sweep
from mergewise.types import Document


def document(number: int, version: int = 0) -> Document:
    return Document(f"d{number}", " ".join(f"Owl {number} ate {i} mice in {version}." for i in range(40)))


@pytest.fixture
def store(tmp_path: Path) -> LanceStore:
    """A store with deleted and replaced rows, rebuilt search indexes, and versions of all of these."""
    store = new_store("lance", tmp_path)
    assert isinstance(store, LanceStore)
    store.write(rows_of([document(i) for i in range(6)]))
    store.remove(["d1"])
    store.write(rows_of([document(i, 1) for i in range(3, 9)]))
    store.optimize()
    store.repair()
    store.remove(["d2"])
    return store


def files(directory: Path) -> dict[str, int]:
    return {str(path.relative_to(directory)): path.stat().st_size for path in directory.rglob("*") if path.is_file()}


def test_unneeded_files_are_deleted_and_the_index_stays(store: LanceStore) -> None:
    before = store.reader().document_rows([f"d{i}" for i in range(9)])
    held = bytes_within(store.directory)
    left = sweep(store.directory, store.manifest, all_of_it=True)
    assert left < held / 2
    # the rest are the lock, the manifest and LanceDB's hints of the latest versions
    assert left <= bytes_within(store.directory) < left + 6000
    fresh = LanceStore(store.directory, store.registry)
    assert fresh.reader().document_rows([f"d{i}" for i in range(9)]) == before
    assert fresh.check() == [] and fresh.remove(["d3"]) == 1 and fresh.check() == []


def test_lancedb_itself_would_drop_the_same(store: LanceStore, tmp_path: Path) -> None:
    store.repair()
    shutil.copytree(store.directory, tmp_path / "copy")
    sweep(store.directory, store.manifest, all_of_it=True)

    async def clean_up() -> None:
        import lancedb

        database = await lancedb.connect_async(tmp_path / "copy")
        for name in store.manifest.tables:
            table = await database.open_table(name)
            version = await table.version()
            with pytest.warns(UserWarning, match="removes every version"):
                await table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)
            assert await table.version() == version, "already compacted, so that only the clean-up has an effect"

    asyncio.run(clean_up())
    for name in store.manifest.tables:
        ours, theirs = files(store.directory / f"{name}.lance"), files(tmp_path / "copy" / f"{name}.lance")
        assert ours == theirs


def test_files_of_killed_writers_are_deleted_at_once(store: LanceStore) -> None:
    sweep(store.directory, store.manifest, all_of_it=True)
    before = files(store.directory)
    tables = store.directory / "leaf.lance"
    for name in "data/x.lance data/y.lance#1 _versions/18446744073709551000.manifest#7 _transactions/1-a.txn".split():
        (tables / name).write_bytes(bytes(1000))
    (tables / "_indices/nobody").mkdir()
    (tables / "_indices/nobody/part.lance").write_bytes(bytes(1000))
    (store.directory / "begun.lance/data").mkdir(parents=True)
    (store.directory / "begun.lance/data/x.lance").write_bytes(bytes(1000))
    (store.directory / ".manifest.json.123").write_bytes(b"{")
    sweep(store.directory, store.manifest)
    assert files(store.directory) == before


def test_an_unnamed_version_is_deleted_and_the_next_writer_continues(store: LanceStore) -> None:
    table = lance_connection(store.directory).open_table("leaf")
    table.delete("id > 3")
    sweep(store.directory, store.manifest, all_of_it=True)
    again = LanceStore(store.directory, store.registry)
    assert again.check() == []
    assert again.write(rows_of([document(20)])).added == 1
    assert again.check() == [] and len(again.reader().documents()) == 8


def test_versions_that_readers_may_need_stay_newest_first(store: LanceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "LEAST", 0)
    for version in range(12):
        store.write(rows_of([document(i, version) for i in range(3, 9)]))
    held = store.reader()
    expected = held.document_rows(["d5"])
    store.write(rows_of([document(5, 99)]))
    live, _ = sweeping._contents(store.directory, store.manifest)
    assert sweep(store.directory, store.manifest) <= 2 * live
    assert held.document_rows(["d5"]) == expected, "the state before fits"
    monkeypatch.setattr(sweeping, "KEPT", 0.0)
    assert sweep(store.directory, store.manifest) == live


def test_a_deleted_state_is_reported_and_is_not_damage(store: LanceStore) -> None:
    held = store.reader()
    store.write(rows_of([document(5, 99)]))
    store.repair()
    sweep(store.directory, store.manifest, all_of_it=True)
    with pytest.raises(StoreError, match="has changed") as caught:
        held.document_rows(["d5"])
    assert "again" in caught.value.hint and not isinstance(caught.value, CorruptIndex)
    assert store.reader().document_rows(["d5"])


def test_a_clock_that_was_set_back_deletes_nothing_needed(store: LanceStore) -> None:
    for path in store.directory.rglob("*"):
        os.utime(path, (5e9, 5e9))
    live, leftovers = sweeping._contents(store.directory, store.manifest)
    assert leftovers and sweep(store.directory, store.manifest) <= live + max(live, sweeping.LEAST)
    store.write(rows_of([document(30)]))
    assert store.check() == []


@pytest.mark.parametrize("damage", ["gone", "short", "nonsense", "renamed"])
def test_a_damaged_table_loses_no_further_files(damage: str, store: LanceStore) -> None:
    folder = store.directory / "leaf.lance"
    named = folder / version_name(store.manifest.tables["leaf"])
    content = named.read_bytes()
    if damage == "gone":
        named.unlink()
    elif damage == "renamed":
        file = next(file for file in files_of_version(content) if file.startswith("data/"))
        (folder / file).rename(folder / "data/another.lance")
    else:
        named.write_bytes(content[:-40] + content[-16:] if damage == "short" else bytes(len(content)))
    before = files(folder)
    sweep(store.directory, store.manifest, all_of_it=True)
    assert files(folder) == before


def test_links_are_not_followed(store: LanceStore, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/kept.arrow").write_bytes(b"kept")
    (store.directory / "mapped/link").symlink_to(tmp_path / "outside")
    (store.directory / "link.lance").symlink_to(tmp_path / "outside")
    (store.directory / "leaf.lance/_indices/link").symlink_to(tmp_path / "outside")
    sweep(store.directory, store.manifest, all_of_it=True)
    assert (tmp_path / "outside/kept.arrow").read_bytes() == b"kept"


@given(st.binary(max_size=80), st.integers(0, 300), st.binary(min_size=1, max_size=4))
@settings(max_examples=examples(100))
def test_manifests_of_any_bytes_are_read_or_refused(nonsense: bytes, at: int, put: bytes) -> None:
    whole = b"\x0a\x00\x00\x00" + b"\x12\x06\x12\x04\x0a\x02ab" + b"\x60\x01" + bytes(8) + bytes(4) + b"LANC"
    for content in (nonsense, nonsense + whole, whole[:at] + put + whole[at + len(put) :]):
        with suppress(*UNREADABLE):
            list(files_of_version(content))


@pytest.mark.parametrize("shards", [None, 2])
def test_old_versions_stay_only_for_their_readers(tmp_path: Path, shards: int | None) -> None:
    """A reader in another process holds the folder as this one does: with a lock of its own."""
    index = mw.open(tmp_path / "index", embedder="none", shards=shards)
    index.add([document(number) for number in range(8)])
    other = mw.open(tmp_path / "index")
    held = other.store.reader()
    expected = held.document_rows(["d2"])
    index.add([document(2, 9)])
    index.add([document(3, 9)])
    assert held.document_rows(["d2"]) == expected
    del held, other
    index.add([document(4, 9)])
    parts = index.manifest.parts.items()
    folders = [(tmp_path / "index" / name, part) for name, part in parts]
    # a searcher of a cluster may open an earlier state of shards later
    assert any(sweeping._contents(folder, part)[1] for folder, part in folders) == (shards is not None)
    assert index.check() == []


def test_a_disk_without_locks_keeps_old_versions_for_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    # only the locks of readers
    monkeypatch.setattr(sweeping, "fcntl", SimpleNamespace(flock=refuse, LOCK_SH=1, LOCK_EX=2, LOCK_NB=4, LOCK_UN=8))
    with mw.open(tmp_path / "i", embedder="none") as index:
        index.add(mw.Document("a", "Owls hunt at night."))
        index.add(mw.Document("b", "Owls eat mice."))
        assert sweeping.is_read(tmp_path / "i", index.manifest)
        assert "mice" in index.context("What do owls eat?", budget=60).text
