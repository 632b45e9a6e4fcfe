"""Bytes that were received: hashed and on the disk in the spool, then in a collection's blobs, by their sha256.

DATA/spool/RANDOM                      what is being received; what a kill left is swept
DATA/collections/NAME/blobs/ab/ab12..  what was received whole
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from mergewise.errors import UsageError


class TooLarge(UsageError):
    """More bytes came than may come."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Received bytes: their sha256 in hexadecimal, and how many there are."""

    sha256: str
    bytes: int


async def receive(spool: Path, blobs: Path, chunks: AsyncIterator[bytes], limit: int) -> Blob:
    """Keep what comes: when this returns, the bytes are on the disk under their name in `blobs`.

    Raises TooLarge beyond `limit` bytes; nothing is left then, nor where the sender goes away.
    """
    raise NotImplementedError


def keep_bytes(spool: Path, blobs: Path, content: bytes) -> Blob:
    """The same for bytes at hand."""
    raise NotImplementedError


def blob_path(blobs: Path, sha256: str) -> Path:
    """Where a blob stands. Raises UsageError for what is no sha256."""
    raise NotImplementedError
