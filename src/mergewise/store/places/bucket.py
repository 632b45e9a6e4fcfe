"""An index below a prefix of a bucket. A conditional put swaps the manifest; mapped files are cached locally.

A put names the manifest that it replaces, and fails if another manifest is current. A manifest holds its writer and a sequence
number. So a put is recognised even if its response was lost, and of two states the later one is known.

Tables, versions and files have the same names as in a folder, so `copy_index` only copies files.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from errno import ENOSPC
from hashlib import blake2b
from pathlib import Path
from posixpath import join
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mergewise.errors import IndexBusy, MergewiseError, StoreError, UsageError
from mergewise.files import user_directory
from mergewise.log import log
from mergewise.ranges import short_repr
from mergewise.store.digests import file_digest
from mergewise.store.lance_import import OPENINGS, Sessions, connect, connect_for_reading, table_of
from mergewise.store.lance_versions import (
    check_own_content,
    files_of_version,
    sizes_of_version,
    version_name,
    version_of,
)
from mergewise.store.manifest import NAME, SHARDS_NAME, Manifest, ShardedManifest, manifest_bytes, parse_manifest
from mergewise.store.mapped import FOLDER, files_of
from mergewise.store.places.cache import FileCache
from mergewise.store.places.lease import CLOCK, Lease, LeaseHolder
from mergewise.store.places.lease import NAME as LEASE_NAME
from mergewise.store.places.objects import ListedObject, Objects, StoredObject, Superseded
from mergewise.store.places.place import ManifestState, PlaceSize, Stamp, Tag, WritingRight
from mergewise.store.places.shard import ShardState
from mergewise.types import frozen

if TYPE_CHECKING:
    from lancedb._lancedb import Table as LanceTable

# time for which unneeded objects stay, for the sake of readers
KEPT = timedelta(hours=1)
# number of changes between two cleanings
CLEANED_EVERY = 20
# number of versions of each table that stay openable
VERSIONS = 8
# the object that records since when other objects are unneeded
UNNEEDED = "unneeded.json"
# number of files of a table that are copied in parallel
_STREAMS = 8
# the manifest's key of the fields that only buckets have
BUCKET_FIELDS = "place"
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "MS": 0.001, "S": 1, "M": 60, "H": 3600}
# the form of an index's random name, which also names the folder of its copies
_INDEX_NAME = re.compile(r"[0-9a-f]{16}")
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


@frozen
class BucketTag:
    """One write of the manifest. `index` is a random name of the index, `remade` counts recreated tables."""

    etag: str
    sequence: int
    index: str
    remade: int


class Bucket:
    """The `Place` of an index on an object store."""

    def __init__(
        self, url: str, storage: Mapping[str, str], cache: Path | None, cache_size: str | int, refresh: str | float
    ) -> None:
        self._options = cache, cache_size, refresh
        self.refresh: float | None = amount("refresh interval", refresh)
        self._objects = Objects(url, storage)
        # the endpoint is part of the name: two endpoints may have buckets of the same name
        identity = blake2b(f"{storage.get('endpoint', storage.get('aws_endpoint', ''))} {url}".encode(), digest_size=8)
        name = f"{re.sub('[^A-Za-z0-9]+', '-', url)[-40:].strip('-')}-{identity.hexdigest()}"
        root = user_directory(None, ".cache") / "buckets" if cache is None else cache / "buckets"
        self._cache = FileCache(root, name, int(amount("cache size", cache_size)))
        self.directory, self.cache_bytes = self._cache.directory, self._cache.most
        self._lease = Lease(self._objects)
        self._known: ManifestState | None = None
        self._shards: dict[tuple[str, bool], BucketShard] = {}
        self._lock, self._renewing = Lock(), Lock()
        self._warned = False
        self._remade = 0
        self._sessions = Sessions()
        self.compared: set[tuple[str, str]] = set()
        self.renewals = 0
        self._openings = 0
        self._connection: Any = None
        self._database: Any = None
        # versions of tables that are known to have no files elsewhere
        self._own: set[tuple[str, int, int]] = set()
        # the copied files of each version of a table; with `_direct` tables are read from the bucket, without copies
        self._copied: dict[tuple[str, int], frozenset[str]] = {}
        self._direct = False

    def __str__(self) -> str:
        return self._objects.url

    __repr__ = __str__

    # -- the manifest

    def manifest(self) -> ManifestState | None:
        known = self._known
        try:
            found = (
                self._newer(known) if known is not None else self._objects.get(NAME) or self._objects.get(SHARDS_NAME)
            )
        except FileNotFoundError:
            raise self._replaced_error() from None
        if found is None:
            return known
        state = self._state(found)
        self.know(state)
        return state

    def _newer(self, known: ManifestState) -> StoredObject | None:
        return self._objects.get_newer(known.manifest.file, known.tag.etag)

    def newer(self) -> ManifestState | None:
        """Return the current state if it differs from the known one. Queries use it only after `know`."""
        known = self._known
        if known is None:
            return None
        self.touch()
        found = self._newer(known)
        if found is None:
            return None
        state = self._state(found)
        self._remake(state.tag.remade)
        return state

    def _remake(self, remade: int) -> None:
        """Reset the connections if tables were recreated: their versions have the names of older versions."""
        if any(place._remade != remade for place in self._places()):
            for place in self._places():
                place._remade = remade
            self._reset_connections()

    def _places(self) -> list[Bucket]:
        """Return this place and those of its shards."""
        return [self, *self._shards.values()]

    def known(self) -> Manifest | None:
        state = self._known or self.manifest()
        return None if state is None else state.manifest

    def know(self, state: ManifestState) -> None:
        """Use this state for queries from now on, unless a later state is already in use."""
        with self._lock:
            if self._known is None or self._known.tag.sequence < state.tag.sequence:
                self._known = state
                self._remade = state.tag.remade
                self._direct = False
                named = set(state.manifest.tables.items())
                self._copied = {version: files for version, files in self._copied.items() if version in named}
                self._name_files(state.manifest)
            for shard in self._shards.values():
                shard.know_part(state)

    def shard(self, name: str, *, changing: bool = False) -> BucketShard:
        with self._lock:
            if (name, changing) not in self._shards:
                shard = self._shards[name, changing] = BucketShard(self, name)
                if self._known is not None:
                    shard.know_part(self._known)
            return self._shards[name, changing]

    def below(self, folder: str) -> Bucket:
        return Bucket(f"{self}/{folder}", self._objects.storage, *self._options)

    def _name_files(self, manifest: Manifest) -> None:
        mapped = (f"{FOLDER}/{file}" for file in files_of(manifest.mapped))
        self._cache.named = frozenset(mapped).union(*self._copied.values())

    def _state(self, found: StoredObject) -> ManifestState:
        manifest, fields = parse_manifest(found.content, self, BUCKET_FIELDS)
        try:
            tag = BucketTag(found.tag, int(fields["sequence"]), str(fields["index"]), int(fields["remade"]))
            if not _INDEX_NAME.fullmatch(tag.index):
                raise ValueError
        except (TypeError, KeyError, ValueError):
            raise StoreError(
                f"{self}/{NAME} is not a manifest for a bucket", "copy the index: `mergewise copy`"
            ) from None
        if self._known is not None and tag.index != self._known.tag.index:
            raise self._replaced_error()
        return ManifestState(manifest, tag)

    def check_same(self) -> None:
        """Do nothing: every read or swap of the manifest checks the index."""

    def _replaced_error(self) -> StoreError:
        return StoreError(f"{self} was replaced or deleted since it was opened", "open the index again")

    def check_plain(self) -> None:
        """Do nothing: a bucket holds only objects."""

    def create(self, manifest: Manifest, wait: float) -> None:
        if self._objects.get(manifest.file) is not None:
            return
        self._objects.check_conditional_writes(f".conditions-{secrets.token_hex(8)}")
        try:
            self._put(manifest, None, "", secrets.token_hex(8))
        except Superseded:
            log.info("another process has created %s", self)

    def drop_state(self) -> None:
        self._objects.delete([NAME, SHARDS_NAME])

    def swap(self, manifest: Manifest, tag: Tag, writer: WritingRight) -> Tag:
        assert isinstance(writer, LeaseHolder)
        writer.check()
        try:
            return self._put(manifest, tag, writer.holder, tag.index)
        except Superseded:
            raise IndexBusy(f"another writer has changed {self}", "try again") from None

    def _put(self, manifest: Manifest, before: BucketTag | None, writer: str, index: str) -> BucketTag:
        remade = max(place._remade for place in self._places())
        fields: dict[str, Any] = {
            "sequence": 1 if before is None else before.sequence + 1,
            "index": index,
            "remade": remade,
            # makes the content unique to this writer
            "writer": f"{writer}-{secrets.token_hex(8)}",
        }
        content = manifest_bytes(manifest, {BUCKET_FIELDS: fields})
        etag = self._objects.swap(manifest.file, content, None if before is None else before.etag)
        self._remake(remade)
        tag = BucketTag(etag, fields["sequence"], index, remade)
        self.know(ManifestState(manifest, tag))
        self._own |= {(name, version, self._remade) for name, version in manifest.tables.items()}
        return tag

    def is_locked(self) -> bool:
        """Return False: to know whether another process is changing the index would cost a request."""
        return False

    @contextmanager
    def writer(self, wait: float) -> Iterator[WritingRight]:
        with self._lease.hold(wait) as holder:
            yield holder

    # -- local copies of files

    def copied_bytes(self, manifest: Manifest) -> int:
        needed = self._needed_names(manifest)
        return sum(entry.bytes for entry in self._objects.entries() if _is_kept(entry.name, needed))

    def touch(self) -> None:
        """Tell other processes that queries of this process need its local copies."""
        for place in self._places():
            place._cache.touch()

    # -- tables

    async def open_table(self, name: str, version: int) -> LanceTable:
        """Open a local copy if there is room for one, so that queries need no requests to the bucket."""
        if await asyncio.to_thread(self._copy, name, version):
            return await table_of(await connect_for_reading(self.tables, self._sessions), name, version)
        self._count_opening()
        if self._connection is None:
            self._connection = await connect_for_reading(self, self._sessions, self._objects.storage)
        return await table_of(self._connection, name, version)

    @property
    def _copies(self) -> str:
        """The folder of copies, with index and `remade` in its name: a recreated table counts its versions from the beginning."""
        assert self._known is not None
        return f"copies/{self._known.tag.index}-{self._remade}"

    @property
    def tables(self) -> Path:
        """The folder of copies, or one without any if tables are read from the bucket."""
        return self.directory / ("" if self._direct else self._copies)

    def _copy(self, name: str, version: int) -> bool:
        """Copy the missing files of a version to this machine. Return whether all files are here now, judged by their sizes."""
        if self._direct:
            return False
        table = f"{name}.lance"
        sizes = sizes_of_version(self._version(name, version))
        if sizes is None:
            return False
        if sum(size or 0 for size in sizes.values()) > self._cache.most:
            self._warn_of_small_cache()
            return False

        def fetch(file: str) -> None:
            self._fetch_copy(f"{table}/{file}", sizes[file])

        try:
            # `_version` reads it even if there is no room for a copy
            self._fetch_copy(f"{table}/{version_name(version)}")
            with ThreadPoolExecutor(_STREAMS) as pool:
                list(pool.map(fetch, sizes))
        except OSError as error:
            log.info("cannot copy %s of %s: %s", name, self, error)
            self._warn_of_small_cache()
            return False
        with self._lock:
            self._copied[name, version] = frozenset(
                f"{self._copies}/{table}/{file}" for file in (version_name(version), *sizes)
            )
            if self._known is not None:
                self._name_files(self._known.manifest)
        return True

    def _fetch_copy(self, file: str, size: int | None = None) -> Path:
        return self._cache.fetch(f"{self._copies}/{file}", lambda part: self.download(file, part), size=size)

    def _count_opening(self) -> None:
        """Count the opened tables, and reconnect from time to time.

        A new connection reads catalogues from the bucket, so it serves many tables. But LanceDB's caches grow with each table.
        """
        self._openings += 1
        if self._openings % OPENINGS == 0:
            self._reset_connections()

    def database(self) -> Any:
        self._count_opening()
        if self._database is None:
            self._database = connect(self, self._sessions, self._objects.storage)
        return self._database

    def create_table(self, name: str, schema: pa.Schema) -> Any:
        # an existing table gets a further version and is never dropped, because a writer that lost its lease may get here
        exists = any(True for _ in self._objects.entries(f"{name}.lance/_versions"))
        return self.database().create_table(name, schema=schema, mode="overwrite" if exists else "create")

    def drop_table(self, name: str) -> None:
        self._objects.delete([listed.name for listed in self._objects.entries(f"{name}.lance")])
        self._remade += 1
        self.bypass_caches()

    def bypass_caches(self, bypass: bool = True) -> None:
        self._reset_connections()
        self._direct = bypass

    def _reset_connections(self) -> None:
        for place in self._places():
            place._connection = place._database = None
            place.compared.clear()
        self._sessions.reset()

    def renew_copies(self) -> None:
        """Replace all local copies of files, because some may be damaged."""
        if not self._renewing.acquire(blocking=False):
            # another thread is doing it
            with self._renewing:
                return
        try:
            log.warning("local copies of %s may be damaged: downloading them again", self)
            self.renewals += 1
            self._reset_connections()

            def renew(path: Path) -> None:
                """Replace a cached file that queries of this process use. Delete any other."""
                name = path.relative_to(self.directory).as_posix()
                if name not in self._cache.named:
                    path.unlink(missing_ok=True)
                    return
                stored = name.removeprefix(f"{self._copies}/")
                with suppress(OSError):
                    self._cache.fetch(name, lambda part: self.download(stored, part), again=True)

            with ThreadPoolExecutor(_STREAMS) as pool:
                list(pool.map(renew, [path for path in self.directory.rglob("*") if path.is_file()]))
        finally:
            self.renewals += 1
            self._renewing.release()

    def stamp(self, name: str, version: int) -> Stamp:
        return (name, version, self._remade)

    def is_untouched(self, name: str, version: int, stamp: Stamp, writer: WritingRight) -> bool:
        assert isinstance(writer, LeaseHolder)
        return writer.alone

    def check_own_files(self, name: str, version: int) -> None:
        checked = (name, version, self._remade)
        if checked not in self._own:
            check_own_content(self._version(name, version), f"{self}/{name}.lance")
            self._own.add(checked)

    def _version(self, name: str, version: int) -> bytes:
        file = f"{name}.lance/{version_name(version)}"
        try:
            return self.read(file) if self._direct else self._fetch_copy(file).read_bytes()
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise
            return self.read(file)

    def local(self, file: str) -> Path | None:
        copy = self.tables / file
        return copy if copy.is_file() else None

    def digest(self, file: str) -> str:
        if not self._direct:
            with suppress(OSError):
                is_mapped = file.startswith(f"{FOLDER}/")
                return file_digest(self.directory / file if is_mapped else self._fetch_copy(file))
        with TemporaryDirectory(prefix="mergewise-") as folder:
            self.download(file, Path(folder) / "file")
            return file_digest(Path(folder) / "file")

    # -- mapped files

    def fetch(self, file: str, *, again: bool = False) -> Path:
        name = f"{FOLDER}/{file}"
        try:
            return self._cache.fetch(name, lambda part: self.download(name, part), again=again)
        except OSError as error:
            if error.errno == ENOSPC:
                self._warn_of_small_cache()
            raise

    def _warn_of_small_cache(self) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                "cache too small for %s: it holds %s MB, the index has %s MB, so each question reads from the bucket; "
                "set `cache_size` to more than the index",
                self,
                *(round(size / 1e6, 1) for size in (self._cache.most, self.size().bytes)),
            )

    def publish(self, file: str) -> None:
        self.upload(self.directory / f"{FOLDER}/{file}", f"{FOLDER}/{file}")

    def drop_unnamed(self, named: set[str]) -> None:
        """Do nothing: another writer may just have published such a file, so `clean` decides."""

    # -- all files

    def hold(self, manifest: Manifest) -> object:
        return None

    def clean(self, manifest: Manifest, *, all_of_it: bool = False, sure: bool = True) -> None:
        sequence = 0 if self._known is None else self._known.tag.sequence
        if not sure and sequence % CLEANED_EVERY:
            return
        listed = list(self._objects.entries())
        now = self._objects.now(CLOCK).timestamp()
        # versions of a killed writer are later than the named versions, so they are not among these
        tables = {
            join(folder, name): part.tables[name] for folder, part in manifest.parts.items() for name in part.tables
        }
        old = {name for table, version in tables.items() for name in _old_versions(table, listed, version)}
        needed = self._needed_names(manifest)
        unneeded = [entry.name for entry in listed if not _is_kept(entry.name, needed) and entry.name not in old]
        # the time since which each object is unneeded, by the clock of the object store
        found, seen = self._objects.get(UNNEEDED), dict[str, float]()
        with suppress(ValueError, TypeError, AttributeError):
            seen = {} if found is None else {str(name): float(at) for name, at in json.loads(found.content).items()}
        since = {name: min(seen.get(name, now), now) for name in unneeded}
        expired = {name for name, first in since.items() if now - first > KEPT.total_seconds()}
        # before the deletion, so that a name that is used again starts a new period
        waiting = {name: first for name, first in since.items() if name not in expired}
        self._objects.put(UNNEEDED, json.dumps(waiting).encode())
        self._objects.delete(sorted(old | expired))
        log.debug("cleaned %s: deleted %d of %d objects", self, len(old) + len(expired), len(listed))

    def _needed_names(self, manifest: Manifest) -> set[str]:
        needed = {NAME, SHARDS_NAME, LEASE_NAME, CLOCK, UNNEEDED}
        if isinstance(manifest, ShardedManifest):
            needed.add(manifest.folders[1])
        for folder, part in manifest.parts.items():
            needed |= {join(folder, FOLDER, file) for file in files_of(part.mapped)}
            for name, version in part.tables.items():
                table = join(folder, name)
                files = files_of_version(self._version(table, version))
                # of the versions, `clean` itself names the old ones
                needed |= {f"{table}.lance/{file}" for file in ("_versions", *files)}
        return needed

    def size(self) -> PlaceSize:
        listed = list(self._objects.entries())
        return PlaceSize(
            sum(entry.bytes for entry in listed),
            max(entry.put_at.timestamp() for entry in listed if entry.name in (NAME, SHARDS_NAME)),
        )

    def files(self, below: str = "") -> Iterator[str]:
        return (listed.name for listed in self._objects.entries(below))

    def read(self, file: str) -> bytes:
        found = self._objects.get(file)
        if found is None:
            raise FileNotFoundError(f"{self} has no {file}")
        return found.content

    def download(self, file: str, to: Path) -> None:
        try:
            self._objects.download(file, to)
        except MergewiseError as error:
            log.info("cannot download %s/%s: %s", self, file, error)
            raise

    def upload(self, path: Path, file: str) -> None:
        self._objects.put(file, path)


class BucketShard(ShardState, Bucket):
    """The `Place` of one shard on an object store. The parent makes the state known to it."""

    parent: Bucket

    def __init__(self, parent: Bucket, name: str) -> None:
        Bucket.__init__(self, f"{parent}/{name}", parent._objects.storage, *parent._options)
        ShardState.__init__(self, parent, name)
        # all shards share the caches of search indexes
        self._sessions = parent._sessions

    def _warn_of_small_cache(self) -> None:
        self.parent._warn_of_small_cache()

    def know_part(self, state: ManifestState) -> None:
        own = state.manifest.parts.get(self.name)
        # a shard of a state that the parent will know later needs only the tag
        if own is not None or self._known is None:
            self.know(ManifestState(own or state.manifest, state.tag))

    def check_same(self) -> None:
        """Do nothing: every read or swap of the parent's state checks the index."""


