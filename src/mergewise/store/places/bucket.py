"""An index below a prefix of a bucket: its manifest is swapped by a conditional put, and its mapped files are kept here.

A put says which manifest it replaces, and fails where that is no longer the one that stands. A manifest tells who wrote it, and
how many came before: so a put whose answer was lost is recognised, and a question knows which of two states is the later one.

Names of tables, versions and files are the same as in a folder, so that `copy_index` copies files and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mergewise.errors import IndexBusy, MergewiseError, StoreError, UsageError
from mergewise.files import user_directory
from mergewise.ranges import short_repr
from mergewise.store.lance_import import OPENINGS, Sessions, connect, connect_for_reading, table_of
from mergewise.store.lance_versions import (
    check_own_content,
    files_of_version,
    sizes_of_version,
    version_name,
    version_of,
)
from mergewise.store.manifest import NAME, Manifest, manifest_record, parse_manifest
from mergewise.store.mapped import FOLDER, files_of
from mergewise.store.places.cache import FileCache
from mergewise.store.places.lease import CLOCK, Lease, LeaseHolder
from mergewise.store.places.lease import NAME as LEASE_NAME
from mergewise.store.places.objects import Found, Listed, Objects, Superseded
from mergewise.store.places.place import ManifestState, PlaceSize, Stamp, Tag, WritingRight

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

log = logging.getLogger("mergewise")

# for which what is found to be needed no more stays for readers; changes after which is looked for it
KEPT = timedelta(hours=1)
CLEANED_EVERY = 20
# of each table, which stay openable
VERSIONS = 8
# since when objects are needed no more
UNNEEDED = "unneeded.json"
# files of a table that are copied at once
_STREAMS = 8
# the name of what the manifest holds of the bucket
BESIDE = "place"
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "MS": 0.001, "S": 1, "M": 60, "H": 3600}
# as the name of an index is drawn: a folder of copies has it too
_DRAWN = re.compile(r"[0-9a-f]{16}")
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


@dataclass(frozen=True, slots=True)
class BucketTag:
    """One writing of the manifest. `index` is drawn once for an index, `remade` counts tables that were made anew."""

    etag: str
    sequence: int
    index: str
    remade: int


class Bucket:
    """The `Place` of an index on an object store."""

    def __init__(
        self, url: str, storage: Mapping[str, str], cache: Path | None, cache_size: str | int, refresh: str | float
    ) -> None:
        self.refresh: float | None = amount("the time between two looks is", refresh)
        self._objects = Objects(url, storage)
        # an endpoint is no secret, and may have a bucket of the same name
        identity = blake2b(f"{storage.get('endpoint', storage.get('aws_endpoint', ''))} {url}".encode(), digest_size=8)
        name = f"{re.sub('[^A-Za-z0-9]+', '-', url)[-40:].strip('-')}-{identity.hexdigest()}"
        root = user_directory(None, ".cache") / "buckets" if cache is None else cache / "buckets"
        self._cache = FileCache(root, name, int(amount("the size of the cache is", cache_size)))
        self.directory = self._cache.directory
        self._lease = Lease(self._objects)
        self._known: ManifestState | None = None
        self._lock = Lock()
        self._remade = 0
        self._sessions = Sessions()
        self._openings = 0
        self._connection: Any = None
        self._database: Any = None
        # versions of tables that were found to have all their files here
        self._own: set[tuple[str, int, int]] = set()
        # the copied files of versions of tables; none is made where they are `_direct`ly read
        self._copied: dict[tuple[str, int], frozenset[str]] = {}
        self._direct = False

    def __str__(self) -> str:
        return self._objects.url

    __repr__ = __str__

    # -- the manifest

    def manifest(self) -> ManifestState | None:
        known = self._known
        try:
            found = self._objects.get(NAME) if known is None else self._objects.get_newer(NAME, _tag(known).etag)
        except FileNotFoundError:
            raise self._error_of_replacement() from None
        if found is None:
            return known
        state = self._state(found)
        self.know(state)
        return state

    def newer(self) -> ManifestState | None:
        """The state that stands where it is not the one that is known. Questions do not get it before it is made `know`n."""
        known = self._known
        if known is None:
            return None
        self._cache.touch()
        found = self._objects.get_newer(NAME, _tag(known).etag)
        if found is None:
            return None
        state = self._state(found)
        if _tag(state).remade != self._remade:
            # before any of its tables is opened: versions of those that were made anew have the names of older ones
            self._remade = _tag(state).remade
            self._connect_anew()
        return state

    def known(self) -> Manifest | None:
        state = self._known or self.manifest()
        return None if state is None else state.manifest

    def know(self, state: ManifestState) -> None:
        with self._lock:
            if self._known is None or _tag(self._known).sequence < _tag(state).sequence:
                self._known = state
                self._remade = _tag(state).remade
                self._direct = False
                named = set(state.manifest.tables.items())
                self._copied = {version: files for version, files in self._copied.items() if version in named}
                self._name_files(state.manifest)

    def _name_files(self, manifest: Manifest) -> None:
        mapped = (f"{FOLDER}/{file}" for file in files_of(manifest.mapped))
        self._cache.named = frozenset(mapped).union(*self._copied.values())

    def _state(self, found: Found) -> ManifestState:
        manifest, beside = parse_manifest(found.content, self, BESIDE)
        try:
            tag = BucketTag(found.tag, int(beside["sequence"]), str(beside["index"]), int(beside["remade"]))
            if not _DRAWN.fullmatch(tag.index):
                raise ValueError
        except (TypeError, KeyError, ValueError):
            raise StoreError(f"{self}/{NAME} was not written to a bucket", "copy the index: `mergewise copy`") from None
        if self._known is not None and tag.index != _tag(self._known).index:
            raise self._error_of_replacement()
        return ManifestState(manifest, tag)

    def check_same(self) -> None:
        """Whoever reads or swaps the manifest sees whose it is: nothing is asked here."""

    def _error_of_replacement(self) -> StoreError:
        return StoreError(
            f"{self} is no longer the index that was opened: it was replaced or deleted", "open the index that you mean"
        )

    def check_plain(self) -> None:
        """A bucket holds objects alone."""

    def create(self, manifest: Manifest, wait: float) -> None:
        if self._objects.get(NAME) is not None:
            return
        self._objects.check_conditional_writes(f".conditions-{secrets.token_hex(8)}")
        try:
            self._put(manifest, None, "", secrets.token_hex(8))
        except Superseded:
            log.info("another process made %s an index", self)

    def swap(self, manifest: Manifest, tag: Tag, writer: WritingRight) -> Tag:
        assert isinstance(tag, BucketTag) and isinstance(writer, LeaseHolder)
        writer.check()
        try:
            return self._put(manifest, tag, writer.holder, tag.index)
        except Superseded:
            raise IndexBusy(f"another writer has changed {self} meanwhile", "try again") from None

    def _put(self, manifest: Manifest, before: BucketTag | None, writer: str, index: str) -> BucketTag:
        beside: dict[str, Any] = {
            "sequence": 1 if before is None else before.sequence + 1,
            "index": index,
            "remade": self._remade,
            # with the sequence, what no other writer puts
            "writer": f"{writer}-{secrets.token_hex(8)}",
        }
        content = json.dumps({**manifest_record(manifest), BESIDE: beside}, indent=1).encode()
        etag = self._objects.swap(NAME, content, None if before is None else before.etag)
        tag = BucketTag(etag, beside["sequence"], index, self._remade)
        self.know(ManifestState(manifest, tag))
        self._own |= {(name, version, self._remade) for name, version in manifest.tables.items()}
        return tag

    @contextmanager
    def writer(self, wait: float) -> Iterator[LeaseHolder]:
        with self._lease.hold(wait) as holder:
            yield holder

    # -- tables

    async def open_table(self, name: str, version: int) -> AsyncTable:
        """Of a copy on this machine, where there is room for one: then no question asks the bucket for anything."""
        if await asyncio.to_thread(self._copy, name, version):
            copies = await connect_for_reading(self.directory / self._copies, self._sessions)
            return await table_of(copies, name, version)
        self._count_opening()
        if self._connection is None:
            self._connection = await connect_for_reading(self, self._sessions, self._objects.storage)
        return await table_of(self._connection, name, version)

    @property
    def _copies(self) -> str:
        """The folder of copies: an index, or a table, that was made anew counts its versions from the beginning."""
        assert self._known is not None
        return f"copies/{_tag(self._known).index}-{self._remade}"

    def _copy(self, name: str, version: int) -> bool:
        """Whether all files of a version are on this machine, as far as their sizes tell. Those that are not are fetched."""
        if self._direct:
            return False
        table = f"{name}.lance"
        sizes = sizes_of_version(self._version(name, version))
        if sizes is None or sum(size or 0 for size in sizes.values()) > self._cache.most:
            return False

        def fetch(file: str) -> None:
            self._fetch_copy(f"{table}/{file}", sizes[file])

        try:
            with ThreadPoolExecutor(_STREAMS) as pool:
                list(pool.map(fetch, sizes))
        except OSError as error:
            log.info("%s of %s is not copied: %s", name, self, error)
            return False
        with self._lock:
            files = [version_name(version), *sizes]
            self._copied[name, version] = frozenset(f"{self._copies}/{table}/{file}" for file in files)
            if self._known is not None:
                self._name_files(self._known.manifest)
        return True

    def _fetch_copy(self, file: str, size: int | None = None) -> Path:
        return self._cache.fetch(f"{self._copies}/{file}", lambda part: self.download(file, part), size=size)

    def _count_opening(self) -> None:
        """A connection asks the bucket for catalogues first, so that it serves for many tables; but what LanceDB keeps grows."""
        self._openings += 1
        if self._openings % OPENINGS == 0:
            self._connect_anew()

    def database(self) -> Any:
        self._count_opening()
        if self._database is None:
            self._database = connect(self, self._sessions, self._objects.storage)
        return self._database

    def create_table(self, name: str, schema: pa.Schema) -> Any:
        # what is there is written over by a further version, never dropped: a writer that was given up may do it
        there = any(True for _ in self._objects.listed(f"{name}.lance/_versions"))
        return self.database().create_table(name, schema=schema, mode="overwrite" if there else "create")

    def drop_table(self, name: str) -> None:
        self._objects.delete([one.name for one in self._objects.listed(f"{name}.lance")])
        self._remade += 1
        self.read_anew()

    def read_anew(self) -> None:
        self._connect_anew()
        self._direct = True

    def _connect_anew(self) -> None:
        self._connection = self._database = None
        self._sessions.begin_anew()

    def drop_copies(self) -> bool:
        if not self._copied:
            return False
        log.warning("the copies of %s on this machine are damaged: they are dropped", self)
        shutil.rmtree(self.directory / self._copies, ignore_errors=True)
        self._copied = {}
        self.read_anew()
        return True

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

    # -- mapped files

    def fetch(self, file: str, *, anew: bool = False) -> Path:
        name = f"{FOLDER}/{file}"
        return self._cache.fetch(name, lambda part: self.download(name, part), anew=anew)

    def publish(self, file: str) -> None:
        self.upload(self._cache.path(f"{FOLDER}/{file}"), f"{FOLDER}/{file}")

    def drop_unnamed(self, named: set[str]) -> None:
        """A file that another writer has just published may be among them: they are left to `clean`."""

    # -- everything

    def clean(self, manifest: Manifest, *, all_of_it: bool = False, sure: bool = True) -> None:
        sequence = 0 if self._known is None else _tag(self._known).sequence
        if not sure and sequence % CLEANED_EVERY:
            return
        listed = list(self._objects.listed())
        now = self._objects.now(CLOCK).timestamp()
        # a killed writer's are later ones than those that are named
        early = {one for table in manifest.tables for one in _old_versions(table, listed, manifest.tables[table])}
        needed = self._needed_names(manifest)
        unneeded = [one.name for one in listed if not _is_kept(one.name, needed) and one.name not in early]
        seen = self._seen_unneeded()
        since = {name: min(seen.get(name, now), now) for name in unneeded}
        gone = {name for name, first in since.items() if now - first > KEPT.total_seconds()}
        # before anything goes: what is needed again meanwhile is seen anew then
        left = {name: first for name, first in since.items() if name not in gone}
        self._objects.put(UNNEEDED, json.dumps(left).encode())
        self._objects.delete(sorted(early | gone))
        log.debug("cleaned %s: %d of %d objects went", self, len(early) + len(gone), len(listed))

    def _needed_names(self, manifest: Manifest) -> set[str]:
        needed = {NAME, LEASE_NAME, CLOCK, UNNEEDED}
        needed |= {f"{FOLDER}/{file}" for file in files_of(manifest.mapped)}
        for name, version in manifest.tables.items():
            files = files_of_version(self._version(name, version))
            needed |= {f"{name}.lance/{file}" for file in (version_name(version), *files)}
        return needed

    def _seen_unneeded(self) -> dict[str, float]:
        """Since when each object is known to be needed no more, by the clock of the object store."""
        found = self._objects.get(UNNEEDED)
        try:
            return {} if found is None else {str(name): float(at) for name, at in json.loads(found.content).items()}
        except (ValueError, TypeError, AttributeError):
            return {}

    def size(self) -> PlaceSize:
        listed = list(self._objects.listed())
        return PlaceSize(
            sum(one.bytes for one in listed), max(one.put_at.timestamp() for one in listed if one.name == NAME)
        )

    def files(self, below: str = "") -> Iterator[str]:
        return (one.name for one in self._objects.listed(below))

    def read(self, file: str) -> bytes:
        found = self._objects.get(file)
        if found is None:
            raise FileNotFoundError(f"{self} has no {file}")
        return found.content

    def download(self, file: str, to: Path) -> None:
        try:
            self._objects.download(file, to)
        except MergewiseError as error:
            log.info("%s/%s is not downloaded: %s", self, file, error)
            raise

    def upload(self, path: Path, file: str) -> None:
        self._objects.put(file, path)


def amount(what: str, given: str | float) -> float:
    """Bytes or seconds, with a unit or without. Raises UsageError."""
    match = _AMOUNT.fullmatch(str(given))
    if match is None or match[2].upper() not in _UNITS:
        raise UsageError(f"{what} {short_repr(given)}", 'give a number, or one with a unit such as "10GB" or "1s"')
    return float(match[1]) * _UNITS[match[2].upper()]


def _tag(state: ManifestState) -> BucketTag:
    assert isinstance(state.tag, BucketTag)
    return state.tag


def _old_versions(table: str, listed: Iterable[Listed], named: int) -> list[str]:
    """The files that say what versions consist of, but for the last ones: LanceDB reads each of them when it rearranges rows.

    Whoever has a version open has read its file.
    """
    below = (one.name for one in listed if one.name.startswith(f"{table}.lance/_versions/"))
    versions = {name: number for name in below if (number := version_of(Path(name))) is not None}
    last = sorted(versions.values())[-VERSIONS:]
    return [name for name, number in versions.items() if number < min(*last, named)]


def _is_kept(name: str, needed: set[str]) -> bool:
    """Also a file of a search index, of which a version names the folder alone; the files of versions; and the note of the last
    one."""
    parts = name.split("/")
    return name in needed or "/".join(parts[:3]) in needed or parts[1:2] == ["_versions"]
