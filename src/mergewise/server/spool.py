"""Bytes that were received: hashed and on the disk in the spool, then in a collection's blobs, by their sha256.

DATA/spool/RANDOM                      what is being received; what a kill left is swept
DATA/collections/NAME/blobs/ab/ab12..  what was received whole
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator, Collection
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


class TooLarge(UsageError):
    """More bytes came than may come."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Received bytes: their sha256 in hexadecimal, and how many there are."""

    sha256: str
    bytes: int


class _Receiving:
    """A file in the spool that grows, and its sha256."""

    def __init__(self, spool: Path, limit: int) -> None:
        spool.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, self.path = new_file(spool, "", mode=0o600)
        self._file: IO[bytes] = os.fdopen(handle, "wb")
        self._hash = sha256()
        self._limit = limit
        self.bytes = 0

    def count(self, chunk: bytes) -> None:
        """Raises TooLarge beyond the limit, before anything is written."""
        self.bytes += len(chunk)
        if self.bytes > self._limit:
            raise TooLarge(f"more than {self._limit:,} bytes came", "send less at once, or raise limits.body_bytes")

    def write(self, content: bytes) -> None:
        self._hash.update(content)
        self._file.write(content)

    def keep(self, blobs: Path) -> Blob:
        """Give the bytes their name. They, and the name, are on the disk then."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        blob = Blob(self._hash.hexdigest(), self.bytes)
        place = blob_path(blobs, blob.sha256)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # the same bytes may stand there already: they take the place of themselves, and are young again for the sweep
        self.path.replace(place)
        for folder in (place.parent, blobs):
            _sync_folder(folder)
        return blob

    def discard(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


async def receive(spool: Path, blobs: Path, chunks: AsyncIterator[bytes], limit: int) -> Blob:
    """Keep what comes: when this returns, the bytes are on the disk under their name in `blobs`.

    Raises TooLarge beyond `limit` bytes; nothing is left then, nor where the sender goes away.
    """
    receiving = _Receiving(spool, limit)
    try:
        waiting = bytearray()
        async for chunk in chunks:
            receiving.count(chunk)
            waiting += chunk
            if len(waiting) >= _AT_ONCE:
                content, waiting = bytes(waiting), bytearray()
                await in_thread(partial(receiving.write, content))
        receiving.write(bytes(waiting))
        return await in_thread(partial(receiving.keep, blobs))
    except BaseException:
        receiving.discard()
        raise


def keep_bytes(spool: Path, blobs: Path, content: bytes) -> Blob:
    """The same for bytes at hand."""
    receiving = _Receiving(spool, len(content))
    try:
        receiving.count(content)
        receiving.write(content)
        return receiving.keep(blobs)
    except BaseException:
        receiving.discard()
        raise


def blob_path(blobs: Path, sha256: str) -> Path:
    """Where a blob stands. Raises UsageError for what is no sha256."""
    if not _SHA256.fullmatch(sha256):
        raise UsageError("that is no sha256", "64 hexadecimal digits")
    return blobs / sha256[:2] / sha256


def sweep_blobs(blobs: Path, needed: Collection[str], older_than: float = UNNEEDED_SECONDS) -> int:
    """Drop the blobs that nobody needs and that have stood so many seconds; how many."""
    last, dropped = time.time() - older_than, 0
    for path in blobs.glob("??/*"):
        if path.name not in needed:
            with suppress(FileNotFoundError):
                if path.stat().st_mtime <= last:
                    path.unlink()
                    dropped += 1
    return dropped


def sweep_spool(spool: Path, older_than: float = UNNEEDED_SECONDS) -> None:
    """Drop what kills left."""
    last = time.time() - older_than
    for path in spool.glob("*"):
        with suppress(OSError):
            if path.stat().st_mtime <= last:
                path.unlink()


def _sync_folder(folder: Path) -> None:
    """The names in a folder are on the disk too, where the system can do that."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
