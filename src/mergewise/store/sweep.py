"""What no state of an index needs any more, and how much of it stays for readers in the middle of a question.

A change leaves the old versions of LanceDB's tables behind; a killed writer leaves files that no version names. LanceDB's own
clean-up comes only with compaction, which needs room on the disk and moves rows. So files are told here by the versions that
name them.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import time

from mergewise.store.lance_versions import UNREADABLE, files_of_version, version_bytes, version_of
from mergewise.store.manifest import NAME, Manifest
from mergewise.store.mapped import FOLDER, files_of

log = logging.getLogger("mergewise")

# seconds that old versions stay for readers
KEPT = 600.0
# Old versions hold no more than the index itself, so that the state before this one has room; but so many bytes they may hold.
LEAST = 32_000_000
_HINT = "latest_version_hint.json"


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file, or the folder of a search index, that the state of the index does not need; and until when one did.

    The time is 0 where no version names it.
    """

    path: Path
    bytes: int
    needed_until: float


def sweep(directory: Path, manifest: Manifest, *, all_of_it: bool = False) -> int:
    """Delete what is left over, and give the bytes that stay. To be called under the writer's lock, with no change begun.

    What was needed within the last ten minutes stays as far as it is no more than the index or `LEAST`, the newest first, unless
    `all_of_it` is to go. A time in the future, where the clock was set back, counts as recent.
    """
    live, leftovers = _contents(directory, manifest)
    room, earliest = (0, float("inf")) if all_of_it else (max(live, LEAST), time() - KEPT)
    dropped = kept = 0
    for leftover in sorted(leftovers, key=lambda leftover: -leftover.needed_until):
        if leftover.needed_until < earliest or kept + leftover.bytes > room:
            # what is older than something that goes would be of no use
            earliest = float("inf")
            dropped += _delete(leftover)
        else:
            kept += leftover.bytes
    log.debug("swept %s: %d bytes stand, %d are old, %d went", directory, live, kept, dropped)
    return live + kept


def bytes_within(directory: Path) -> int:
    """Return the sizes of all files below a directory. Links are not followed."""
    return sum(size for _, size in _files(directory))


def _contents(directory: Path, manifest: Manifest) -> tuple[int, list[Leftover]]:
    """The bytes of all that the index holds, and what is left over."""
    live, leftovers = 0, []
    for folder in directory.glob("*.lance"):
        if folder.is_symlink():
            continue
        version = manifest.tables.get(folder.stem)
        if version is None:
            leftovers.append(_leftover(folder, 0))
            continue
        held, old = _table_contents(folder, version)
        live += held
        leftovers += old
    named = files_of(manifest.mapped)
    for path, size in _files(directory / FOLDER):
        if path.name in named:
            live += size
        else:
            leftovers.append(Leftover(path, size, path.lstat().st_mtime))
    leftovers += [_leftover(path, 0) for path in directory.glob(f".{NAME}.*")]
    return live, leftovers


def _table_contents(folder: Path, named: int) -> tuple[int, list[Leftover]]:
    """The same of one table. Where its version cannot be read, nothing of it is left over."""
    needed_until = _needed_until(folder, named)
    if needed_until is None:
        return bytes_within(folder), []
    live, leftovers = 0, []
    for part in ("data", "_deletions", "_indices", "_transactions", "_versions"):
        for path in _entries(folder / part):
            key = f"{part}/{path.name}"
            until = needed_until.get(key, 0.0)
            if until == float("inf") or path.name == _HINT:
                live += _leftover(path, until).bytes
            else:
                leftovers.append(_leftover(path, until))
    return live, leftovers


def _needed_until(folder: Path, named: int) -> dict[str, float] | None:
    """Until when each file was part of a version: infinity for those of the one that is named.

    None where a file is gone that the named version has, or its manifest cannot be read: a table that is damaged is left
    as it is.
    """
    manifests = _manifests(folder)
    if named not in manifests:
        return None
    until: dict[str, float] = {}
    superseded = float("inf")
    for version in sorted((version for version in manifests if version <= named), reverse=True):
        path = manifests[version]
        try:
            files = list(files_of_version(version_bytes(path)))
        except UNREADABLE as error:
            log.debug("%s cannot be read: %s", path, error)
            if version == named:
                return None
            files = []
        if version == named and any(not (folder / file).exists() for file in files if not file.startswith("_trans")):
            return None
        for file in [f"_versions/{path.name}", *files]:
            until.setdefault(file, superseded)
        superseded = path.lstat().st_mtime
    return until


def _manifests(folder: Path) -> dict[int, Path]:
    versions = ((version_of(path), path) for path in _entries(folder / "_versions"))
    return {version: path for version, path in versions if version is not None}


def _delete(leftover: Leftover) -> int:
    """The bytes that are free now."""
    path = leftover.path
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
            if path.parent.name == "_versions":
                _forget_hint(path)
    except OSError as error:
        log.debug("%s cannot be removed now: %s", path, error)
        return 0
    return leftover.bytes


def _forget_hint(manifest: Path) -> None:
    """LanceDB's note of the latest version goes with that version."""
    hint = manifest.with_name(_HINT)
    with suppress(OSError, ValueError, TypeError, KeyError):
        if json.loads(hint.read_bytes())["version"] == version_of(manifest):
            hint.unlink()


def _leftover(path: Path, needed_until: float) -> Leftover:
    if path.is_dir() and not path.is_symlink():
        return Leftover(path, bytes_within(path), needed_until)
    return Leftover(path, path.lstat().st_size, needed_until)


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []


def _files(directory: Path) -> Iterator[tuple[Path, int]]:
    """List all files below a directory, with their bytes."""
    if directory.is_symlink():
        return
    for folder, _, names in os.walk(directory):
        for path in (Path(folder, name) for name in names):
            with suppress(OSError):
                yield path, path.lstat().st_size
