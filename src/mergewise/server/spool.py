"""Bytes that were received: hashed and on the disk in the spool, then in a collection's blobs, by their sha256.

DATA/spool/RANDOM                      what is being received; what a kill left is swept
DATA/collections/NAME/blobs/ab/ab12..  what was received whole
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import IO

from mergewise.concurrency import in_thread
from mergewise.errors import UsageError
from mergewise.files import new_file

_SHA256 = re.compile(r"[0-9a-f]{64}")
UNNEEDED_SECONDS = 3600.0
"""How long a blob that no row names is kept: its upload may not have been accepted yet."""
_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class Blob:
    """Received bytes: their sha256 in hexadecimal, and how many there are."""

    sha256: str
    bytes: int


class _Receiving:
    """A file in the spool that grows, and its sha256."""

    def __init__(self, spool: Path) -> None:
        spool.mkdir(parents=True, exist_ok=True, mode=0o700)
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
        """Give the bytes their name. When this returns, the bytes and the name are on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        blob = Blob(self._hash.hexdigest(), self._file.tell())
        place = blob_path(blobs, blob.sha256)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # the same bytes may exist already: they are replaced, and are young again for the sweep
        self._path.replace(place)
        for folder in (place.parent, blobs):
            _sync_folder(folder)
        return blob


async def receive(spool: Path, blobs: Path, chunks: AsyncIterator[bytes]) -> Blob:
    """Store the chunks. When this returns, the bytes are on the disk under their name in `blobs`.

    If the sender goes away, nothing remains. `SecurityMiddleware` bounds the number of bytes.
    """
    with _Receiving(spool) as receiving:
        waiting = bytearray()
        async for chunk in chunks:
            waiting += chunk
            if len(waiting) >= _AT_ONCE:
                content, waiting = bytes(waiting), bytearray()
                await in_thread(partial(receiving.write, content))
        receiving.write(bytes(waiting))
        return await in_thread(partial(receiving.keep, blobs))


def keep_bytes(spool: Path, blobs: Path, content: bytes) -> Blob:
    """Store bytes at hand in the same way."""
    with _Receiving(spool) as receiving:
        receiving.write(content)
        return receiving.keep(blobs)


def blob_path(blobs: Path, sha256: str) -> Path:
    """Return the place of a blob. Raises UsageError for an invalid sha256."""
    if not _SHA256.fullmatch(sha256):
        raise UsageError("that is no sha256", "64 hexadecimal digits")
    return blobs / sha256[:2] / sha256


def sweep_blobs(blobs: Path, needed: Collection[str]) -> None:
    """Delete the blobs that nobody needs, unless they are young."""
    _drop_old(path for path in blobs.glob("??/*") if path.name not in needed)


def sweep_spool(spool: Path) -> None:
    """Delete the files that kills left behind."""
    _drop_old(spool.glob("*"))


def _drop_old(paths: Iterable[Path]) -> None:
    last = time.time() - UNNEEDED_SECONDS
    for path in paths:
        with suppress(OSError):
            if path.stat().st_mtime <= last:
                path.unlink()


def _sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, if the system can do that."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
