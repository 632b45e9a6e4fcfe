"""The protocol of places, which the store reads and writes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from mergewise.store.manifest import Manifest

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.table import AsyncTable

Tag: TypeAlias = object
"""The identity of one write of the manifest. A swap names the tag that it read."""

Stamp: TypeAlias = tuple[object, ...]
"""The identity of one write of a table's version. A recreated table counts its versions from the beginning."""


class ManifestState(NamedTuple):
    """The current manifest and its tag."""

    manifest: Manifest
    tag: Tag


class PlaceSize(NamedTuple):
    """The total size of a place in bytes, and the time of its last change in seconds since 1970."""

    bytes: int
    changed: float


class WritingRight(Protocol):
    """A held right to write."""

    took_over: bool
    """True if the previous writer lost its lease. It may still be writing, so its tables must be fenced off."""

    def check(self) -> None:
        """Raise IndexBusy once another writer may have taken over."""


class Place(Protocol):
    """The location of an index. Methods raise StoreError if it is unreachable. `str()` returns its path or URL."""

    directory: Path
    """The local folder: the index itself, or the cache of a bucket."""
    refresh: float | None
    """Seconds between background checks for a newer state, or None if `known` reads the state each time."""

    compared: set[tuple[str, str]]
    """Files of tables with their digests, once this process has compared or written them."""
    renewals: int
    """Changes at the start and at the end of each `renew_copies`."""

    # -- the manifest

    def manifest(self) -> ManifestState | None:
        """Read the current manifest. Return None if the place holds no index."""

    def known(self) -> Manifest | None:
        """Return the manifest that queries use."""

    def know(self, state: ManifestState) -> None:
        """Use this state for queries from now on, unless a later state is already in use."""

    def newer(self) -> ManifestState | None:
        """Return the current state if it differs from the known one."""

    def create(self, manifest: Manifest, wait: float) -> None:
        """Create an index, unless another process just did. Raise UsageError if that is impossible."""

    def swap(self, manifest: Manifest, tag: Tag, writer: WritingRight) -> Tag:
        """Replace the manifest atomically. Raise IndexBusy if its tag has changed."""

    def drop_state(self) -> None:
        """Delete the state, so that nobody opens or changes this place any more. The files stay."""

    def check_same(self) -> None:
        """Raise StoreError if another index has replaced the opened one."""

    def check_plain(self) -> None:
        """Raise CorruptIndex if the place holds a kind of file that no index has."""

    def writer(self, wait: float) -> AbstractContextManager[WritingRight]:
        """Hold the right to write. Raise IndexBusy if others still hold it after `wait` seconds."""

    # -- local copies of files

    @property
    def cache_bytes(self) -> int:
        """Largest number of bytes of the local copies, or 0 if files are read where they are."""

    def copied_bytes(self, manifest: Manifest) -> int:
        """Return the bytes of the local copies that queries of a state need."""

    def touch(self) -> None:
        """Tell other processes that queries of this process need its local copies."""

    # -- tables

    async def open_table(self, name: str, version: int) -> AsyncTable:
        """Open a version of a table for reading."""

    def database(self) -> Any:
        """Return a `lancedb.DBConnection` for writing."""

    def create_table(self, name: str, schema: pa.Schema) -> Any:
        """Create an empty table. Remains of an interrupted change are dropped."""

    def drop_table(self, name: str) -> None:
        """Delete a table that no manifest will name, even if its files are damaged."""

    def bypass_caches(self, bypass: bool = True) -> None:
        """Drop the caches in memory. From now on, open tables without local copies, or with them again."""

    def renew_copies(self) -> None:
        """Replace all local copies of files, because some may be damaged."""

    def stamp(self, name: str, version: int) -> Stamp | None:
        """Return the stamp of a version, or None if the version is missing."""

    def is_untouched(self, name: str, version: int, stamp: Stamp, writer: WritingRight) -> bool:
        """Return whether nobody has written to a table since this process opened its last version, with this stamp."""

    def check_own_files(self, name: str, version: int) -> None:
        """Raise CorruptIndex if a version of a table has files outside the place."""

    def local(self, file: str) -> Path | None:
        """Return the path of a table's file, or None if it is read from a bucket without a copy."""

    def digest(self, file: str) -> str:
        """Return the digest of a file. Raise OSError or StoreError if it is unreadable."""

    # -- mapped files

    def fetch(self, file: str, *, again: bool = False) -> Path:
        """Return the local path of a mapped file. `again` replaces a damaged copy. Raise OSError if the file is missing."""

    def publish(self, file: str) -> None:
        """Make a local mapped file part of the place. It then survives a power failure."""

    def drop_unnamed(self, named: set[str]) -> None:
        """Delete the mapped files that are not in `named`."""

    # -- all files

    def clean(self, manifest: Manifest, *, all_of_it: bool = False, sure: bool = True) -> None:
        """Delete files that no state needs and no reader may be reading. `all_of_it` ignores readers.

        Without `sure`, clean only if enough was written since the last time.
        """

    def below(self, folder: str) -> Place:
        """Return the place in a folder of this place."""

    def shard(self, name: str, *, changing: bool = False) -> ShardPlace:
        """Return the place of a shard, a part of the state, for reading or for changes."""

    def size(self) -> PlaceSize:
        """Return the size of the place and the time of its last change."""

    def files(self, below: str = "") -> Iterable[str]:
        """Return the names of all files below a folder of the place."""

    def read(self, file: str) -> bytes:
        """Read a small file. Raise FileNotFoundError if it is missing."""

    def download(self, file: str, to: Path) -> None:
        """Copy a file of the place to a new local file."""

    def upload(self, path: Path, file: str) -> None:
        """Copy a local file to the place."""


class ShardPlace(Place, Protocol):
    """The place of one shard. During a change of its parent, `pending` is its new manifest, which the parent then swaps."""

    pending: Manifest | None

    def begin(self, manifest: Manifest, writer: WritingRight) -> None:
        """Begin a change of the parent with the shard's manifest and the parent's right to write."""
