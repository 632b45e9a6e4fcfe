"""An index in a folder. A file lock admits one writing process at a time, and a rename replaces the manifest."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mergewise.errors import CorruptIndex, IndexBusy, StoreError, UsageError
from mergewise.files import PinnedDirectory, new_file, regular_bytes, write_whole
from mergewise.log import log
from mergewise.store.digests import file_digest
from mergewise.store.lance_import import Sessions, connect, connect_for_reading, table_of
from mergewise.store.lance_versions import check_own_content, version_bytes, version_name
from mergewise.store.manifest import Manifest, ShardedManifest, check_plain, read_manifest, state_file, write_manifest
from mergewise.store.mapped import FOLDER
from mergewise.store.places.place import ManifestState, PlaceSize, Stamp, Tag, WritingRight
from mergewise.store.places.shard import ShardState
from mergewise.store.sweep import Hold, bytes_within, drop_generations, is_read, sweep

if TYPE_CHECKING:
    from lancedb._lancedb import Table as LanceTable

# old versions are dropped if the index has grown by this factor and these bytes since the last time
GROWN, GROWN_BY = 1.25, 1_000_000
# the file of a shard's folder that records its index and its number
OWN_NAME = "shard.json"
_LONGEST_OWN = 1_000


class LockHolder:
    """The right to write to a folder. The file lock ends with its process, so nobody takes over from a live one."""

    took_over = False

    def check(self) -> None:
        """Raise IndexBusy once another writer may have taken over."""


class Folder:
    """The `Place` of an index in a directory."""

    # seconds between background checks for a newer state, or None if `known` reads the state each time
    refresh: float | None = None
    # largest number of bytes of the local copies, or 0 if files are read where they are
    cache_bytes = 0

    def __init__(self, directory: Path) -> None:
        self.directory = self.tables = directory
        self._held: PinnedDirectory | None = None
        self._sessions = Sessions()
        # files of tables with their digests, once this process has compared or written them
        self.compared: set[tuple[str, str]] = set()
        # changes at the start and at the end of each `renew_copies`
        self.renewals = 0
        # size of the index in bytes when old versions were last dropped
        self._swept = 0
        self._shards: dict[tuple[str, bool], FolderShard] = {}

    def __str__(self) -> str:
        return str(self.directory)

    # -- the manifest

    def manifest(self) -> ManifestState | None:
        """Read the current manifest. Return None if the place holds no index."""
        manifest = read_manifest(self.directory)
        return None if manifest is None else ManifestState(manifest, None)

    def known(self) -> Manifest | None:
        """Return the manifest that queries use."""
        return read_manifest(self.directory)

    def know(self, state: ManifestState) -> None:
        """Do nothing: each query reads the manifest."""

    def newer(self) -> None:
        """Return None: each query reads the manifest."""

    def create(self, manifest: Manifest, wait: float) -> None:
        """Create an index, unless another process just did. Raise UsageError if that is impossible."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot create {self}: {error.strerror}", "choose another --index") from None
        with self.writer(wait):
            # opening has refused other folders; files of an index may exist before its manifest
            if not state_file(self.directory).exists():
                self.write_first(manifest)

    def write_first(self, manifest: Manifest) -> None:
        """Write the first state. Folders of shards record the id of their index, so that a foreign shard is recognised."""
        if isinstance(manifest, ShardedManifest):
            manifest = replace(manifest, id=secrets.token_hex(16))
            for name in manifest.parts:
                (self.directory / name).mkdir(parents=True, exist_ok=True)
                write_whole(self.directory / name / OWN_NAME, _own_record(manifest, name))
        write_manifest(self.directory, manifest)

    def drop_state(self) -> None:
        """Delete the state, so that nobody opens or changes this place any more. The files stay."""
        state_file(self.directory).unlink(missing_ok=True)

    def below(self, folder: str) -> Folder:
        """Return the place in a folder of this place."""
        return Folder(self.directory / folder)

    def shard(self, name: str, *, changing: bool = False) -> FolderShard:
        """Return the place of a shard, a part of the state, for reading or for changes."""
        return self._shards.setdefault((name, changing), FolderShard(self, name))

    def swap(self, manifest: Manifest, tag: Tag, writer: WritingRight) -> Tag:
        """Replace the manifest atomically. Raise IndexBusy if its tag has changed."""
        self.check_same()
        write_manifest(self.directory, manifest)
        return None

    def check_same(self) -> None:
        """Raise StoreError if another index has replaced the opened one."""
        if self._held is None and self.directory.is_dir():
            self._held = PinnedDirectory(self.directory)
        if self._held is None or not self._held.is_in_place():
            raise StoreError(f"{self} was moved, replaced or deleted since it was opened", "open the index again")

    def check_plain(self) -> None:
        """Raise CorruptIndex if the place holds a kind of file that no index has."""
        check_plain(self.directory)

    def is_locked(self) -> bool:
        """Check whether another process is changing the index."""
        from filelock import FileLock, Timeout

        try:
            with FileLock(self.directory / ".lock").acquire(timeout=0):
                return False
        except Timeout:
            return True
        except OSError:
            # a folder that may only be read
            return False

    @contextmanager
    def writer(self, wait: float) -> Iterator[WritingRight]:
        """Hold the right to write. Raise IndexBusy if others still hold it after `wait` seconds."""
        from filelock import FileLock, Timeout

        # before the lock file is opened, which may be a link
        self.check_plain()
        # a new lock for each change, because a forked process cannot use an inherited one
        lock = FileLock(self.directory / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            log.warning("another process is writing to %s; waiting for it", self)
            try:
                lock.acquire(timeout=wait)
            except Timeout:
                raise IndexBusy(f"another process is writing to {self}", "try again later") from None
        try:
            yield LockHolder()
        finally:
            lock.release()

    # -- tables

    async def open_table(self, name: str, version: int) -> LanceTable:
        """Open a version of a table for reading."""
        return await table_of(await connect_for_reading(self.directory, self._sessions), name, version)

    def database(self) -> Any:
        """Return a `lancedb.DBConnection` for writing."""
        return connect(self.directory, self._sessions)

    def create_table(self, name: str, schema: pa.Schema) -> Any:
        """Create an empty table. Remains of an interrupted change are dropped."""
        database = self.database()
        database.drop_table(name, ignore_missing=True)
        return database.create_table(name, schema=schema)

    def drop_table(self, name: str) -> None:
        """Delete a table that no manifest will name, even if its files are damaged."""
        shutil.rmtree(self._table(name), ignore_errors=True)
        self.bypass_caches()

    def bypass_caches(self, bypass: bool = True) -> None:
        """Drop the caches in memory. From now on, open tables without local copies, or with them again."""
        self._sessions.reset()
        self.compared.clear()

    def renew_copies(self) -> None:
        """Do nothing: a folder has no copies."""

    def stamp(self, name: str, version: int) -> Stamp | None:
        """Return the stamp of a version, or None if the version is missing."""
        with suppress(OSError):
            status = (self._table(name) / version_name(version)).lstat()
            return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        return None

    def is_untouched(self, name: str, version: int, stamp: Stamp, writer: WritingRight) -> bool:
        """Return whether nobody has written to a table since this process opened its last version, with this stamp."""
        return self.stamp(name, version) == stamp and self.stamp(name, version + 1) is None

    def check_own_files(self, name: str, version: int) -> None:
        """Raise CorruptIndex if a version of a table has files outside the place."""
        table = self._table(name)
        check_own_content(version_bytes(table / version_name(version)), table)

    def _table(self, name: str) -> Path:
        return self.directory / f"{name}.lance"

    def local(self, file: str) -> Path:
        """Return the path of a table's file, or None if it is read from a bucket without a copy."""
        return self.directory / file

    def digest(self, file: str) -> str:
        """Return the digest of a file. Raise OSError or StoreError if it is unreadable."""
        return file_digest(self.directory / file)

    # -- mapped files

    def fetch(self, file: str, *, again: bool = False) -> Path:
        """Return the local path of a mapped file. `again` replaces a damaged copy. Raise OSError if the file is missing."""
        if again:
            raise FileNotFoundError(f"no other copy of {file} exists")
        return self.directory / FOLDER / file

    def publish(self, file: str) -> None:
        """Make a local mapped file part of the place. It then survives a power failure."""
        with (self.directory / FOLDER / file).open("rb+") as written:
            os.fsync(written.fileno())

    def drop_unnamed(self, named: set[str]) -> None:
        """Delete the mapped files that are not in `named`."""
        for path in (self.directory / FOLDER).glob("*.arrow"):
            try:
                if path.name not in named:
                    path.unlink()
            except OSError:
                log.debug("cannot remove %s now", path)

    # -- all files

    def clean(self, manifest: Manifest, *, all_of_it: bool = False, sure: bool = True) -> None:
        """Delete files that no state needs and no reader may be reading. `all_of_it` ignores readers.

        Shards keep old files for ten minutes in any case, because a searcher of a cluster may open an earlier state later.
        Without `sure`, clean only if enough was written since the last time.
        """
        if sure or bytes_within(self.directory) > GROWN * self._swept + GROWN_BY:
            parts = manifest.parts.items()
            alone = all_of_it or not (isinstance(manifest, ShardedManifest) or is_read(self.directory, manifest))
            self._swept = sum(sweep(self.directory / name, part, all_of_it=alone) for name, part in parts)
            if isinstance(manifest, ShardedManifest) and manifest.generation > 1:
                drop_generations(self.directory, manifest, all_of_it=all_of_it)

    def hold(self, manifest: Manifest) -> object:
        """Keep the files of a state until the returned object is gone."""
        return Hold(self.directory, manifest)

    def copied_bytes(self, manifest: Manifest) -> int:
        """Return the bytes of the local copies that queries of a state need."""
        return 0

    def touch(self) -> None:
        """Do nothing, since a folder has no copies."""

    def size(self) -> PlaceSize:
        """Return the size of the place and the time of its last change."""
        return PlaceSize(bytes_within(self.directory), state_file(self.directory).stat().st_mtime)

    def files(self, below: str = "") -> Iterator[str]:
        """Return the names of all files below a folder of the place."""
        for folder, _, names in os.walk(self.directory / below):
            yield from ((Path(folder) / name).relative_to(self.directory).as_posix() for name in names)

    def read(self, file: str) -> bytes:
        """Read a small file. Raise FileNotFoundError if it is missing."""
        return (self.directory / file).read_bytes()

    def download(self, file: str, to: Path) -> None:
        """Copy a file of the place to a new local file."""
        shutil.copyfile(self.directory / file, to)

    def upload(self, path: Path, file: str) -> None:
        """Copy a local file to the place."""
        goal = self.directory / file
        goal.parent.mkdir(parents=True, exist_ok=True)
        handle, part = new_file(goal.parent, f".{goal.name}.")
        with os.fdopen(handle, "wb") as out, path.open("rb") as content:
            shutil.copyfileobj(content, out)
            out.flush()
            os.fsync(out.fileno())
        part.replace(goal)


class FolderShard(ShardState, Folder):
    """The `Place` of one shard in a directory."""

    def __init__(self, parent: Folder, name: str) -> None:
        Folder.__init__(self, parent.directory / name)
        ShardState.__init__(self, parent, name)
        # all shards share the caches of search indexes
        self._sessions = parent._sessions

    def check_same(self) -> None:
        """Raise CorruptIndex if the folder is missing, a link, or holds another shard or one of another index."""
        state, own = self.parent.known(), b""
        with suppress(OSError):
            own = regular_bytes(self.directory / OWN_NAME, _LONGEST_OWN)
        known = state if isinstance(state, ShardedManifest) and self.name in state.parts else None
        is_other = known is not None and known.id is not None and own != _own_record(known, self.name)
        if self.directory.is_symlink() or not self.directory.is_dir() or is_other:
            raise CorruptIndex(f"missing or wrong shard: {self}", "restore all shards of this index from the same copy")
        Folder.check_same(self)


def _own_record(manifest: ShardedManifest, name: str) -> bytes:
    names = list(manifest.parts)
    return json.dumps({"index": manifest.id, "shard": names.index(name), "shards": len(names)}).encode()
