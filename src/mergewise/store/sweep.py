"""Deletion of files that no state of an index needs, except recent ones that a reader may still use.

A change leaves old versions of LanceDB's tables behind, and a killed writer leaves files that no version names. LanceDB cleans up
only during compaction, which needs disk space and moves rows. So this module finds unneeded files by the versions that name them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import time
from typing import NamedTuple
from weakref import WeakSet, finalize

from mergewise.log import log
from mergewise.store.lance_versions import UNREADABLE, files_of_version, version_bytes, version_of
from mergewise.store.manifest import NAME, SHARDS_NAME, Manifest, ShardedManifest
from mergewise.store.mapped import FOLDER, files_of

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

# seconds for which old versions stay for readers
KEPT = 600.0
# seconds for which the shards of the generation before stay
GENERATION_KEPT = 3600.0
# Old versions may use as many bytes as the index itself, enough for the state before, and at least this many.
LEAST = 32_000_000
_HINT = "latest_version_hint.json"


class Hold:
    """A reader's use of one state of an index in a folder, until the object is gone. Other processes see it as a shared lock."""

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.directory, self.manifest = directory, manifest
        if fcntl is not None:
            self.handle = os.open(directory, os.O_RDONLY)
            finalize(self, os.close, self.handle)
            # a network disk may have no locks: then the writer gets none either, and keeps old versions
            with suppress(OSError):
                fcntl.flock(self.handle, fcntl.LOCK_SH)
            _HOLDS.add(self)


_HOLDS: WeakSet[Hold] = WeakSet()
"""The states that this process uses."""


def is_read(directory: Path, manifest: Manifest) -> bool:
    """Return whether a reader may use an earlier state than this one. A system without such locks cannot tell."""
    own = [hold for hold in list(_HOLDS) if hold.directory == directory]
    if fcntl is None or any(hold.manifest != manifest for hold in own):
        return True
    alone = Hold(directory, manifest)
    try:
        for hold in own:
            fcntl.flock(hold.handle, fcntl.LOCK_UN)
        fcntl.flock(alone.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        for hold in (alone, *own):
            with suppress(OSError):
                fcntl.flock(hold.handle, fcntl.LOCK_SH)


class Leftover(NamedTuple):
    """A file, or a search index's folder, that the current state does not need.

    `needed_until` is the time at which the last state that needed it was replaced, or 0 if no version names it.
    """

    path: Path
    bytes: int
    needed_until: float


def sweep(directory: Path, manifest: Manifest, *, all_of_it: bool = False) -> int:
    """Delete unneeded files, and return the bytes that stay. The caller holds the writer's lock, and no change is in progress.

    Files that were needed within the last ten minutes stay, newest first, up to the size of the index or `LEAST` bytes. With
    `all_of_it` none stay. A time in the future, after the clock was set back, counts as recent.
    """
    live, leftovers = _contents(directory, manifest)
    room, earliest = (0, float("inf")) if all_of_it else (max(live, LEAST), time() - KEPT)
    dropped = retained = 0
    for leftover in sorted(leftovers, key=lambda leftover: -leftover.needed_until):
        if leftover.needed_until < earliest or retained + leftover.bytes > room:
            # a deleted file makes all older files useless
            earliest = float("inf")
            dropped += _delete(leftover)
        else:
            retained += leftover.bytes
    log.debug("swept %s: %d bytes in use, %d old, %d deleted", directory, live, retained, dropped)
    return live + retained


def drop_generations(directory: Path, manifest: ShardedManifest, *, all_of_it: bool) -> None:
    """Delete the shards of earlier generations, an hour after the current one replaced them. The next one may be in progress."""
    own = directory / manifest.folders[0]
    # a kill may have left the state of the time before it was current
    (own / SHARDS_NAME).unlink(missing_ok=True)
    if all_of_it or time() - own.stat().st_mtime > GENERATION_KEPT:
        for path in (*directory.glob("shard-*"), *directory.glob("generation-*")):
            if path.name not in manifest.folders:
                shutil.rmtree(path, ignore_errors=True)


def bytes_within(directory: Path) -> int:
    """Return the sizes of all files below a directory. Links are not followed."""
    return sum(size for _, size in _files(directory))


def _contents(directory: Path, manifest: Manifest) -> tuple[int, list[Leftover]]:
    """Return the bytes that the index uses, and the unneeded files."""
    live, leftovers = 0, []
    for folder in directory.glob("*.lance"):
        if folder.is_symlink():
            continue
        version = manifest.tables.get(folder.stem)
        if version is None:
            leftovers.append(_leftover(folder, 0))
            continue
        needed_until = _needed_until(folder, version)
        if needed_until is None:
            # its version is unreadable: nothing is deleted
            live += bytes_within(folder)
            continue
        for part in ("data", "_deletions", "_indices", "_transactions", "_versions"):
            for path in _entries(folder / part):
                until = needed_until.get(f"{part}/{path.name}", 0.0)
                leftover = _leftover(path, until)
                if until == float("inf") or path.name == _HINT:
                    live += leftover.bytes
                else:
                    leftovers.append(leftover)
    named = files_of(manifest.mapped)
    for path, size in ((Path(file), size) for file, size in _files(directory / FOLDER)):
        if path.name in named:
            live += size
        else:
            leftovers.append(Leftover(path, size, path.lstat().st_mtime))
    leftovers += [_leftover(path, 0) for path in directory.glob(f".{NAME}.*")]
    return live, leftovers


def _needed_until(folder: Path, named: int) -> dict[str, float] | None:
    """Map each file to the time until which a version needed it: infinity for files of the `named` version.

    Returns None for a damaged table, which must be left as it is: the manifest of the named version is unreadable, or one of
    its files is missing.
    """
    versions = ((version_of(path), path) for path in _entries(folder / "_versions"))
    manifests = {version: path for version, path in versions if version is not None}
    if named not in manifests:
        return None
    until: dict[str, float] = {}
    superseded = float("inf")
    for version in sorted((version for version in manifests if version <= named), reverse=True):
        path = manifests[version]
        try:
            files = list(files_of_version(version_bytes(path)))
        except UNREADABLE as error:
            log.debug("cannot read %s: %s", path, error)
            if version == named:
                return None
            files = []
        if version == named and any(not (folder / file).exists() for file in files if not file.startswith("_trans")):
            return None
        for file in [f"_versions/{path.name}", *files]:
            until.setdefault(file, superseded)
        superseded = path.lstat().st_mtime
    return until


def _delete(leftover: Leftover) -> int:
    """Delete a file or folder. Return the freed bytes."""
    path = leftover.path
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
            # LanceDB's hint of the latest version may name the deleted one
            hint = path.with_name(_HINT)
            with suppress(OSError, ValueError, TypeError, KeyError):
                if path.parent.name == "_versions" and json.loads(hint.read_bytes())["version"] == version_of(path):
                    hint.unlink()
    except OSError as error:
        log.debug("cannot remove %s now: %s", path, error)
        return 0
    return leftover.bytes


def _leftover(path: Path, needed_until: float) -> Leftover:
    if path.is_dir() and not path.is_symlink():
        return Leftover(path, bytes_within(path), needed_until)
    return Leftover(path, path.lstat().st_size, needed_until)


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []


def _files(directory: Path) -> Iterator[tuple[str, int]]:
    """Yield all files below a directory with their sizes in bytes."""
    if directory.is_symlink():
        return
    for folder, _, names in os.walk(directory):
        # texts, because a path object costs more than the call of the system
        for path in (f"{folder}/{name}" for name in names):
            with suppress(OSError):
                yield path, os.lstat(path).st_size