def amount(name: str, given: str | float) -> float:
    """Parse bytes or seconds, with or without a unit. Raise UsageError if the value is invalid."""
    match = _AMOUNT.fullmatch(str(given))
    if match is None or match[2].upper() not in _UNITS:
        raise UsageError(
            f"invalid {name}: {short_repr(given)}", 'give a number, or a number with a unit ("10GB", "1s")'
        )
    return float(match[1]) * _UNITS[match[2].upper()]


def _old_versions(table: str, listed: Iterable[ListedObject], named: int) -> list[str]:
    """Return the manifests of a table's old versions, all but the last `VERSIONS`.

    LanceDB reads every version's manifest when it rearranges rows. A reader with an open version has already read its manifest.
    """
    below = (entry.name for entry in listed if entry.name.startswith(f"{table}.lance/_versions/"))
    versions = {name: number for name in below if (number := version_of(Path(name))) is not None}
    last = sorted(versions.values())[-VERSIONS:]
    return [name for name, number in versions.items() if number < min(*last, named)]


def _is_kept(name: str, needed: set[str]) -> bool:
    """Return whether an object stays: a needed one, or a file in a needed folder, such as that of a search index."""
    parts = name.split("/")
    folders = ("/".join(parts[:end]) for end in range(1, len(parts)))
    return name in needed or any(folder in needed for folder in folders)
