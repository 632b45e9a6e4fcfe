"""Digests of the files of an index, which show damage.

The manifest holds the checksums (CRC-32) of the blocks of each file that answers come from. A change computes those of its new
files as its last step. They are compared:

- by `check`: all files, and on a bucket the objects themselves;
- by a reader that opens a table: its files up to `LARGEST` bytes, or their local copies. The rows of a table are compared when
  they are read, since questions read mapped files instead;
- by a reader of mapped files: each block when it is first read.

Checksums find damage, not forgery: whoever may write to an index decides its content.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from mergewise.errors import CorruptIndex
from mergewise.protocols import IntArray
from mergewise.store.damage import REPAIR_HINT
from mergewise.store.lance_versions import files_of_version, sizes_of_version, version_name
from mergewise.store.manifest import Manifest

if TYPE_CHECKING:
    from mergewise.store.places.place import Place

# Bytes of a block. The first question at 10^5 leaves compares 28 MB, which takes 13 ms; the digests take 20 kB of the manifest.
BLOCK = 1 << 16
# largest file of a table that is compared as a whole when it is opened: 30 ms
LARGEST = 64 << 20


def digest_of(blocks: Iterable[bytes]) -> str:
    """Return the checksums of the blocks of a file, in base 64."""
    return b64encode(np.array([crc32(block) for block in blocks], "<u4").tobytes()).decode()


def file_digest(path: Path) -> str:
    """Return the digest of a file. Raise OSError if it is unreadable."""
    with path.open("rb") as file:
        return digest_of(iter(lambda: file.read(BLOCK), b""))


class CheckedBlocks:
    """The blocks of an open file, each compared with its checksum when it is first read.

    Args:
        content: The bytes of the file.
        digest: Its digest. ValueError if it is invalid, or of a file of another length.
        name: Name of the file for messages.
    """

    def __init__(self, content: memoryview, digest: str, name: str) -> None:
        self._content, self._name = content, name
        self._sums = np.frombuffer(b64decode(digest), "<u4")
        if len(self._sums) != -(-len(content) // BLOCK):
            raise ValueError("its length has changed")
        self._waits = np.ones(len(self._sums), bool)

    def compare(self, first: IntArray, end: IntArray) -> None:
        """Compare the blocks of byte ranges. Raise CorruptIndex if one is damaged."""
        if not self._waits.any():
            return
        is_read = end > first
        blocks, last = first[is_read] // BLOCK, (end[is_read] - 1) // BLOCK
        longest = int((last - blocks).max(initial=0))
        touched = np.zeros(len(self._waits), bool)
        for step in range(longest + 1):
            touched[np.minimum(blocks + step, last)] = True
        self.compare_blocks(np.flatnonzero(touched & self._waits))

    def compare_blocks(self, blocks: IntArray) -> None:
        """Compare blocks by their numbers. Raise CorruptIndex if one is damaged."""
        for at in blocks.tolist():
            if crc32(self._content[at * BLOCK : (at + 1) * BLOCK]) != self._sums[at]:
                raise CorruptIndex(f"damaged file: {self._name}", REPAIR_HINT)
        self._waits[blocks] = False

    def compare_all_but(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Compare all blocks that are not wholly inside one of the byte ranges."""
        now = np.ones(len(self._sums), bool)
        for first, end in ranges:
            now[-(-first // BLOCK) : end // BLOCK] = False
        self.compare_blocks(np.flatnonzero(now))


def listed_files(place: Place, name: str, content: bytes) -> Iterator[str]:
    """Yield the files that the manifest of a table's version lists. `name` may begin with the folder of a shard."""
    sizes = sizes_of_version(content)
    for file in files_of_version(content) if sizes is None else sizes:
        # an older LanceDB lists the folders of search indexes alone
        if sizes is None and file.startswith("_indices/"):
            yield from place.files(f"{name}.lance/{file}")
        # only later versions read what this version changed
        elif not file.startswith("_transactions/"):
            yield f"{name}.lance/{file}"


def digests_of(place: Place, manifest: Manifest, before: Mapping[str, int], mapped: Iterable[str]) -> dict[str, str]:
    """Return the digests of all files of a state. Files with a digest are not read again.

    Args:
        place: Place of the files.
        manifest: The state, with the digests of the state before.
        before: The versions of tables in the state before.
        mapped: The mapped files.
    """
    digests: dict[str, str] = {}
    files = [*mapped]
    for name, version in manifest.tables.items():
        known = {file: sums for file, sums in manifest.digests.items() if file.startswith(f"{name}.lance/")}
        if known and before.get(name) == version:
            digests |= known
        else:
            named = f"{name}.lance/{version_name(version)}"
            content = place.read(named)
            digests[named] = digest_of(content[at : at + BLOCK] for at in range(0, len(content), BLOCK))
            files += listed_files(place, name, content)
    return digests | {file: manifest.digests.get(file) or place.digest(file) for file in files}
