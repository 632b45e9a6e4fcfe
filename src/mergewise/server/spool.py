"""Storage of uploaded bytes: first a file in the spool, then a blob of the collection under its sha256.

DATA/spool/RANDOM                         an upload in progress; files left by a crash are swept
STORAGE/collections/NAME/blobs/ab/ab12..  a complete upload, in a folder or a bucket; STORAGE is DATA for a single server
DATA/cache/blobs/ab/ab12..                a copy of a blob in a bucket, deleted after a day
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
import time
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import IO, NamedTuple

from mergewise.errors import UsageError
from mergewise.extend import in_thread, is_url, new_file, objects_of

UNNEEDED_SECONDS = 3600.0
"""Seconds for which an unreferenced blob is kept: its upload may not have been accepted yet."""
DAY = 86_400.0
"""Seconds for which the bytes of a file of the OpenAI API and copies of blobs are kept."""
_AT_ONCE = 1 << 20


class Blob(NamedTuple):
    """Received bytes: their sha256 in hexadecimal, and their number."""

    sha256: str
    bytes: int


def private_folder(folder: Path) -> None:
    """Create a folder that only the server's user may read, unless it exists."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


class _Receiving:
    """A growing file in the spool, and its sha256."""

    def __init__(self, spool: Path) -> None:
        private_folder(spool)
        handle, self._path = new_file(spool, "", mode=0o600)
        self._file: IO[bytes] = os.fdopen(handle, "wb")
        self._hash = sha256()

    def __enter__(self) -> _Receiving:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)

    def write(self, content: bytes) -> None:
        self._hash.update(content)
        self._file.write(content)

    def keep(self, blobs: Path) -> Blob:
        """Move the file to its name among the blobs. When this returns, bytes and name are on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        blob = Blob(self._hash.hexdigest(), self._file.tell())
        place = blob_path(blobs, blob.sha256)
        if is_url(blobs):
            objects_of(blobs).put(f"{blob.sha256[:2]}/{blob.sha256}", self._path)
            return blob
        private_folder(place.parent)
        # replaces an older blob with the same bytes, so that the sweep sees a young file
        self._path.replace(place)
        for folder in (place.parent, blobs):
            _sync_folder(folder)
        return blob


async def receive(spool: Path, blobs: Path, chunks: AsyncIterator[bytes]) -> Blob:
    """Store the chunks. When this returns, the bytes are on the disk under their name in `blobs`.

    If the client disconnects, nothing remains. `SecurityMiddleware` limits the number of bytes.
    """
    with _Receiving(spool) as receiving:
        waiting = bytearray()
        async for chunk in chunks:
            waiting += chunk
            if len(waiting) >= _AT_ONCE:
                content, waiting = bytes(waiting), bytearray()
                await in_thread(receiving.write, content)
        receiving.write(bytes(waiting))
        return await in_thread(receiving.keep, blobs)


def keep_bytes(spool: Path, blobs: Path, content: bytes) -> Blob:
    """Store bytes that are already in memory, as `receive` does."""
    with _Receiving(spool) as receiving:
        receiving.write(content)
        return receiving.keep(blobs)


def blob_path(blobs: Path, sha256: str) -> Path:
    """Return the path of a blob. Raises UsageError for an invalid sha256."""
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise UsageError("invalid sha256 (expected 64 hexadecimal digits)", "use the sha256 of a blob")
    return blobs / sha256[:2] / sha256


def local_blob(blobs: Path, sha256: str, cache: Path) -> Path:
    """Return the path of a blob, or of a copy in the cache if the blobs are in a bucket. The file may be missing."""
    if not is_url(blobs):
        return blob_path(blobs, sha256)
    copy = blob_path(cache / "blobs", sha256)
    if not copy.exists():
        sweep_blobs(cache / "blobs", (), DAY)
        private_folder(copy.parent)
        temporary = copy.with_name(token_hex(16))
        with suppress(FileNotFoundError):
            objects_of(blobs).download(f"{sha256[:2]}/{sha256}", temporary)
            temporary.replace(copy)
    return copy


def link_blob(source: Path, sha256: str, blobs: Path) -> None:
    """Give a local file a second name among the blobs, where it looks newly received."""
    place = blob_path(blobs, sha256)
    if is_url(blobs):
        objects_of(blobs).put(f"{sha256[:2]}/{sha256}", source)
        return
    private_folder(place.parent)
    with suppress(FileExistsError):
        os.link(source, place)
    # protect the bytes from the next sweep
    os.utime(place)


def drop_folder(folder: Path, name: str) -> None:
    """Delete a folder or a prefix of a bucket with all its files. Can be repeated if the process dies meanwhile."""
    if is_url(folder):
        objects_of(folder).delete([entry.name for entry in objects_of(folder).entries()])
        return
    gone = folder.with_name(f".{folder.name}.{name}")
    if folder.exists():
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def sweep_blobs(blobs: Path, needed: Collection[str], seconds: float = UNNEEDED_SECONDS) -> None:
    """Delete unreferenced blobs that are older than this."""
    if is_url(blobs):
        last, entries = time.time() - seconds, objects_of(blobs).entries()
        old = [one.name for one in entries if one.put_at.timestamp() <= last and Path(one.name).name not in needed]
        objects_of(blobs).delete(old)
        return
    _drop_old((path for path in blobs.glob("??/*") if path.name not in needed), seconds)


def sweep_spool(spool: Path) -> None:
    """Delete files left behind by crashes."""
    _drop_old(spool.glob("*"), UNNEEDED_SECONDS)


def is_disk_full(error: BaseException | None) -> bool:
    """Check if an error, or an error that caused it, reports a full disk or an exhausted quota."""
    while error is not None:
        of_system = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        of_sqlite = isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL
        # LanceDB reports the system's error as text
        if of_system or of_sqlite or "(os error 28)" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _drop_old(paths: Iterable[Path], seconds: float) -> None:
    last = time.time() - seconds
    for path in paths:
        with suppress(OSError):
            if path.stat().st_mtime <= last:
                path.unlink()


def _sync_folder(folder: Path) -> None:
    """Sync the folder's entries to the disk, if the system supports it."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
