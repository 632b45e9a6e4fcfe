"""Safe file access in folders where somebody else may have put files."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from mergewise.errors import UsageError
from mergewise.files import PinnedDirectory, find_untrusted_entry, load_toml, new_file, regular_bytes, write_whole


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"four")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to pipe").symlink_to("pipe")
    assert regular_bytes(tmp_path / "file", 4) == regular_bytes(tmp_path / "link", 4, follow=True) == b"four"
    for name, most, follow, reason in [
        ("file", 3, False, "larger than 3 bytes"),
        ("link", 4, False, "a link, not a file"),
        ("pipe", 4, False, "not a regular file"),
        ("to pipe", 4, True, "not a regular file"),
        ("nothing", 4, False, "No such file"),
        (".", 4, False, "not a regular file"),
    ]:
        with pytest.raises(OSError, match=reason):
            regular_bytes(tmp_path / name, most, follow=follow)


def test_memory_for_reading_depends_on_the_file_and_not_on_the_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"four")
    tracemalloc.start()
    try:
        assert regular_bytes(tmp_path / "file", 1 << 30) == b"four"
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_bytes_added_since_a_file_was_opened_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(range(250)) * 10_000
    (tmp_path / "file").write_bytes(content)
    status = os.stat_result([(tmp_path / "file").stat().st_mode, *[0] * 9])
    monkeypatch.setattr(os, "fstat", lambda handle: status)
    assert regular_bytes(tmp_path / "file", len(content)) == content
    with pytest.raises(OSError, match="larger than 2,499,999 bytes"):
        regular_bytes(tmp_path / "file", len(content) - 1)


def test_write_whole_replaces_links_instead_of_following(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "file").symlink_to("precious")
    write_whole(tmp_path / "file", b"new", 0o600)
    assert (tmp_path / "precious").read_text() == "mine" and (tmp_path / "file").read_bytes() == b"new"
    assert not (tmp_path / "file").is_symlink() and (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_whole(tmp_path / "folder", b"new")
    assert {path.name for path in tmp_path.iterdir()} == {"precious", "file", "folder"}, "no temporary file is left"


def test_new_files_are_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handle, path = new_file(tmp_path, "a-", ".b")
    os.close(handle)
    assert path.name.startswith("a-") and path.suffix == ".b"
    monkeypatch.setattr("secrets.token_hex", lambda size: path.stem.removeprefix("a-"))
    with pytest.raises(FileExistsError):
        new_file(tmp_path, "a-", ".b")


def test_first_untrusted_entry_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "a/b/c").mkdir(parents=True)
    (folder / "a/file").touch()
    (tmp_path / "to folder").symlink_to("folder")
    assert find_untrusted_entry(folder) is find_untrusted_entry(tmp_path / "to folder") is None
    assert find_untrusted_entry(tmp_path / "nothing") is None
    (folder / "a/b/c/link").symlink_to("nowhere")
    assert find_untrusted_entry(folder) == folder / "a/b/c/link"


def test_pinned_directory_detects_replacement(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    held = PinnedDirectory(tmp_path / "a")
    assert held.is_in_place()
    (tmp_path / "a").rmdir()
    assert not held.is_in_place()
    for _ in range(20):
        # inode numbers of deleted folders are reused
        (tmp_path / "a").mkdir()
        assert not held.is_in_place()
        (tmp_path / "a").rmdir()


@pytest.mark.parametrize(("content", "reason"), [(b"a = ", "Invalid value"), (b"a = '\xff'", "can't decode byte 0xff")])
def test_invalid_toml_is_reported(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "a.toml").write_bytes(content)
    with pytest.raises(UsageError, match=reason):
        load_toml(tmp_path / "a.toml")
